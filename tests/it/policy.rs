//! ValidatingAdmissionPolicies: how a cluster refuses single objects.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::objects::Key;

use crate::scene::{Scene, eventually};

/// A policy on a scene's objects, in effect.
pub(crate) struct Policy<'a> {
    scene: &'a Scene,
    pub(crate) name: String,
    probe: Key,
}

impl<'a> Policy<'a> {
    /// Refuses each update after which `expression` (CEL) does not hold, `probe` being an object for which it doesn't.
    pub(crate) async fn apply(scene: &'a Scene, expression: &str, probe: &Key) -> Self {
        let policy = Self { scene, name: format!("{}.example.com", scene.migration()), probe: probe.clone() };
        create_parts(scene, &policy.name, expression).await;
        policy.until_refusing(true).await;
        policy
    }

    /// Takes it away, and waits until it is no longer in effect.
    pub(crate) async fn remove(self) {
        delete_parts(self.scene, &self.name).await;
        self.until_refusing(false).await;
    }

    async fn until_refusing(&self, wish: bool) {
        let Scene { client, kind, .. } = self.scene;
        let api = kind.api(client, "v1", self.probe.namespace.as_deref());
        let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
        eventually("the policy to come into effect, or out of it", async || {
            let answer = api.patch_metadata(&self.probe.name, &dry_run, &Patch::Merge(json!({}))).await;
            let refused =
                matches!(&answer, Err(kube::Error::Api(status)) if status.message.contains(&self.name));
            (refused == wish && (refused || answer.is_ok())).then_some(())
        })
        .await;
    }
}

/// Creates a policy and its binding. They come into effect a moment later.
pub(crate) async fn create_parts(scene: &Scene, name: &str, expression: &str) {
    let policy = json!({
        "metadata": { "name": name },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [{
                "apiGroups": [scene.kind.group], "apiVersions": ["*"],
                "operations": ["UPDATE"], "resources": [scene.kind.plural],
            }] },
            "validations": [{ "expression": expression }],
        },
    });
    let binding = json!({
        "metadata": { "name": name },
        "spec": { "policyName": name, "validationActions": ["Deny"] },
    });
    create::<ValidatingAdmissionPolicy>(scene, policy).await;
    create::<ValidatingAdmissionPolicyBinding>(scene, binding).await;
}

/// Deletes both. They stay in effect for a moment.
pub(crate) async fn delete_parts(scene: &Scene, name: &str) {
    let (client, params) = (scene.client.clone(), DeleteParams::default());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    bindings.delete(name, &params).await.expect("delete the binding");
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client);
    policies.delete(name, &params).await.expect("delete the policy");
}

async fn create<K>(scene: &Scene, object: Value)
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + serde::Serialize,
{
    let object = serde_json::from_value(object).expect("an object of this kind");
    let api: Api<K> = Api::all(scene.client.clone());
    api.create(&PostParams::default(), &object).await.expect("create a part of the policy");
}
