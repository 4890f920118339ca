//! What is migrated once is left alone: a second run writes nothing, and reads nothing unless it is asked to.

use std::time::Duration;

use restow::api::Reason;
use serde_json::json;

use crate::scene::{Scene, counts, reason_of};

const OBJECTS: usize = 30;

#[tokio::test]
async fn a_second_run_asks_for_no_object_unless_something_is_stale() {
    let scene = Scene::old_widgets("second-if-stale", OBJECTS).await;
    let _controller = scene.begin(json!({})).await;
    scene.until(Reason::Migrated).await;
    let (revisions, requests) = (scene.revisions().await, scene.audit.count(&scene.requests()));
    assert_eq!(revisions.len(), OBJECTS);
    assert!(requests >= OBJECTS, "{requests} requests");

    scene.delete_migration(scene.migration()).await;
    scene.migrate(json!({})).await;
    scene.until(Reason::NothingToMigrate).await;
    assert_eq!(scene.audit.count(&scene.requests()), requests);
    assert_eq!(scene.revisions().await, revisions);
}

#[tokio::test]
async fn a_second_run_in_full_visits_all_and_writes_nothing() {
    let scene = Scene::old_widgets("second-always", OBJECTS).await;
    let _controller = scene.begin(json!({})).await;
    scene.until(Reason::Migrated).await;
    let revisions = scene.revisions().await;
    assert_eq!(scene.visits(), OBJECTS);

    scene.migrate_as("second-in-full", json!({ "mode": "Always" })).await;
    let migrated = |status: &_| reason_of(status) == Some(Reason::Migrated);
    let status = scene.until_of("second-in-full", "Migrated", migrated).await;
    let progress = status.progress.expect("progress");
    assert_eq!((progress.visited, progress.rewritten, progress.unchanged), (30, 0, 30));
    assert_eq!(scene.visits(), 2 * OBJECTS);
    scene.no_visits_for(Duration::from_secs(3)).await;

    // A full run is made once for each generation.
    scene.patch_spec("second-in-full", json!({ "pageSize": 7 })).await;
    let again = scene.until_of("second-in-full", "Migrated again", |status| {
        status.observed_generation == Some(2) && migrated(status)
    });
    again.await;
    assert_eq!(scene.visits(), 3 * OBJECTS);
    assert_eq!(scene.revisions().await, revisions);
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test]
async fn a_run_that_keeps_stored_versions_is_not_repeated() {
    let scene = Scene::old_widgets("second-keep", OBJECTS).await;
    let controller = scene.controller(&[]).await;
    scene.migrate(json!({ "storedVersions": "Keep" })).await;
    let status = scene.until(Reason::MigratedNotTrimmed).await;
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    assert_eq!(scene.visits(), OBJECTS);
    scene.no_visits_for(Duration::from_secs(3)).await;

    drop(controller);
    let _restarted = scene.controller(&[]).await;
    scene.no_visits_for(Duration::from_secs(5)).await;
    assert_eq!(scene.status_of(scene.migration()).await, status);
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
}
