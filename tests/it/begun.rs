//! What somebody else did while restow was away: a result is told only where it is one.

use restow::api::Reason;
use serde_json::json;
use testbed::objects::Batch;
use testbed::process::{Exit, Signal};
use testbed::restow::Restow;

use crate::scene::{PATIENCE, Scene, counts};

#[tokio::test]
async fn a_run_goes_on_after_a_restart_although_somebody_trimmed_by_hand() {
    let scene = Scene::old_widgets("begun-by-hand", 60).await;
    let controller = scene.begin(json!({ "pace": { "writesPerSecond": 5 }, "pageSize": 10 })).await;
    scene.until_visits(20).await;
    kill(controller).await;
    scene.set_stored_versions(&["v1"]).await;
    let _restarted = scene.controller(&[]).await;
    let status = scene.until_of(scene.migration(), "an end", |status| status.completion_time.is_some()).await;
    assert_eq!(scene.stored().await, counts([("v1", 60)]), "{status:#?}");
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test]
async fn a_full_run_is_repeated_after_the_flag_moved_away_and_back_unseen() {
    let scene = Scene::widgets("begun-unseen").await;
    let keys = scene.stored_old(&Batch::plain(5)).await;
    let controller = scene.begin(json!({ "mode": "Always" })).await;
    scene.until(Reason::Migrated).await;
    kill(controller).await;
    scene.move_storage("v1alpha1").await;
    for key in &keys {
        scene.touch_until_stored(key, "v1alpha1").await;
    }
    scene.move_storage("v1").await;
    assert_eq!(scene.stored_versions().await, ["v1", "v1alpha1"]);
    let _restarted = scene.controller(&[]).await;
    scene.until_stored("v1", 5).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

async fn kill(controller: Restow) {
    controller.signal(Signal::Kill);
    assert_eq!(controller.wait_exit(PATIENCE).await.unwrap(), Exit::Signal(9));
}
