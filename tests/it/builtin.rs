//! The migrator built into kube-controller-manager at work on the same CRD: restow waits, says so, and writes nothing.
//!
//! What that migrator does is done by hand, request for request (k8s.io/kubernetes `pkg/controller/storageversionmigrator`).
//! Before Kubernetes 1.36 it neither trims nor says in the CRD that it is at work.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use restow::api::{ConditionType, Reason};
use serde_json::{Value, json};
use testbed::audit::Filter;

use crate::scene::{Scene, counts};

/// The group of its kind.
const GROUP: &str = "storagemigration.k8s.io";

/// Who writes, in `managedFields`.
const MANAGER: &str = "storage-version-migrator";

/// How long is watched that nothing is written: longer than a migration that may begin takes to do so.
const STANDSTILL: Duration = Duration::from_secs(5);

/// A StorageVersionMigration.
struct Builtin<'a> {
    scene: &'a Scene,
    name: String,
    version: String,
}

impl<'a> Builtin<'a> {
    async fn create(scene: &'a Scene, name: &str, group: &str, resource: &str) -> Self {
        let groups = scene.client.list_api_groups().await.expect("list the groups").groups;
        let own = groups.into_iter().find(|it| it.name == GROUP).expect("the kind is there");
        let version = own.preferred_version.expect("a version").version;
        let builtin = Self { scene, name: name.to_owned(), version };
        // The version is asked for by v1alpha1 alone.
        let resource = json!({ "group": group, "resource": resource, "version": "v1" });
        let object = json!({
            "apiVersion": format!("{GROUP}/{}", builtin.version), "kind": "StorageVersionMigration",
            "metadata": { "name": name }, "spec": { "resource": resource },
        });
        let object = serde_json::from_value(object).expect("an object");
        builtin.api().create(&PostParams::default(), &object).await.expect("create");
        builtin
    }

    /// One for the scene's resource that says that it is at work.
    async fn begin(scene: &'a Scene) -> Self {
        let name = format!("builtin-{}", scene.migration());
        let builtin = Self::create(scene, &name, &scene.kind.group, scene.kind.plural).await;
        mark_crd(scene, "True", None).await;
        builtin.mark("Running").await;
        builtin
    }

    /// It ends well, and names the new version alone in `storedVersions`, if it does.
    async fn end(&self, stored: Option<&str>) {
        mark_crd(self.scene, "False", stored).await;
        self.mark("Succeeded").await;
    }

    async fn delete(&self) {
        self.api().delete(&self.name, &DeleteParams::default()).await.expect("delete");
    }

    async fn mark(&self, condition: &str) {
        let now = jiff::Timestamp::now();
        // The one time is asked for by v1alpha1, the other by the versions after it.
        let condition = json!({
            "type": condition, "status": "True", "reason": "Test", "message": "",
            "lastUpdateTime": now, "lastTransitionTime": now,
        });
        // Kubernetes 1.35 wants to be told what it has waited for.
        let status = json!({ "conditions": [condition], "resourceVersion": "1" });
        let status = Patch::Merge(json!({ "status": status }));
        let marked = self.api().patch_status(&self.name, &PatchParams::default(), &status).await;
        marked.expect("mark the StorageVersionMigration");
    }

    fn api(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(GROUP, &self.version, "StorageVersionMigration");
        Api::all_with(self.scene.client.clone(), &ApiResource::from_gvk(&kind))
    }
}

/// Sets the condition by which the built-in migrator says that it works on a CRD.
async fn mark_crd(scene: &Scene, status: &str, stored: Option<&str>) {
    let crds: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
    let mut is: Value = json!({ "conditions": [{
        "type": "StorageMigrating", "status": status, "reason": "Test", "message": "",
        "lastTransitionTime": jiff::Timestamp::now(),
    }] });
    if let Some(stored) = stored {
        is["storedVersions"] = json!([stored]);
    }
    let apply = Patch::Apply(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "status": is,
    }));
    let params = PatchParams::apply(MANAGER).force();
    crds.patch_status(&scene.kind.crd_name(), &params, &apply).await.expect("mark the CRD");
}

/// Waits until restow stands back for a migrator and names it, and asserts that nothing is written then.
async fn stands_back(scene: &Scene, builtin: &Builtin<'_>) {
    let status = scene.until(Reason::AnotherMigrator).await;
    let stalled = status.conditions.iter().find(|c| c.type_ == ConditionType::Stalled.as_str());
    let message = &stalled.expect("it is stalled").message;
    assert!(message.contains(&format!("StorageVersionMigration {}", builtin.name)), "{message}");
    let stored = scene.revisions().await;
    scene.no_visits_for(STANDSTILL).await;
    assert_eq!(scene.revisions().await, stored);
    let trims = Filter::crds().user_agent("restow/").name(&scene.kind.crd_name()).verb("patch");
    assert_eq!(scene.audit.count(&trims), 0);
}

#[tokio::test]
async fn a_built_in_migrator_is_waited_for_until_it_is_done() {
    let scene = Scene::old_widgets("builtin-done", 20).await;
    let builtin = Builtin::begin(&scene).await;
    let _controller = scene.begin(json!({})).await;
    stands_back(&scene, &builtin).await;
    assert_eq!(scene.visits(), 0);
    assert_eq!(scene.stored().await, counts([("v1alpha1", 20)]));
    // It has seen the CRD change meanwhile, and so leaves `storedVersions` alone.
    builtin.end(None).await;
    scene.until_all_migrated(20).await;
}

#[tokio::test]
async fn a_built_in_migrator_that_begins_during_a_run_is_waited_for() {
    let scene = Scene::old_widgets("builtin-during", 60).await;
    let _controller = scene.begin(json!({ "pace": { "writesPerSecond": 10 }, "pageSize": 10 })).await;
    scene.until_visits(15).await;
    let builtin = Builtin::begin(&scene).await;
    stands_back(&scene, &builtin).await;
    // What it says it has done is no proof: the run goes on, and writes what it left.
    builtin.end(Some("v1")).await;
    scene.until_all_migrated(60).await;
}

#[tokio::test]
async fn a_condition_that_a_deleted_migrator_left_behind_does_not_count() {
    let scene = Scene::old_widgets("builtin-deleted", 20).await;
    // Neither does one that has failed, or is at work on something else.
    let failed = format!("failed-{}", scene.migration());
    let failed = Builtin::create(&scene, &failed, &scene.kind.group, scene.kind.plural).await;
    failed.mark("Failed").await;
    let other = Builtin::create(&scene, "elsewhere", "elsewhere.example.com", scene.kind.plural).await;
    other.mark("Running").await;
    let builtin = Builtin::begin(&scene).await;
    let _controller = scene.begin(json!({})).await;
    stands_back(&scene, &builtin).await;
    builtin.delete().await;
    scene.until_all_migrated(20).await;
}
