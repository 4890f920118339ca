//! The controller is killed, again and again, at moments that it can't choose.

use restow::api::Reason;
use serde_json::json;
use testbed::process::{Exit, Signal};
use tokio::time::{Instant, sleep};

use crate::scene::{PATIENCE, Scene, counts, eventually, reason_of};
use crate::trims::Trims;

/// Objects, kills, and objects of a page.
const OBJECTS: usize = 900;
const KILLS: usize = 5;
const PAGE_SIZE: usize = 50;

#[tokio::test]
async fn b57_five_kills_in_one_run_cost_no_second_write() {
    let scene = Scene::old_widgets("b57-kills", OBJECTS).await;
    let trims = Trims::watch(&scene);
    let pace = json!({ "writesPerSecond": 60 });
    scene.migrate(json!({ "pace": pace, "pageSize": PAGE_SIZE })).await;
    let mut visited = 0;
    for kill in 1..=KILLS {
        let controller = scene.controller(&[]).await;
        // The status of before says nothing about the new process: it is waited for what that has migrated itself.
        scene.until_stored("v1", OBJECTS * kill / (KILLS + 1)).await;
        let progress = scene.status_of(scene.migration()).await.progress;
        controller.signal(Signal::Kill);
        assert_eq!(controller.wait_exit(PATIENCE).await.expect("it dies"), Exit::Signal(9));
        let now = progress.map_or(0, |progress| progress.visited);
        assert!(now + PAGE_SIZE as u64 >= visited, "progress fell from {visited} to {now} at kill {kill}");
        visited = visited.max(now);
    }
    assert!(visited > 0, "no progress was ever written");
    let _controller = scene.controller(&[]).await;
    never_back_below(&scene, visited.saturating_sub(PAGE_SIZE as u64)).await;
    let status = scene.until(Reason::Migrated).await;
    trims.assert_one("v1", OBJECTS).await;
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
    let progress = status.progress.expect("progress");
    assert_eq!((progress.total, progress.visited), (OBJECTS as u64, OBJECTS as u64));
    // Created and rewritten: a visit that finds nothing to do is not written.
    assert!(scene.values().await.iter().all(|stored| stored.writes == 2));
}

/// Looks at the progress until the confirm begins, and asserts that it stays at `visited` at least.
async fn never_back_below(scene: &Scene, visited: u64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = scene.status_of(scene.migration()).await;
        let now = status.progress.as_ref().map_or(0, |progress| progress.visited);
        assert!(now >= visited, "progress fell from {visited} to {now}");
        if now == OBJECTS as u64 {
            return;
        }
        assert!(Instant::now() < deadline, "waited in vain for the sweep's end: {status:#?}");
        sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn b57_a_run_ends_although_no_process_lives_as_long_as_a_sweep_takes() {
    let scene = Scene::old_widgets("b57-short-lives", 200).await;
    scene.migrate(json!({ "pace": { "writesPerSecond": 20 }, "pageSize": 20 })).await;
    // Each sweep takes 10 s. Each process is killed once it has made another 60 visits.
    let mut lives = 0;
    while reason_of(&scene.status_of(scene.migration()).await) != Some(Reason::Migrated) {
        lives += 1;
        assert!(lives < 20, "the run is no nearer to its end after {lives} lives");
        let controller = scene.controller(&[]).await;
        let enough = scene.visits() + 60;
        eventually("60 more visits", async || {
            let is_over = reason_of(&scene.status_of(scene.migration()).await) == Some(Reason::Migrated);
            (is_over || scene.visits() >= enough).then_some(())
        })
        .await;
        controller.signal(Signal::Kill);
        assert_eq!(controller.wait_exit(PATIENCE).await.expect("it dies"), Exit::Signal(9));
    }
    assert!(lives > 3, "{lives} lives were enough");
    assert_eq!(scene.stored().await, counts([("v1", 200)]));
    assert!(scene.values().await.iter().all(|stored| stored.writes == 2));
}
