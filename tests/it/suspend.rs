//! Suspending: the visits stop within a moment, and go on at the same place.

use std::cell::Cell;
use std::time::Duration;

use restow::api::{Reason, StorageMigrationStatus};
use serde_json::json;
use testbed::objects::Batch;

use crate::scene::{Scene, counts, reason_of};

const OBJECTS: usize = 60;
const PAGE: usize = 10;

/// Longer than one step sends visits.
const GRACE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_suspended_migration_stops_and_goes_on_at_the_same_place() {
    let scene = Scene::widgets("suspend").await;
    let _controller = half_way(&scene).await;
    let visited = Cell::new(suspended(&scene).await);
    resume(&scene).await;
    let never_back = |status: &StorageMigrationStatus| {
        let now = visited_of(status);
        assert!(now >= visited.replace(now), "progress went back to {now}");
        reason_of(status) == Some(Reason::Migrated)
    };
    scene.until_of(scene.migration(), "Migrated", never_back).await;
    assert!(scene.visits() <= OBJECTS + PAGE, "{} visits", scene.visits());
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test]
async fn a_migration_stays_suspended_over_a_restart_and_goes_on_at_the_same_page() {
    let scene = Scene::widgets("suspend-restart").await;
    let controller = half_way(&scene).await;
    suspended(&scene).await;
    drop(controller);
    let _restarted = scene.controller(&[]).await;
    scene.no_visits_for(Duration::from_secs(5)).await;
    assert_eq!(reason_of(&scene.status_of(scene.migration()).await), Some(Reason::Suspended));

    let resumed = scene.audit.from_now();
    resume(&scene).await;
    scene.until(Reason::Migrated).await;
    let visits = resumed.entries(&scene.requests().verb("patch"));
    let first: Vec<_> =
        visits.iter().take(PAGE).filter_map(|e| Some(e.object.as_ref()?.name.clone())).collect();
    assert_eq!(first.len(), PAGE);
    assert!(first.iter().all(|name| *name >= format!("w{PAGE:03}")), "it started over: {first:?}");
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

/// A migration at a slow pace that has visited a third of its objects.
async fn half_way(scene: &Scene) -> testbed::restow::Restow {
    scene.stored_old(&Batch::plain(OBJECTS)).await;
    let controller = scene.controller(&[]).await;
    scene.migrate(json!({ "pageSize": PAGE, "pace": { "writesPerSecond": 5 } })).await;
    scene.until_visits(OBJECTS / 3).await;
    controller
}

/// Suspends, and sees that nothing is sent any more. Answers with the number of visited objects.
async fn suspended(scene: &Scene) -> u64 {
    scene.patch_spec(scene.migration(), json!({ "suspend": true })).await;
    let status = scene.until(Reason::Suspended).await;
    tokio::time::sleep(GRACE).await;
    scene.no_visits_for(Duration::from_secs(3)).await;
    assert!(scene.visits() < OBJECTS, "it was suspended too late");
    assert_eq!(scene.stored().await.values().sum::<usize>(), OBJECTS);
    assert_eq!(scene.stored().await.get("v1"), Some(&scene.visits()));
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    visited_of(&status)
}

async fn resume(scene: &Scene) {
    scene.patch_spec(scene.migration(), json!({ "suspend": false, "pace": null })).await;
}

fn visited_of(status: &StorageMigrationStatus) -> u64 {
    status.progress.as_ref().map_or(0, |progress| progress.visited)
}
