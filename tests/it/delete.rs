//! Deleting a StorageMigration: it is gone at once, the writes stop within seconds, and nothing is trimmed.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use restow::api::Reason;
use serde_json::json;
use tokio::time::sleep;

use crate::scene::{Scene, eventually};

const OBJECTS: usize = 100;

#[tokio::test]
async fn a_deleted_migration_is_gone_at_once_and_stops_writing() {
    let scene = Scene::old_widgets("delete", OBJECTS).await;
    let _controller = scene.begin(json!({ "pace": { "writesPerSecond": 5 } })).await;
    scene.until_visits(10).await;
    let running = scene.migrations().get(scene.migration()).await.unwrap();
    assert_eq!(running.metadata.finalizers, None);

    scene.delete_migration(scene.migration()).await;
    assert_eq!(scene.migrations().get_opt(scene.migration()).await.unwrap(), None);
    sleep(Duration::from_secs(3)).await;
    scene.no_visits_for(Duration::from_secs(3)).await;
    let stored = scene.stored().await;
    assert_eq!(stored.get("v1"), Some(&scene.visits()));
    assert!(stored.contains_key("v1alpha1"), "{stored:?}");
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    assert_eq!(scene.migrations().get_opt(scene.migration()).await.unwrap(), None);
}

#[tokio::test]
async fn a_finished_migration_is_deleted_when_its_time_is_over() {
    let scene = Scene::old_widgets("delete-ttl", 5).await;
    let controller = scene.controller(&[]).await;
    scene.migrate(json!({ "ttlSecondsAfterFinished": 3600 })).await;
    scene.until(Reason::Migrated).await;
    drop(controller);

    // As if it had ended long ago.
    let ended = Timestamp::now() - SignedDuration::from_hours(2);
    let patch = Patch::Merge(json!({ "status": { "completionTime": ended } }));
    scene.migrations().patch_status(scene.migration(), &PatchParams::default(), &patch).await.unwrap();
    let _restarted = scene.controller(&[]).await;
    eventually("it to be deleted", async || {
        scene.migrations().get_opt(scene.migration()).await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(scene.stored_versions().await, ["v1"]);
}
