//! `managedFields` that the API server takes away when it can't convert to the versions that they name: before Kubernetes
//! 1.37 it does so in any write.

use restow::api::{Reason, StorageMigrationStatus};
use serde_json::json;
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::Fixture;
use testbed::objects::{self, Batch, Snapshot};
use testbed::proxy::{Fault, Proxy, Rule};
use testbed::webhook::{Mapping, Webhook};

use crate::scene::{Scene, counts, reason_of};

const OBJECTS: usize = 20;

async fn snapshot(scene: &Scene) -> Snapshot {
    objects::snapshot(&scene.client, &scene.kind, "v1").await.unwrap()
}

fn take_away(_: Vec<u8>) -> Vec<u8> {
    json!({ "metadata": { "managedFields": [{}] } }).to_string().into_bytes()
}

#[tokio::test]
async fn entries_that_a_visit_takes_away_are_put_back() {
    let scene = Scene::old_widgets("managed-lost", OBJECTS).await;
    let before = snapshot(&scene).await;
    let proxy = Proxy::start(scene.plane).await.unwrap();
    // The visit of the one loses them; that of the other, and the first attempt to put them back.
    for (name, times) in [("w003", 1), ("w007", 2)] {
        let loses = Rule::new(Fault::EditRequest(take_away)).method("PATCH").uri(format!("/{name}?"));
        proxy.add(loses.times(times));
    }
    let _controller = scene.begin_through(&proxy, json!({})).await;
    let status = scene.until(Reason::Migrated).await;
    assert_eq!(status.progress.map(|p| (p.rewritten, p.refused)), Some((OBJECTS as u64, 0)));
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
    assert_eq!(before.differences(&snapshot(&scene).await), Vec::<String>::new());
    let values = scene.plane.etcd().values(&scene.kind.group, scene.kind.plural).await;
    let twice = values.iter().filter(|value| value.writes == 3).count();
    assert_eq!(twice, 2, "created, rewritten without them, and with them again");
}

#[tokio::test]
async fn entries_that_somebody_else_takes_away_stay_away() {
    let scene = Scene::widgets("managed-reset").await;
    let keys = scene.stored_old(&Batch::plain(OBJECTS)).await;
    let nobody = json!({ "metadata": { "managedFields": [{}] } });
    objects::patch(&scene.client, &scene.kind, "v1", &keys[3], &nobody).await.unwrap();
    let before = snapshot(&scene).await;
    let _controller = scene.begin(json!({})).await;
    scene.until_all_migrated(OBJECTS).await;
    assert_eq!(before.differences(&snapshot(&scene).await), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_is_down_costs_no_object_its_entries() {
    let mut webhook = Webhook::start(Mapping::ApiVersionOnly).await.unwrap();
    let converted = |group: &str| Fixture::widgets(group).converted_by(webhook.conversion());
    // A plane of its own: others need their history.
    let plane = Box::leak(Box::new(ControlPlane::start(Options::default()).await.unwrap()));
    let scene = Scene::on(plane, "managed-webhook", converted).await;
    scene.stored_old(&Batch::plain(OBJECTS)).await;
    let _controller = scene.begin(json!({})).await;
    scene.until_all_migrated(OBJECTS).await;
    // Stored in the storage version, they need no conversion, but their entries do; those of the others don't.
    let others = Batch::plain(OBJECTS).across(&["managed-webhook"]);
    objects::create(&scene.client, &scene.kind, "v1", &others).await.unwrap();
    let before = snapshot(&scene).await;
    webhook.stop();
    let again = format!("{}-again", scene.migration());
    scene.migrate_as(&again, json!({ "resource": scene.resource(), "mode": "Always" })).await;
    let is_under_way = |status: &StorageMigrationStatus| {
        assert!(status.refusals.is_empty(), "{status:#?}");
        let says_why = status.conditions.first().is_some_and(|c| c.message.contains("conversion webhook"));
        says_why || reason_of(status) == Some(Reason::Migrated)
    };
    scene.until_of(&again, "an end, or the webhook's silence", is_under_way).await;
    plane.etcd().compact_now().await;
    webhook.restart().await.unwrap();
    let is_migrated = |status: &StorageMigrationStatus| {
        assert!(status.refusals.is_empty(), "{status:#?}");
        reason_of(status) == Some(Reason::Migrated)
    };
    scene.until_of(&again, "Migrated", is_migrated).await;
    assert_eq!(before.differences(&snapshot(&scene).await), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_is_down_costs_no_object_its_entries_that_an_older_server_writes_from_its_cache() {
    let mut webhook = Webhook::start(Mapping::ApiVersionOnly).await.unwrap();
    let converted = |group: &str| Fixture::widgets(group).converted_by(webhook.conversion());
    let scene = Scene::new("managed-cache", converted).await;
    scene.stored_old(&Batch::plain(OBJECTS)).await;
    let before = snapshot(&scene).await;
    webhook.stop();
    let _controller = scene.begin(json!({})).await;
    let is_under_way = |status: &_| matches!(reason_of(status), Some(Reason::BackingOff | Reason::Migrated));
    scene.until_of(scene.migration(), "an end, or the webhook's silence", is_under_way).await;
    webhook.restart().await.unwrap();
    scene.until_all_migrated(OBJECTS).await;
    assert_eq!(before.differences(&snapshot(&scene).await), Vec::<String>::new());
}
