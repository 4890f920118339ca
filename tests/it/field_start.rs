//! Field cases of the start: the order, its CRD and the objects appear at the same moment.

use restow::api::{Reason, StorageMigrationStatus};
use serde_json::json;
use testbed::crd::{self, Fixture};
use testbed::objects::{self, Batch};

use crate::scene::{Scene, reason_of};

/// How often it is tried.
const REPEATS: usize = 5;

#[tokio::test]
async fn b69_an_order_that_is_applied_before_its_crd_and_objects_is_carried_out() {
    let scene = Scene::widgets("b69-start").await;
    let fixtures: Vec<_> =
        (0..REPEATS).map(|repeat| Fixture::gadgets(&format!("b69-start-{repeat}.example.com"))).collect();
    for fixture in &fixtures {
        scene.grant(fixture.kind()).await;
    }
    let _controller = scene.controller(&["--settle", "0s"]).await;
    for fixture in &fixtures {
        let kind = fixture.kind();
        let resource = json!({ "group": kind.group, "resource": kind.plural });
        // A full run, although the CRD names one version alone: it begins while the server still learns of the resource.
        scene.migrate_as(&kind.group, json!({ "resource": resource, "mode": "Always" })).await;
        crd::apply(&scene.client, fixture).await.expect("apply the CRD");
        objects::create(&scene.client, kind, "v1", &Batch::plain(5)).await.expect("create");
    }
    for fixture in &fixtures {
        let is_met = |status: &StorageMigrationStatus| reason_of(status) == Some(Reason::Migrated);
        let status = scene.until_of(&fixture.kind().group, "Migrated", is_met).await;
        assert_eq!(status.progress.expect("progress").refused, 0);
    }
}
