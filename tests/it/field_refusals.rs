//! Field cases of objects that the server refuses although nothing about them changes.

use std::time::Duration;

use restow::api::{REFUSALS_LISTED_MAX, Reason};
use serde_json::json;
use testbed::etcd::Etcd;
use testbed::objects::{self, Batch, Key};
use tokio::time::Instant;

use crate::policy::Policy;
use crate::scene::{Scene, counts};

#[tokio::test]
async fn b37_objects_that_a_policy_denies_are_listed_and_tried_a_few_times() {
    let scene = Scene::widgets("b37-denied").await;
    let keys = scene.stored_old(&Batch::plain(100)).await;
    let _policy = Policy::apply(&scene, "!object.metadata.name.endsWith('7')", &keys[7]).await;
    let _controller = scene.begin(json!({})).await;
    let status = scene.until(Reason::ObjectsRefused).await;
    assert_eq!(scene.stored().await, counts([("v1", 90), ("v1alpha1", 10)]));
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    let mut refused: Vec<_> = status.refusals.iter().map(|r| r.name.clone()).collect();
    refused.sort();
    let denied: Vec<_> = keys.iter().filter(|k| k.name.ends_with('7')).map(|k| k.name.clone()).collect();
    assert_eq!(refused, denied);
    assert_eq!(status.progress.map(|p| (p.rewritten, p.refused)), Some((90, 10)));
    for name in denied {
        let tried = scene.audit.count(&scene.requests().verb("patch").name(&name));
        assert!(tried <= 5, "{name} was tried {tried} times");
    }
    scene.no_visits_for(Duration::from_secs(3)).await;
}

#[tokio::test]
async fn b41_only_what_was_refused_is_written_again_once_it_is_asked_for() {
    let scene = Scene::widgets("b41-asked").await;
    let keys = scene.stored_old(&Batch::plain(50)).await;
    let policy = Policy::apply(&scene, "object.spec.size >= 5", &keys[0]).await;
    let _controller = scene.begin(json!({})).await;
    let status = scene.until(Reason::ObjectsRefused).await;
    let refused_at = Instant::now();
    assert_eq!(status.progress.map(|p| (p.rewritten, p.refused)), Some((45, 5)));
    assert!(status.refusals.iter().all(|r| r.message.contains(&policy.name)), "{:#?}", status.refusals);
    for key in &keys[..5] {
        let repaired = json!({ "spec": { "size": 100 } });
        objects::patch(&scene.client, &scene.kind, "v1", key, &repaired).await.unwrap();
    }
    let before = scene.visits();
    scene.ask_retry("repaired").await;
    scene.until(Reason::Migrated).await;
    assert!(refused_at.elapsed() < Duration::from_mins(1), "it waited for its own next try");
    assert_eq!(scene.visits() - before, 5, "only what was refused is written again");
    assert_eq!(scene.stored().await, counts([("v1", 50)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test]
async fn b65_three_hundred_refusals_fit_into_a_status_that_says_what_happened() {
    const OBJECTS: usize = 300;
    let scene = Scene::widgets("b65-all-denied").await;
    let keys = scene.stored_old(&Batch::plain(OBJECTS)).await;
    let policy = Policy::apply(&scene, "object.metadata.name == ''", &keys[0]).await;
    let _controller = scene.controller(&["--writes-per-second", "0"]).await;
    scene.migrate(json!({})).await;
    let status = scene.until(Reason::ObjectsRefused).await;
    assert_eq!(status.progress.map(|p| (p.total, p.refused)), Some((300, 300)));
    assert_eq!(status.refusals.len(), REFUSALS_LISTED_MAX);
    for refusal in &status.refusals {
        assert_eq!((refusal.namespace.as_deref(), refusal.code), (Some("default"), 422));
        assert!(refusal.message.contains(&policy.name), "{}", refusal.message);
    }
    let message = &status.conditions[0].message;
    assert!(message.starts_with("300 objects were refused"), "{message}");
    assert!(message.contains(&policy.name) && message.len() < 4096, "{message}");
    assert_eq!(scene.stored().await, counts([("v1alpha1", OBJECTS)]));
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
}

#[tokio::test]
async fn b39_an_object_in_a_namespace_that_is_gone_is_migrated_or_named() {
    let scene = Scene::old_widgets("b39-orphan", 50).await;
    let (group, plural) = (&scene.kind.group, scene.kind.plural);
    let orphan = Key { namespace: Some("b39-gone".to_owned()), name: "w000".to_owned() };
    let mut copy = scene.plane.etcd().value(group, plural, Some("default"), "w000").await.unwrap();
    copy["metadata"]["namespace"] = json!(orphan.namespace);
    let key = Etcd::key(group, plural, orphan.namespace.as_deref(), &orphan.name);
    scene.plane.etcd().put(&key, copy.to_string()).await;
    let _controller = scene.begin(json!({})).await;
    let is_end = |reason| matches!(reason, Some(Reason::Migrated | Reason::ObjectsRefused));
    let status =
        scene.until_of(scene.migration(), "an end", |status| is_end(crate::scene::reason_of(status))).await;
    // A server may take the write or not. What counts is that nobody is told of a migration that etcd knows nothing of.
    if scene.is_stored(&orphan, "v1").await {
        assert_eq!(status.refusals, []);
        assert_eq!(scene.stored().await, counts([("v1", 51)]));
        assert_eq!(scene.stored_versions().await, ["v1"]);
    } else {
        let [refusal] = &status.refusals[..] else { panic!("{:#?}", status.refusals) };
        assert_eq!((refusal.namespace.as_deref(), refusal.name.as_str()), (Some("b39-gone"), "w000"));
        assert_eq!(refusal.reason, "Orphaned");
        assert_eq!(scene.stored().await, counts([("v1", 50), ("v1alpha1", 1)]));
        assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    }
}
