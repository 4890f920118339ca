//! The main job: objects end up stored in the storage version, unchanged, and `storedVersions` is trimmed.

use restow::api::Reason;
use serde_json::json;
use testbed::crd::{self, Fixture, Removal};
use testbed::objects::{self, Batch};

use crate::scene::{Scene, counts};

#[tokio::test]
async fn two_thousand_objects_without_a_webhook_are_migrated_and_trimmed() {
    let scene = Scene::widgets("two-thousand").await;
    scene.stored_old(&Batch::plain(2000).across(&["blue", "red"])).await;
    assert_eq!(scene.stored().await, counts([("v1alpha1", 2000)]));
    let _controller = scene.controller(&["--writes-per-second", "0"]).await;
    scene.migrate(json!({})).await;
    let status = scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 2000)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
    let progress = status.progress.expect("progress");
    assert_eq!((progress.total, progress.visited, progress.rewritten), (2000, 2000, 2000));
    assert_eq!(progress.summary, "2000/2000 100%");
    let target = status.target.expect("target");
    assert_eq!(target.stored_versions_before, ["v1alpha1", "v1"]);
    assert_eq!(target.stored_versions_after, ["v1"]);
    assert_eq!(status.checkpoint, None);
    let removal = crd::remove_version(&scene.client, &scene.kind.crd_name(), "v1alpha1").await.unwrap();
    assert!(matches!(removal, Removal::Accepted), "{removal:?}");
}

#[tokio::test]
async fn objects_are_the_same_before_and_after() {
    for (name, fixture) in [
        ("same-namespaced", Fixture::widgets as fn(&str) -> Fixture),
        ("same-no-status", |group| Fixture::widgets(group).without_status()),
        ("same-cluster-scoped", Fixture::gadgets),
    ] {
        let scene = Scene::new(name, fixture).await;
        scene.stored_old(&Batch::hard(20)).await;
        let before = objects::snapshot(&scene.client, &scene.kind, "v1").await.unwrap();
        let _controller = scene.begin(json!({})).await;
        scene.until(Reason::Migrated).await;
        assert_eq!(scene.stored().await, counts([("v1", 20)]));
        let after = objects::snapshot(&scene.client, &scene.kind, "v1").await.unwrap();
        assert_eq!(before.len(), 20);
        assert_eq!(before.differences(&after), Vec::<String>::new());
    }
}
