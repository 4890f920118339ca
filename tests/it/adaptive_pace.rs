//! The pace follows how the API server answers, within its ceilings. The arithmetic is tested in `plan::pace`.

use std::time::Duration;

use restow::api::Reason;
use serde_json::json;
use testbed::proxy::{Fault, Proxy, Rule};

use crate::health::Health;
use crate::scene::{Scene, counts, eventually};

/// What each visit takes at least: so much that nothing else weighs beside it.
const DELAY: Duration = Duration::from_millis(150);

const CEILING: f64 = 8.0;

#[tokio::test]
async fn more_is_under_way_while_answers_come_as_fast_as_ever_and_less_when_patience_is_asked_for() {
    let scene = Scene::old_widgets("adaptive", 1200).await;
    let proxy = Proxy::start(scene.plane).await.expect("start a proxy");
    let visits = |fault| Rule::new(fault).method("PATCH").uri(format!("/{}/", scene.kind.group));
    let slow = proxy.add_for_a_while(visits(Fault::Delay(DELAY)));
    let health = Health::free();
    let args = ["--writes-per-second", "0", "--max-in-flight", "8", "--admin-address", &health.address];
    let _controller = scene.controller_through(&proxy, &args).await;
    let at_first = eventually("metrics", async || gauge(&health, "allowed_in_flight")).await;
    assert!(at_first <= 1.0, "{at_first}");
    scene.migrate(json!({})).await;
    eventually("the ceiling", async || {
        let (allowed, in_flight) = (gauge(&health, "allowed_in_flight")?, gauge(&health, "in_flight")?);
        assert!(in_flight <= CEILING && allowed <= CEILING, "{in_flight} of {allowed}");
        (allowed >= CEILING && in_flight >= CEILING).then_some(())
    })
    .await;
    proxy.remove(slow);
    let busy = Fault::status(429, "TooManyRequests", "please try again later").retry_after(2);
    proxy.add(visits(busy).times(4));
    eventually("less", async || (gauge(&health, "allowed_in_flight")? <= CEILING / 2.0).then_some(())).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 1200)]));
}

/// What a metric of the pace says.
fn gauge(health: &Health, name: &str) -> Option<f64> {
    let text = health.is_ok("/livez").then(|| health.metrics("text/plain"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("restow_pace_{name} ")))?;
    line.parse().ok()
}
