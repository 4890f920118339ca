//! Field cases of a trim at the wrong moment: the flag that moved meanwhile, the server that lagged, the object left over.

use restow::api::Reason;
use serde_json::json;
use testbed::audit::Filter;
use testbed::objects::{Batch, Key};
use testbed::process::Signal;

use crate::policy::Policy;
use crate::scene::{Scene, counts, eventually};
use crate::trims::Trims;

#[tokio::test]
async fn b09_a_flag_that_moves_away_and_back_during_the_sweep_is_noticed() {
    let scene = Scene::widgets("b09-during-the-sweep").await;
    let keys = scene.stored_old(&Batch::plain(300)).await;
    let trims = Trims::watch(&scene);
    let _controller = scene.begin(json!({ "pace": { "writesPerSecond": 40 } })).await;
    scene.until_stored("v1", 150).await;
    away_and_back(&scene, &keys[..20]).await;
    scene.until(Reason::Migrated).await;
    trims.assert_one("v1", 300).await;
    assert_eq!(scene.stored().await, counts([("v1", 300)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test]
async fn b09_a_flag_that_moves_away_and_back_unseen_during_the_confirm_is_noticed() {
    let scene = Scene::widgets("b09-during-the-confirm").await;
    let keys = scene.stored_old(&Batch::plain(200)).await;
    let trims = Trims::watch(&scene);
    // A controller that was started anew remembers no object, so that its confirm visits those before its start again.
    let first = scene.controller(&["--page-size", "20"]).await;
    scene.migrate(json!({ "pace": { "writesPerSecond": 40 } })).await;
    scene
        .until_of(scene.migration(), "a checkpoint past the middle", |status| {
            status.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.rewritten >= 100)
        })
        .await;
    scene.until_stored("v1", 160).await;
    drop(first);
    let second = scene.controller(&["--page-size", "20"]).await;
    scene.until(Reason::Confirming).await;
    scene.patch_spec(scene.migration(), json!({ "pace": { "writesPerSecond": 5 } })).await;
    let confirmed = scene.requests().verb("patch").name(&keys[4].name);
    eventually("the first objects to be visited again", async || {
        (scene.audit.count(&confirmed) >= 2).then_some(())
    })
    .await;
    // It is shown both moves at once, and then a flag that is where it was.
    second.signal(Signal::Stop);
    away_and_back(&scene, &keys[..4]).await;
    second.signal(Signal::Continue);
    scene.patch_spec(scene.migration(), json!({ "pace": null })).await;
    scene.until(Reason::Migrated).await;
    trims.assert_one("v1", 200).await;
    assert_eq!(scene.stored().await, counts([("v1", 200)]));
}

/// Moves the flag to v1alpha1, writes the objects until each is stored in it, and moves the flag back.
async fn away_and_back(scene: &Scene, keys: &[Key]) {
    scene.move_storage("v1alpha1").await;
    for key in keys {
        scene.touch_until_stored(key, "v1alpha1").await;
    }
    scene.move_storage("v1").await;
}

#[tokio::test]
async fn b11_an_object_that_a_lagging_server_puts_back_is_migrated_again_before_the_trim() {
    let scene = Scene::widgets("b11-lagging-server").await;
    let keys = scene.stored_old(&Batch::plain(200)).await;
    let old = scene.values().await;
    let trims = Trims::watch(&scene);
    let _controller = scene.begin(json!({ "pace": { "writesPerSecond": 30 } })).await;
    for (key, stored) in keys.iter().zip(&old).take(5) {
        eventually("the object to be migrated", async || scene.is_stored(key, "v1").await.then_some(()))
            .await;
        scene.plane.etcd().put(&stored.key, &stored.bytes).await;
        assert!(scene.is_stored(key, "v1alpha1").await);
    }
    scene.until(Reason::Migrated).await;
    trims.assert_one("v1", 200).await;
    assert_eq!(scene.stored().await, counts([("v1", 200)]));
    assert!(scene.values().await.iter().zip(&old).all(
        |(now, then)| now.object().map(|o| o["spec"].clone()) == then.object().map(|o| o["spec"].clone())
    ));
}

#[tokio::test]
async fn b13_one_refused_object_blocks_the_trim() {
    let scene = Scene::widgets("b13-one-refused").await;
    let keys = scene.stored_old(&Batch::plain(100)).await;
    let bad = &keys[50];
    let policy = Policy::apply(&scene, "object.metadata.name != 'w050'", bad).await;
    let trims = Trims::watch(&scene);
    let _controller = scene.begin(json!({})).await;
    let status = scene.until(Reason::ObjectsRefused).await;
    assert_eq!(scene.stored().await, counts([("v1alpha1", 1), ("v1", 99)]));
    assert!(scene.is_stored(bad, "v1alpha1").await);
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    let conditions: Vec<_> =
        status.conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str())).collect();
    assert_eq!(conditions, [("Succeeded", "False"), ("Stalled", "True")]);
    let progress = status.progress.expect("progress");
    assert_eq!((progress.total, progress.rewritten, progress.refused), (100, 99, 1));
    let [refusal] = &status.refusals[..] else { panic!("{:#?}", status.refusals) };
    assert_eq!((refusal.namespace.as_deref(), refusal.name.as_str()), (Some("default"), "w050"));
    assert_eq!((refusal.code, refusal.reason.as_str(), refusal.attempts), (422, "Invalid", 3));
    assert!(refusal.message.contains(&policy.name), "{}", refusal.message);
    let tried = scene.requests().verb("patch").name("w050");
    assert_eq!(scene.audit.count(&tried), 3);
    // Nobody has touched the CRD's status meanwhile.
    assert_eq!(scene.audit.count(&crd_writes(&scene)), 0);

    policy.remove().await;
    let before = scene.visits();
    scene.patch_spec(scene.migration(), json!({ "pace": { "writesPerSecond": 50 } })).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.visits() - before, 1, "only what was refused is written again");
    trims.assert_one("v1", 100).await;
    assert_eq!(scene.stored_versions().await, ["v1"]);
    assert_eq!(scene.audit.count(&crd_writes(&scene)), 1);
}

fn crd_writes(scene: &Scene) -> Filter {
    Filter::crds().name(&scene.kind.crd_name()).verb("patch").user_agent("restow/")
}
