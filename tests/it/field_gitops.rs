//! Field cases of a `storedVersions` that somebody else owns, and writes again and again.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::Api;
use kube::api::{Patch, PatchParams};
use restow::api::{Reason, StorageMigrationStatus};
use serde_json::json;
use testbed::audit::Filter;

use crate::scene::{Scene, counts, reason_of};

#[tokio::test]
async fn b17_a_stored_versions_that_another_manager_owns_is_trimmed_and_nothing_else_is_taken_over() {
    let scene = Scene::old_widgets("b17-owned", 10).await;
    put_back(&scene).await;
    let before = read(&scene).await;
    assert_eq!(owners(&before), ["gitops"]);
    let _controller = scene.begin(json!({})).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 10)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);

    let after = read(&scene).await;
    let (was, is) = (before.status.as_ref().unwrap(), after.status.as_ref().unwrap());
    assert_eq!(is.conditions, was.conditions);
    assert_eq!(is.accepted_names, was.accepted_names);
    assert_eq!(after.metadata.generation, before.metadata.generation);
    assert_eq!(owners(&after), ["restow"]);
    let ours: Vec<_> =
        entries(&after).filter(|entry| entry.manager.as_deref() == Some("restow")).cloned().collect();
    let [ours] = &ours[..] else { panic!("{ours:#?}") };
    assert_eq!(ours.subresource.as_deref(), Some("status"));
    assert_eq!(ours.operation.as_deref(), Some("Update"), "nothing was applied, so nothing is forced");
    assert_eq!(ours.fields_v1.as_ref().unwrap().0, json!({ "f:status": { "f:storedVersions": {} } }));
    scene.remove_version("v1alpha1").await;
}

#[tokio::test]
async fn b17_whoever_puts_the_old_version_back_is_named_and_not_fought() {
    let scene = Scene::old_widgets("b17-fight", 10).await;
    let _controller = scene.begin(json!({})).await;
    scene.until(Reason::Migrated).await;
    let visits = scene.visits();
    for _ in 0..8 {
        put_back(&scene).await;
        let is_met = |status: &StorageMigrationStatus| reason_of(status) == Some(Reason::Waiting);
        let status = scene.until_of(scene.migration(), "that the trim was undone", is_met).await;
        let succeeded = status.conditions.iter().find(|c| c.type_ == "Succeeded").unwrap();
        assert_eq!(succeeded.status, "Unknown");
        assert!(succeeded.message.contains("field manager gitops"), "{}", succeeded.message);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let trims = Filter::crds().name(&scene.kind.crd_name()).subresource("status").verb("patch");
    let ours = scene.audit.entries(&trims.user_agent("restow/"));
    assert_eq!(ours.len(), 1, "it was trimmed once, and not again within a minute: {ours:#?}");
    assert_eq!(scene.visits(), visits);
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
}

/// Writes the old version into `storedVersions`, as a tool does that has a CRD with a status in its repository.
async fn put_back(scene: &Scene) {
    let applied = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": scene.kind.crd_name() },
        "status": { "storedVersions": ["v1alpha1", "v1"] },
    });
    let params = PatchParams::apply("gitops").force();
    let patched = crds(scene).patch_status(&scene.kind.crd_name(), &params, &Patch::Apply(&applied)).await;
    patched.expect("apply the status");
}

fn crds(scene: &Scene) -> Api<CustomResourceDefinition> {
    Api::all(scene.client.clone())
}

async fn read(scene: &Scene) -> CustomResourceDefinition {
    crds(scene).get(&scene.kind.crd_name()).await.expect("read the CRD")
}

fn entries(crd: &CustomResourceDefinition) -> impl Iterator<Item = &ManagedFieldsEntry> {
    crd.metadata.managed_fields.iter().flatten()
}

/// The field managers that own `storedVersions`.
fn owners(crd: &CustomResourceDefinition) -> Vec<&str> {
    let owns = |entry: &&ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|f| f.0.pointer("/f:status/f:storedVersions").is_some())
    };
    entries(crd).filter(owns).filter_map(|entry| entry.manager.as_deref()).collect()
}
