//! The component `flow-control`: the API server has restow's requests wait at a level of their own.

use std::fs;

use restow::api::Reason;
use serde_json::json;
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::Fixture;
use testbed::objects::Batch;

use crate::manifests::{documents, path, render_with, succeeds};
use crate::scene::{Scene, counts, eventually};

const OBJECTS: usize = 30;

#[tokio::test]
async fn requests_are_seen_at_the_level_of_their_own_and_the_lease_at_another() {
    // It holds for a whole cluster, so it is tried on a control plane of its own.
    let plane = ControlPlane::start(Options::default()).await.expect("start a control plane");
    let plane: &'static ControlPlane = Box::leak(Box::new(plane));
    let flow_control = documents(&render_with(&["flow-control"]))
        .into_iter()
        .filter(|object| object["apiVersion"] == "flowcontrol.apiserver.k8s.io/v1");
    let file = plane.new_path("flow-control.json");
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": flow_control.collect::<Vec<_>>() });
    fs::write(&file, list.to_string()).unwrap();
    succeeds(plane, &["apply", "--server-side", "-f", path(&file)]).await;

    let scene = Scene::on(plane, "flow-control", Fixture::widgets).await;
    scene.stored_old(&Batch::plain(OBJECTS)).await;
    eventually("the server to know of it", async || {
        let schema = plane.kubectl(&["get", "flowschema", "restow", "-o", "yaml"]).await.ok()?;
        String::from_utf8_lossy(&schema.stdout).contains("status: \"False\"").then_some(())
    })
    .await;
    let _controller = scene.controller(&["--leader-elect=true"]).await;
    scene.migrate(json!({})).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
    let seen = |schema, level| dispatched(plane, schema, level);
    let (own, lease) =
        (seen("restow", "restow").await, seen("restow-leader-election", "leader-election").await);
    // Each visit, two lists, and some looks at the CRD.
    assert!(own >= OBJECTS as f64 + 4.0, "{own}");
    assert!(lease >= 2.0, "{lease}");
    assert!(seen("service-accounts", "workload-low").await < OBJECTS as f64, "what else is asked for");
}

/// How many requests of a `FlowSchema` the server has let through at a level.
async fn dispatched(plane: &ControlPlane, schema: &str, level: &str) -> f64 {
    let metrics = plane.kubectl(&["get", "--raw", "/metrics"]).await.unwrap();
    let metrics = String::from_utf8(metrics.stdout).unwrap();
    let labels = [format!("flow_schema=\"{schema}\""), format!("priority_level=\"{level}\"")];
    let line = metrics
        .lines()
        .filter(|line| line.starts_with("apiserver_flowcontrol_dispatched_requests_total{"))
        .find(|line| labels.iter().all(|label| line.contains(label)));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
}
