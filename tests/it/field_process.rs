//! Field cases of the controller's own process: it outlives an API server that is away, and does not grow.

use std::time::Duration;

use restow::api::{Reason, StorageMigrationStatus};
use serde_json::json;
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::Fixture;
use testbed::objects::{self, Batch};
use testbed::process::Signal;
use testbed::restow::Restow;
use tokio::time::{Instant, sleep};

use crate::health::Health;
use crate::scene::{Scene, counts, eventually, reason_of};
use crate::trims::Trims;

/// How long the API server is away: long enough for the waits between two tries to have grown.
const AWAY: Duration = Duration::from_secs(40);

/// How much more memory the controller may have after some thousand objects have come and gone.
const GROWTH_MAX_KIB: u64 = 3 * 1024;

#[tokio::test]
async fn b71_a_controller_outlives_an_api_server_that_is_away() {
    let plane = Box::leak(Box::new(ControlPlane::start(Options::default()).await.expect("start")));
    let scene = Scene::on(plane, "b71-away", Fixture::widgets).await;
    scene.stored_old(&Batch::plain(200)).await;
    let trims = Trims::watch(&scene);
    let health = Health::free();
    let controller = scene.controller(&["--admin-address", &health.address]).await;
    eventually("/readyz", async || health.is_ok("/readyz").then_some(())).await;
    scene.migrate(json!({ "pace": { "writesPerSecond": 20 } })).await;
    scene.until_visits(60).await;
    plane.api_server().stop(Signal::Kill).await.expect("stop the API server");
    let away_until = Instant::now() + AWAY;
    while Instant::now() < away_until {
        assert!(controller.is_running(), "it exited: {:?}", controller.exit());
        // Neither asks the API server: a restart would mend nothing.
        assert!(health.is_ok("/livez") && health.is_ok("/readyz"), "while the API server is away");
        sleep(Duration::from_millis(500)).await;
    }
    plane.api_server().start().await.expect("start the API server");
    let status = scene.until(Reason::Migrated).await;
    assert!(controller.is_running() && health.is_ok("/livez") && health.is_ok("/readyz"));
    assert_eq!(status.progress.map(|p| (p.total, p.refused)), Some((200, 0)));
    trims.assert_one("v1", 200).await;
    assert_eq!(scene.stored().await, counts([("v1", 200)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test]
async fn b63_objects_that_come_and_go_leave_nothing_behind_in_the_controller() {
    const OBJECTS: usize = 250;
    let scene = Scene::old_widgets("b63-churn", 0).await;
    let controller = scene.controller(&["--writes-per-second", "0"]).await;
    scene.migrate(json!({ "mode": "Always" })).await;
    scene.until(Reason::Migrated).await;
    let mut after_warm_up = 0;
    for round in 1..=16_u32 {
        let batch = Batch::plain(OBJECTS).named(&format!("round-{round}-"));
        let keys = objects::create(&scene.client, &scene.kind, "v1", &batch).await.expect("create");
        scene.patch_spec(scene.migration(), json!({ "pageSize": 100 + round })).await;
        let is_met = |status: &StorageMigrationStatus| {
            status.observed_generation == Some(i64::from(round) + 1)
                && reason_of(status) == Some(Reason::Migrated)
        };
        let status = scene.until_of(scene.migration(), "Migrated", is_met).await;
        assert_eq!(status.progress.map(|p| p.visited), Some(250), "each round is a full run");
        for key in &keys {
            objects::delete(&scene.client, &scene.kind, "v1", key).await.expect("delete");
        }
        if round == 6 {
            after_warm_up = memory_kib(&controller);
        }
    }
    let grown = memory_kib(&controller).saturating_sub(after_warm_up);
    assert!(
        grown < GROWTH_MAX_KIB,
        "{after_warm_up} KiB after six rounds, {grown} KiB more after ten others"
    );
}

/// The memory that a process has at this moment, by the kernel.
fn memory_kib(process: &Restow) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
