//! Field cases of the CRD itself: it is being deleted, was replaced, never was one; and of dead APIs beside it.

use std::time::Duration;

use jiff::Timestamp;
use kube::Resource;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use restow::api::{Reason, StorageMigration, StorageMigrationSpec, StorageMigrationStatus, TargetResource};
use serde_json::json;
use testbed::audit::Filter;
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::{self, Fixture};
use testbed::objects::{self, Batch};

use crate::scene::{Scene, counts, eventually, reason_of};

/// How soon the last visit is to have been sent after a change of the CRD: a second, and some for a loaded machine.
const SOON: Duration = Duration::from_secs(3);

#[tokio::test]
async fn b45_a_crd_that_is_being_deleted_is_left_alone_and_one_created_anew_is_migrated() {
    let scene = Scene::widgets("b45-terminating").await;
    let keys = scene.stored_old(&Batch::plain(200)).await;
    let last = &keys[199];
    let finalizers = |names: &[&str]| json!({ "metadata": { "finalizers": names } });
    objects::patch(&scene.client, &scene.kind, "v1", last, &finalizers(&["example.com/hold"])).await.unwrap();
    let _controller = scene.begin(json!({ "pace": { "writesPerSecond": 30 } })).await;
    scene.until_visits(40).await;
    let uid = crd_uid(&scene).await;
    let deleted_at = delete_crd(&scene).await;
    scene.until(Reason::TargetTerminating).await;
    scene.no_visits_for(Duration::from_secs(2)).await;
    assert_no_visit_after(&scene, deleted_at);
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    assert_eq!(scene.audit.count(&trims(&scene)), 0);

    objects::patch(&scene.client, &scene.kind, "v1", last, &finalizers(&[])).await.unwrap();
    scene.until(Reason::TargetNotFound).await;
    create_anew(&scene, 10).await;
    assert_fresh_run(&scene, &uid, 10).await;
}

#[tokio::test]
async fn b81_a_crd_that_is_replaced_during_the_run_makes_it_start_over() {
    let scene = Scene::old_widgets("b81-replaced", 200).await;
    let _controller = scene.begin(json!({ "pace": { "writesPerSecond": 30 } })).await;
    scene.until_visits(80).await;
    let uid = crd_uid(&scene).await;
    let deleted_at = delete_crd(&scene).await;
    eventually("the CRD to be gone", async || {
        crds(&scene).get_opt(&scene.kind.crd_name()).await.ok()?.is_none().then_some(())
    })
    .await;
    let status = scene.status_of(scene.migration()).await;
    assert_ne!(reason_of(&status), Some(Reason::Migrated));
    assert_no_visit_after(&scene, deleted_at);
    create_anew(&scene, 10).await;
    assert_fresh_run(&scene, &uid, 10).await;
    assert_eq!(scene.audit.count(&trims(&scene)), 1);
}

/// The CRD under the same name, with new objects, and a flag that moved.
async fn create_anew(scene: &Scene, count: usize) {
    crd::apply(&scene.client, &Fixture::widgets(&scene.kind.group)).await.expect("create the CRD anew");
    scene.stored_old(&Batch::plain(count)).await;
}

async fn assert_fresh_run(scene: &Scene, uid_before: &str, count: usize) {
    let wish = "Migrated, for the new CRD";
    let is_met = |status: &StorageMigrationStatus| {
        reason_of(status) == Some(Reason::Migrated)
            && status.target.as_ref().is_some_and(|target| target.stored_versions_before.len() == 2)
    };
    let status = scene.until_of(scene.migration(), wish, is_met).await;
    let uid = crd_uid(scene).await;
    assert_ne!(uid, uid_before);
    assert_eq!(status.target.map(|target| target.crd_uid), Some(uid));
    let progress = status.progress.expect("progress");
    let count_u64 = u64::try_from(count).expect("a small count");
    assert_eq!((progress.total, progress.visited), (count_u64, count_u64), "no count is carried over");
    assert_eq!(scene.stored().await, counts([("v1", count)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

fn crds(scene: &Scene) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    Api::all_with(scene.client.clone(), &ApiResource::from_gvk(&gvk))
}

async fn crd_uid(scene: &Scene) -> String {
    let crd = crds(scene).get(&scene.kind.crd_name()).await.expect("read the CRD");
    crd.meta().uid.clone().expect("a uid")
}

/// Deletes the CRD, and says when.
async fn delete_crd(scene: &Scene) -> Timestamp {
    crds(scene).delete(&scene.kind.crd_name(), &DeleteParams::default()).await.expect("delete the CRD");
    Timestamp::now()
}

fn assert_no_visit_after(scene: &Scene, then: Timestamp) {
    let late = then + SOON;
    let visits = scene.audit.entries(&scene.requests().verb("patch"));
    let after: Vec<_> = visits.iter().filter(|v| v.received > late).map(|v| (v.received, v.code())).collect();
    assert!(after.is_empty(), "the CRD changed at {then}; visits after it: {after:?}");
}

fn trims(scene: &Scene) -> Filter {
    Filter::crds().name(&scene.kind.crd_name()).verb("patch").user_agent("restow/")
}

#[tokio::test]
async fn b77_what_is_no_crd_is_told_within_seconds_and_without_a_write() {
    let scene = Scene::old_widgets("b77-no-crd", 5).await;
    let _controller = scene.controller(&[]).await;
    let targets = [
        ("b77-aggregated", "metrics.k8s.io", "pods"),
        ("b77-built-in", "storage.k8s.io", "storageclasses"),
        ("b77-misspelt", scene.kind.group.as_str(), "wigets"),
    ];
    for (name, group, resource) in targets {
        scene.migrate_as(name, json!({ "resource": { "group": group, "resource": resource } })).await;
    }
    for (name, group, resource) in targets {
        let is_met = |status: &StorageMigrationStatus| reason_of(status) == Some(Reason::TargetNotFound);
        let status = scene.until_of(name, "TargetNotFound", is_met).await;
        let message = &status.conditions[0].message;
        assert!(message.contains(&format!("{resource}.{group}")), "{message}");
        assert!(message.contains("built in or come from an aggregated API server"), "{message}");
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    for (name, group, resource) in targets {
        let asked = scene.audit.count(&Filter::resource(group, resource).user_agent("restow/"));
        assert_eq!(asked, 0, "requests on {resource}.{group}");
        let crd = Filter::crds().name(&format!("{resource}.{group}")).user_agent("restow/");
        assert!(scene.audit.count(&crd) <= 3, "{name} is not asked for again and again");
    }
    assert_eq!(scene.visits(), 0);
    // What can be told by its name is not even taken.
    let status = TargetResource { resource: "widgets/status".to_owned(), ..scene.resource() };
    let built_in = TargetResource { group: "apps".to_owned(), resource: "deployments".to_owned() };
    for resource in [status, built_in] {
        let migration = StorageMigration::new("b77-refused", StorageMigrationSpec::for_resource(resource));
        let refused = scene.migrations().create(&PostParams::default(), &migration).await;
        assert!(matches!(&refused, Err(kube::Error::Api(said)) if said.code == 422), "{refused:?}");
    }
}

#[tokio::test]
async fn b73_an_api_that_is_dead_delays_no_other_group() {
    // A control plane of its own: discovery is broken on it.
    let plane = Box::leak(Box::new(ControlPlane::start(Options::default()).await.expect("start")));
    let scene = Scene::on(plane, "b73-dead-api", Fixture::widgets).await;
    scene.stored_old(&Batch::plain(20)).await;
    let gvk = GroupVersionKind::gvk("apiregistration.k8s.io", "v1", "APIService");
    let services: Api<DynamicObject> = Api::all_with(scene.client.clone(), &ApiResource::from_gvk(&gvk));
    let dead = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": { "name": "v1.dead.example.com" },
        "spec": {
            "group": "dead.example.com", "version": "v1", "insecureSkipTLSVerify": true,
            "groupPriorityMinimum": 1000, "versionPriority": 10,
            "service": { "namespace": "default", "name": "nobody" },
        },
    });
    let dead = serde_json::from_value(dead).unwrap();
    services.create(&PostParams::default(), &dead).await.unwrap();
    eventually("the API to be known as dead", async || {
        let service = services.get("v1.dead.example.com").await.ok()?;
        let conditions = service.data["status"]["conditions"].as_array()?.clone();
        conditions.iter().any(|c| c["type"] == "Available" && c["status"] == "False").then_some(())
    })
    .await;
    let _controller = scene.begin(json!({})).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 20)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
    let output = scene.run_migrate(&["--always"]).await;
    assert!(output.exit.is_success(), "{}", output.stderr);
}
