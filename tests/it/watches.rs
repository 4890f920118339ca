//! Changes are seen as they happen: a CRD that appears, a storage version that moves, a spec that is edited.

use std::time::Duration;

use restow::api::Reason;
use serde_json::json;
use testbed::access;
use testbed::crd::{self, Fixture};
use testbed::objects::{self, Batch};
use tokio::time::{Instant, sleep};

use crate::scene::{Scene, counts, reason_of};

/// Well below the minute after which a migration is looked at anyway.
const PROMPT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_migration_that_was_there_before_its_crd_starts_by_itself() {
    let scene = Scene::widgets("watch-crd").await;
    let fixture = Fixture::gadgets(&scene.kind.group);
    access::grant_target(scene.plane, &scene.kind.group, "gadgets").await.unwrap();
    let _controller = scene.controller(&[]).await;
    let resource = json!({ "group": scene.kind.group, "resource": "gadgets" });
    scene.migrate(json!({ "resource": resource })).await;
    scene.until(Reason::TargetNotFound).await;

    let kind = crd::apply(&scene.client, &fixture).await.unwrap();
    let applied = Instant::now();
    scene.until(Reason::NothingToMigrate).await;
    assert!(applied.elapsed() < PROMPT, "after {:?}", applied.elapsed());

    // It is a standing order: what comes later is migrated, too.
    objects::create(&scene.client, &kind, "v1alpha1", &Batch::plain(5)).await.unwrap();
    crd::move_storage(&scene.client, &kind.crd_name(), "v1").await.unwrap();
    scene.until(Reason::Migrated).await;
    let stored = scene.plane.etcd().stored_versions(&kind.group, kind.plural).await;
    assert_eq!(stored, counts([(kind.api_version("v1").as_str(), 5)]));
    assert_eq!(crd::stored_versions(&scene.client, &kind.crd_name()).await.unwrap(), ["v1"]);
}

#[tokio::test]
async fn a_migration_waits_for_the_version_it_expects_and_runs_when_the_flag_moves() {
    let scene = Scene::widgets("watch-flag").await;
    objects::create(&scene.client, &scene.kind, "v1alpha1", &Batch::plain(10)).await.unwrap();
    let _controller = scene.begin(json!({ "expectedStorageVersion": "v1", "mode": "Always" })).await;
    scene.until(Reason::Waiting).await;
    scene.no_visits_for(Duration::from_secs(3)).await;
    assert_eq!(scene.audit.count(&scene.requests()), 0);

    scene.move_storage("v1").await;
    let moved = Instant::now();
    scene.until_visits(1).await;
    assert!(moved.elapsed() < PROMPT, "after {:?}", moved.elapsed());
    scene.until_all_migrated(10).await;
}

#[tokio::test]
async fn a_pace_takes_effect_while_the_migration_runs() {
    let scene = Scene::old_widgets("watch-pace", 300).await;
    let _controller = scene.begin(json!({ "pace": { "writesPerSecond": 20 } })).await;
    scene.until_visits(20).await;

    scene.patch_spec(scene.migration(), json!({ "pace": { "writesPerSecond": 1 } })).await;
    // What was begun at the old pace.
    sleep(Duration::from_secs(3)).await;
    let (slow_from, since) = (scene.visits(), Instant::now());
    scene.until_visits(slow_from + 4).await;
    assert!(since.elapsed() > Duration::from_secs(2), "4 visits in {:?}", since.elapsed());
    assert!(scene.visits() < 250, "{} visits", scene.visits());

    // At one a second this would take longer than anybody waits here.
    scene.patch_spec(scene.migration(), json!({ "pace": null })).await;
    let migrated = |status: &_| reason_of(status) == Some(Reason::Migrated);
    scene.until_of(scene.migration(), "Migrated", migrated).await;
    assert_eq!(scene.visits(), 300);
    assert_eq!(scene.stored().await, counts([("v1", 300)]));
}
