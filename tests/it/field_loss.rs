//! Fields that the storage version has no place for: nothing is dropped unless the user says so.

use restow::api::{Reason, RefusedObject};
use serde_json::{Value, json};
use testbed::crd::Fixture;
use testbed::etcd::Stored;
use testbed::objects::{self, Batch};

use crate::scene::{Scene, counts, eventually};

/// Widgets whose v1alpha1 alone has `preferredUseEfi`.
fn renamed(group: &str) -> Fixture {
    Fixture::widgets(group)
        .with_field("v1alpha1", "preferredUseEfi", &json!({ "type": "boolean" }))
        .with_field(
            "v1",
            "preferredEfi",
            &json!({ "type": "object", "properties": { "on": { "type": "boolean" } } }),
        )
}

/// Three of ten have the field.
fn three_of_ten(number: usize) -> Value {
    let spec = if number < 3 { json!({ "preferredUseEfi": true }) } else { json!({ "size": number }) };
    json!({ "spec": spec })
}

/// Waits until three of ten are refused and the others stored, and says why.
async fn three_are_refused(scene: &Scene) -> Vec<RefusedObject> {
    let status = scene.until(Reason::ObjectsRefused).await;
    assert_eq!(scene.stored().await, counts([("v1alpha1", 3), ("v1", 7)]));
    assert_eq!(status.progress.unwrap().refused, 3);
    status.refusals
}

/// Accepts the loss, and waits until all ten are stored.
async fn loss_is_accepted(scene: &Scene) {
    scene.patch_spec(scene.migration(), json!({ "acceptFieldLoss": true })).await;
    scene.until_all_migrated(10).await;
}

#[tokio::test]
async fn b23_an_object_that_would_lose_a_field_is_not_written() {
    let scene = Scene::new("b23-loss", renamed).await;
    let keys = scene.stored_old(&Batch::of(10, three_of_ten)).await;
    let _controller = scene.begin(json!({})).await;
    let refusals = three_are_refused(&scene).await;
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    let refusal = &refusals[0];
    assert_eq!(refusal.reason, "FieldLoss");
    assert!(refusal.message.contains("spec.preferredUseEfi"), "{refusal:?}");
    let etcd = scene.plane.etcd();
    let stored =
        etcd.value(&scene.kind.group, scene.kind.plural, keys[0].namespace.as_deref(), &keys[0].name).await;
    assert_eq!(stored.unwrap()["spec"]["preferredUseEfi"], true);

    // One is put right by its owner; for the others the loss is accepted.
    let move_field = json!({ "spec": { "preferredUseEfi": null } });
    objects::patch(&scene.client, &scene.kind, "v1alpha1", &keys[0], &move_field).await.unwrap();
    loss_is_accepted(&scene).await;
}

#[tokio::test]
async fn b23_no_field_is_dropped_after_a_restart_although_somebody_trimmed_meanwhile() {
    let scene = Scene::new("b23-trimmed", renamed).await;
    scene.stored_old(&Batch::of(10, three_of_ten)).await;
    let controller = scene.begin(json!({})).await;
    three_are_refused(&scene).await;
    drop(controller);
    scene.set_stored_versions(&["v1"]).await;
    scene.ask_retry("1").await;
    let restarted = scene.controller(&[]).await;
    eventually("an end", async || {
        let log = restarted.log();
        (log.contains("ObjectsRefused") || log.contains("Migrated")).then_some(())
    })
    .await;
    let refusals = three_are_refused(&scene).await;
    assert!(refusals.iter().all(|refusal| refusal.reason == "FieldLoss"), "{refusals:?}");
    loss_is_accepted(&scene).await;
}

#[tokio::test]
async fn b23_a_full_run_believes_no_stored_versions_and_drops_no_field() {
    let scene = Scene::new("b23-always", renamed).await;
    scene.stored_old(&Batch::of(10, three_of_ten)).await;
    scene.set_stored_versions(&["v1"]).await;
    let _controller = scene.begin(json!({ "mode": "Always" })).await;
    let refusals = three_are_refused(&scene).await;
    assert!(refusals.iter().all(|refusal| refusal.reason == "FieldLoss"), "{refusals:?}");
    loss_is_accepted(&scene).await;
}

/// Widgets whose `size` is a number in v1alpha1 and a range in v1, as a webhook would convert it.
fn retyped(group: &str) -> Fixture {
    let bound = json!({ "type": "integer" });
    let range = json!({ "type": "object", "properties": { "min": bound, "max": bound } });
    Fixture::widgets(group).with_field("v1", "size", &range)
}

// Versions whose schemas differ need the acknowledgement, as the case has it; but for the objects that the difference
// concerns, and not for all: the others are as good in v1, and are written.
#[tokio::test]
async fn b15_with_conversion_none_a_field_of_another_type_needs_an_acknowledgement() {
    let scene = Scene::new("b15-retyped", retyped).await;
    let three_have_it = |number: usize| {
        let spec = if number < 3 { json!({ "size": number }) } else { json!({ "color": "red" }) };
        json!({ "metadata": {}, "spec": spec })
    };
    scene.stored_old(&Batch::of(10, three_have_it)).await;
    let before = scene.values().await;
    let _controller = scene.begin(json!({})).await;
    let refusals = three_are_refused(&scene).await;
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    for refusal in &refusals {
        assert_eq!(refusal.reason, "FieldType");
        assert!(refusal.message.contains("spec.size"), "{refusal:?}");
        let stored = |values: &[Stored]| {
            values.iter().find(|v| v.key.ends_with(&refusal.name)).map(|v| (v.revision, v.bytes.clone()))
        };
        assert_eq!(stored(&scene.values().await), stored(&before), "{} is as it was", refusal.name);
    }
    loss_is_accepted(&scene).await;
}

#[tokio::test]
async fn where_the_storage_version_holds_all_fields_no_object_is_looked_at() {
    let more = |group: &str| Fixture::widgets(group).with_field("v1", "later", &json!({ "type": "string" }));
    let scene = Scene::new("loss-none", more).await;
    scene.stored_old(&Batch::plain(10)).await;
    let _controller = scene.controller(&[]).await;
    // In the mode that believes no `storedVersions`, too.
    scene.migrate(json!({ "mode": "Always" })).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.audit.count(&scene.requests().verb("get")), 0);
}
