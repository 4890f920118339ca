//! Two StorageMigrations for one resource: the older is in charge, the younger says so and takes over when it can.

use kube::ResourceExt as _;
use restow::api::{ConditionType, Reason, StorageMigration, StorageMigrationStatus};
use serde_json::{Value, json};

use crate::scene::{Scene, counts, reason_of};

const OBJECTS: usize = 60;

#[tokio::test]
async fn b75_of_two_created_in_one_second_the_older_runs_and_the_younger_names_it() {
    let scene = Scene::old_widgets("b75-rivals", OBJECTS).await;
    let (older, younger) = two(&scene, json!({ "pace": { "writesPerSecond": 20 } })).await;
    let _controller = scene.controller(&[]).await;
    stands_back(&scene, &younger, &older).await;
    until(&scene, &older, Reason::Migrated).await;
    // Nothing is left for the younger one, which says so without any request of its own.
    until(&scene, &younger, Reason::NothingToMigrate).await;
    assert_eq!(scene.visits(), OBJECTS);
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test]
async fn b75_deleting_the_younger_one_does_not_stop_the_older() {
    let scene = Scene::old_widgets("b75-younger", OBJECTS).await;
    let (older, younger) = two(&scene, json!({ "pace": { "writesPerSecond": 10 } })).await;
    let _controller = scene.controller(&[]).await;
    stands_back(&scene, &younger, &older).await;
    scene.until_visits(10).await;
    scene.delete_migration(&younger).await;
    until(&scene, &older, Reason::Migrated).await;
    assert_eq!(scene.visits(), OBJECTS);
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test]
async fn b75_when_the_older_one_is_deleted_the_younger_takes_over() {
    let scene = Scene::old_widgets("b75-older", OBJECTS).await;
    let (older, younger) = two(&scene, json!({ "pace": { "writesPerSecond": 10 } })).await;
    let _controller = scene.controller(&[]).await;
    stands_back(&scene, &younger, &older).await;
    scene.until_visits(10).await;
    scene.delete_migration(&older).await;
    let status = until(&scene, &younger, Reason::Migrated).await;
    // What the older one has done already is seen to be done.
    let progress = status.progress.expect("progress");
    assert!(progress.unchanged >= 10, "{progress:?}");
    assert_eq!(progress.total, 60);
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
    assert_eq!(scene.migrations().get_opt(&older).await.unwrap(), None);
}

/// The names of two StorageMigrations that were created in the same second, the older one first.
async fn two(scene: &Scene, spec: Value) -> (String, String) {
    let names = ["a", "b"].map(|letter| format!("{}-{letter}", scene.migration()));
    loop {
        let both = names.each_ref().map(|name| scene.migrate_as(name, spec.clone()));
        let mut both = futures::future::join_all(both).await;
        both.sort_by_key(seniority);
        if both[0].metadata.creation_timestamp == both[1].metadata.creation_timestamp {
            return (both[0].name_any(), both[1].name_any());
        }
        // The second was over between the two.
        for name in &names {
            scene.delete_migration(name).await;
        }
    }
}

fn seniority(migration: &StorageMigration) -> (jiff::Timestamp, String) {
    let created = migration.creation_timestamp().expect("a time of creation").0;
    (created, migration.uid().expect("a uid"))
}

async fn until(scene: &Scene, name: &str, reason: Reason) -> StorageMigrationStatus {
    scene.until_of(name, reason.as_str(), |status| reason_of(status) == Some(reason)).await
}

/// Waits until the younger one is stalled by the older one.
async fn stands_back(scene: &Scene, younger: &str, older: &str) {
    let status = until(scene, younger, Reason::AnotherMigrator).await;
    let condition = |type_: ConditionType| status.conditions.iter().find(|c| c.type_ == type_.as_str());
    let stalled = condition(ConditionType::Stalled).expect("it is stalled");
    assert!(stalled.message.contains(older), "{}", stalled.message);
    assert_eq!(condition(ConditionType::Succeeded).map(|c| c.status.as_str()), Some("False"));
}
