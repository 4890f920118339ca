//! What may stand in a spec, by the server's own validation, and what a deadline in it does.

use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Error};
use restow::api::{ConditionType, Reason, StorageMigration};
use serde_json::{Value, json};

use crate::scene::{Scene, counts, reason_of};

#[tokio::test]
async fn the_server_refuses_what_makes_no_sense() {
    let scene = Scene::widgets("spec-refused").await;
    let table = [
        (
            json!({ "resource": { "group": "a.io", "resource": "crontabs/status" } }),
            "without group or subresource",
        ),
        (
            json!({ "resource": { "group": "a.io", "resource": "crontabs.a.io" } }),
            "without group or subresource",
        ),
        (json!({ "resource": { "group": "a.io", "resource": "CronTabs" } }), "in lower case"),
        (json!({ "resource": { "group": "apps", "resource": "deployments" } }), "with a dot"),
        (json!({ "resource": { "group": "A.io", "resource": "crontabs" } }), "in lower case"),
        (json!({ "resource": { "group": "", "resource": "crontabs" } }), "spec.resource.group"),
        (json!({ "resource": { "group": "a.io", "resource": "" } }), "spec.resource.resource"),
        (json!({ "resource": { "group": "a.io" } }), "spec.resource.resource: Required value"),
        (json!({ "pageSize": 0 }), "spec.pageSize"),
        (json!({ "pageSize": 2001 }), "spec.pageSize"),
        (json!({ "ttlSecondsAfterFinished": 59 }), "spec.ttlSecondsAfterFinished"),
        (json!({ "activeDeadlineSeconds": 0 }), "spec.activeDeadlineSeconds"),
        (json!({ "mode": "Sometimes" }), r#"spec.mode: Unsupported value: "Sometimes""#),
        (json!({ "storedVersions": "Drop" }), r#"spec.storedVersions: Unsupported value: "Drop""#),
        (json!({ "pace": { "writesPerSecond": 0 } }), "spec.pace.writesPerSecond"),
        (json!({ "pace": { "maxInFlight": 257 } }), "spec.pace.maxInFlight"),
        (json!({ "expectedStorageVersion": "" }), "spec.expectedStorageVersion"),
    ];
    for (fields, said) in table {
        match create(&scene, &fields).await {
            Err(Error::Api(status)) => {
                assert_eq!(status.code, 422, "{fields}: {}", status.message);
                assert!(status.message.contains(said), "{fields}: {}", status.message);
            }
            other => panic!("{fields} was not refused: {other:?}"),
        }
    }
}

#[tokio::test]
async fn the_server_takes_the_bounds_themselves() {
    let scene = Scene::widgets("spec-bounds").await;
    for fields in [
        json!({}),
        json!({ "pageSize": 1, "activeDeadlineSeconds": 1, "ttlSecondsAfterFinished": 60 }),
        json!({ "pageSize": 2000, "mode": "Always", "storedVersions": "Keep", "suspend": true }),
        json!({ "pace": { "writesPerSecond": 10000, "maxInFlight": 256 } }),
        json!({ "pace": {}, "expectedStorageVersion": "v1" }),
    ] {
        create(&scene, &fields).await.unwrap();
    }
}

#[tokio::test]
async fn the_resource_of_a_migration_stays_and_a_fresh_one_is_not_taken_for_done() {
    let scene = Scene::widgets("spec-fresh").await;
    let fresh = scene.migrate(json!({})).await;
    assert_eq!(fresh.status.expect("a default").observed_generation, Some(-1));
    let patch = Patch::Merge(json!({ "spec": { "resource": { "resource": "gadgets" } } }));
    match scene.migrations().patch(scene.migration(), &PatchParams::default(), &patch).await {
        Err(Error::Api(status)) => assert!(status.message.contains("resource is immutable"), "{status:?}"),
        other => panic!("the resource was changed: {other:?}"),
    }
    // Other fields may be changed.
    scene.patch_spec(scene.migration(), json!({ "pageSize": 100 })).await;
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_given_up_until_its_spec_changes() {
    let scene = Scene::old_widgets("spec-deadline", 100).await;
    let _controller =
        scene.begin(json!({ "activeDeadlineSeconds": 4, "pace": { "writesPerSecond": 3 } })).await;
    let status = scene.until(Reason::DeadlineExceeded).await;
    let stalled = status.conditions.iter().find(|c| c.type_ == ConditionType::Stalled.as_str());
    assert_eq!(stalled.map(|c| c.status.as_str()), Some("True"), "{:?}", status.conditions);
    scene.no_visits_for(Duration::from_secs(3)).await;
    assert!(scene.visits() < 100, "{} visits", scene.visits());
    assert!(scene.stored().await.contains_key("v1alpha1"));
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);

    // The new limit is counted from the new start.
    scene.patch_spec(scene.migration(), json!({ "activeDeadlineSeconds": 120, "pace": null })).await;
    let migrated = |status: &_| reason_of(status) == Some(Reason::Migrated);
    let done = scene.until_of(scene.migration(), "Migrated", migrated).await;
    assert!(done.start_time > status.start_time, "{:?} {:?}", done.start_time, status.start_time);
    assert_eq!(scene.stored().await, counts([("v1", 100)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

/// Asks the server what it would say to a StorageMigration with these fields in its spec.
async fn create(scene: &Scene, fields: &Value) -> Result<DynamicObject, Error> {
    let mut spec = json!({ "resource": scene.resource() });
    for (field, value) in fields.as_object().unwrap() {
        spec[field] = value.clone();
    }
    let kind = ApiResource::erase::<StorageMigration>(&());
    let object = DynamicObject::new("fields", &kind).data(json!({ "spec": spec }));
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    Api::all_with(scene.client.clone(), &kind).create(&dry_run, &object).await
}
