//! Field cases of users whom `storedVersions` keeps from their next upgrade, or from their roll-back.

use restow::api::{Reason, StorageMigrationStatus};
use serde_json::json;
use testbed::audit::Filter;
use testbed::crd::{self, Fixture};
use testbed::objects::{self, Batch};

use crate::scene::{Scene, counts, reason_of};

#[tokio::test]
async fn b01_stored_versions_is_trimmed_although_there_is_nothing_to_rewrite() {
    let (none, touched) =
        tokio::join!(Scene::widgets("b01-no-objects"), Scene::widgets("b01-touched-objects"));
    none.stored_old(&Batch::plain(0)).await;
    let keys = touched.stored_old(&Batch::plain(50)).await;
    touched.touch_until_stored(&keys[0], "v1").await;
    for key in &keys[1..] {
        objects::touch(&touched.client, &touched.kind, "v1", key).await.expect("touch");
    }
    assert_eq!(touched.stored().await, counts([("v1", 50)]));
    let _controllers = [none.controller(&[]).await, touched.controller(&[]).await];
    tokio::join!(assert_nothing_is_rewritten(&none, 0), assert_nothing_is_rewritten(&touched, 50));
}

async fn assert_nothing_is_rewritten(scene: &Scene, objects: usize) {
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    let before = scene.revisions().await;
    scene.migrate(json!({})).await;
    let status = scene.until(Reason::Migrated).await;
    let progress = status.progress.expect("progress");
    let count = u64::try_from(objects).expect("a small count");
    assert_eq!((progress.total, progress.rewritten, progress.unchanged), (count, 0, count));
    let target = status.target.expect("target");
    assert_eq!(target.stored_versions_before, ["v1alpha1", "v1"]);
    assert_eq!(target.stored_versions_after, ["v1"]);
    assert_eq!(scene.stored_versions().await, ["v1"]);
    assert_eq!(scene.visits(), objects);
    assert_eq!(scene.revisions().await, before);
    scene.remove_version("v1alpha1").await;
}

#[tokio::test]
async fn b03_a_version_that_is_still_stored_is_not_migrated_away_from() {
    let scene = Scene::widgets("b03-version-is-storage").await;
    let batch = Batch::plain(20);
    objects::create(&scene.client, &scene.kind, "v1alpha1", &batch).await.expect("create");
    let _controller = scene.begin(json!({ "expectedStorageVersion": "v1" })).await;
    let status = scene.until(Reason::Waiting).await;
    let said = &status.conditions[0];
    assert_eq!((said.type_.as_str(), said.status.as_str()), ("Succeeded", "Unknown"));
    assert!(said.message.contains("until its storage flag has moved to v1"), "{}", said.message);
    scene.patch_spec(scene.migration(), json!({ "expectedStorageVersion": null })).await;
    // Without the wish there is nothing to do, and what objects are stored in is said.
    let status = scene.until(Reason::NothingToMigrate).await;
    assert_eq!(status.target.expect("target").storage_version, "v1alpha1");
    assert_eq!(scene.visits(), 0);
    assert_eq!(scene.stored().await, counts([("v1alpha1", 20)]));
    assert_eq!(scene.stored_versions().await, ["v1alpha1"]);
    // The flag moves, as the order expects it: it runs by itself.
    scene.patch_spec(scene.migration(), json!({ "expectedStorageVersion": "v1" })).await;
    scene.until(Reason::Waiting).await;
    scene.move_storage("v1").await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 20)]));
}

#[tokio::test]
async fn b05_a_roll_back_to_the_older_version_is_a_migration_like_any_other() {
    let scene = Scene::new("b05-roll-back", |group| Fixture::widgets(group).stored_in("v1")).await;
    objects::create(&scene.client, &scene.kind, "v1", &Batch::plain(30)).await.expect("create");
    scene.move_storage("v1alpha1").await;
    assert_eq!(scene.stored_versions().await, ["v1", "v1alpha1"]);
    let _controller = scene.begin(json!({})).await;
    let status = scene.until(Reason::Migrated).await;
    assert_eq!(status.target.expect("target").storage_version, "v1alpha1");
    assert_eq!(scene.stored().await, counts([("v1alpha1", 30)]));
    assert_eq!(scene.stored_versions().await, ["v1alpha1"]);
    scene.remove_version("v1").await;
}

#[tokio::test]
async fn b07_an_absent_crd_stops_nobody_else_and_is_picked_up_when_it_appears() {
    let scene = Scene::old_widgets("b07-absent-crd", 20).await;
    let absent = Fixture::gadgets(&scene.kind.group);
    scene.grant(absent.kind()).await;
    let _controller = scene.controller(&[]).await;
    let resource = json!({ "group": scene.kind.group, "resource": "gadgets" });
    scene.migrate_as("b07-ghosts", json!({ "resource": resource })).await;
    scene.migrate(json!({})).await;
    let until = |reason| {
        let is_met = move |status: &StorageMigrationStatus| reason_of(status) == Some(reason);
        scene.until_of("b07-ghosts", Reason::as_str(reason), is_met)
    };
    let status = until(Reason::TargetNotFound).await;
    assert_eq!(status.conditions[0].status, "False");
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 20)]));
    let asked = Filter::crds().name(&absent.kind().crd_name()).user_agent("restow/");
    assert!(scene.audit.count(&asked) <= 3, "{:#?}", scene.audit.entries(&asked));
    let told = Filter::resource("restow.dev", "storagemigrations").name("b07-ghosts").verb("patch");
    assert!(scene.audit.count(&told) <= 2, "{:#?}", scene.audit.entries(&told));

    let kind = crd::apply(&scene.client, &absent).await.expect("apply the CRD");
    until(Reason::NothingToMigrate).await;
    objects::create(&scene.client, &kind, "v1alpha1", &Batch::plain(20)).await.expect("create");
    crd::move_storage(&scene.client, &kind.crd_name(), "v1").await.expect("move the flag");
    until(Reason::Migrated).await;
    let stored = scene.plane.etcd().stored_versions(&kind.group, kind.plural).await;
    assert_eq!(stored, [(kind.api_version("v1"), 20)].into());
}
