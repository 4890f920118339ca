//! Field cases of a status that the new version no longer allows.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use restow::api::{Reason, StorageMigrationStatus};
use serde_json::{Value, json};
use testbed::crd::Fixture;
use testbed::objects::{self, Batch};

use crate::scene::{Scene, counts, reason_of};

/// An object whose status v1 doesn't allow, among nine others.
fn one_of_ten(number: usize) -> Value {
    json!({ "metadata": {}, "status": { "phase": if number == 3 { "gone wrong" } else { "Ready" } } })
}

#[tokio::test]
async fn b47_a_status_that_the_new_version_forbids_is_migrated_or_named_where_status_is_a_subresource() {
    let scene = Scene::widgets("b47-subresource").await;
    let keys =
        objects::create(&scene.client, &scene.kind, "v1alpha1", &Batch::of(10, one_of_ten)).await.unwrap();
    for (number, key) in keys.iter().enumerate() {
        // What stands in the status at create is dropped: it has an endpoint of its own.
        let api = scene.kind.api(&scene.client, "v1alpha1", key.namespace.as_deref());
        let patch = Patch::Merge(json!({ "status": one_of_ten(number)["status"] }));
        api.patch_status(&key.name, &PatchParams::default(), &patch).await.unwrap();
    }
    assert_invalid_status_ends(&scene, &Fixture::widgets(&scene.kind.group)).await;
}

#[tokio::test]
async fn b47_a_status_that_the_new_version_forbids_is_migrated_or_named_where_status_is_a_field() {
    let scene = Scene::new("b47-field", |group| Fixture::widgets(group).without_status()).await;
    allow_phases(&scene, Fixture::widgets(&scene.kind.group).without_status().to_json(), None).await;
    objects::create(&scene.client, &scene.kind, "v1alpha1", &Batch::of(10, one_of_ten)).await.unwrap();
    assert_invalid_status_ends(&scene, &Fixture::widgets(&scene.kind.group).without_status()).await;
}

async fn assert_invalid_status_ends(scene: &Scene, fixture: &Fixture) {
    let phases: Vec<_> =
        scene.values().await.iter().map(|v| v.object().unwrap()["status"]["phase"].clone()).collect();
    assert_eq!(phases.iter().filter(|phase| **phase == "gone wrong").count(), 1, "{phases:?}");
    allow_phases(scene, fixture.clone().stored_in("v1").to_json(), Some(&["Ready"])).await;
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    let _controller = scene.begin(json!({})).await;
    let is_end = |status: &StorageMigrationStatus| {
        matches!(reason_of(status), Some(Reason::Migrated | Reason::ObjectsRefused))
    };
    let status = scene.until_of(scene.migration(), "an end", is_end).await;
    // A server that lets pass what was invalid before takes the write; an older one refuses it.
    if reason_of(&status) == Some(Reason::Migrated) {
        assert_eq!(scene.stored().await, counts([("v1", 10)]));
        assert_eq!(scene.stored_versions().await, ["v1"]);
    } else {
        let [refusal] = &status.refusals[..] else { panic!("{:#?}", status.refusals) };
        assert_eq!((refusal.name.as_str(), refusal.code), ("w003", 422));
        assert!(refusal.message.contains("status.phase"), "{}", refusal.message);
        assert_eq!(scene.stored().await, counts([("v1", 9), ("v1alpha1", 1)]));
        assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    }
    scene.no_visits_for(Duration::from_secs(2)).await;
    let visits = scene.visits();
    assert!((10..=15).contains(&visits), "{visits} visits");
    let to_status = scene.requests().subresource("status");
    assert_eq!(scene.audit.count(&to_status), 0, "objects are written as a whole");
}

/// Applies a fixture whose v1 allows these phases alone, or all of them.
async fn allow_phases(scene: &Scene, mut crd: Value, allowed: Option<&[&str]>) {
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        let mut phase = json!({ "type": "string" });
        if let Some(allowed) = allowed.filter(|_| version["name"] == "v1") {
            phase["enum"] = json!(allowed);
        }
        version["schema"]["openAPIV3Schema"]["properties"]["status"] =
            json!({ "type": "object", "properties": { "phase": phase } });
    }
    let crds: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
    let params = PatchParams::apply("testbed").force();
    crds.patch(&scene.kind.crd_name(), &params, &Patch::Apply(&crd)).await.expect("apply the CRD");
}
