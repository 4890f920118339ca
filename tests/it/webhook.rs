//! Objects that a conversion webhook turns from one version into the other.

use restow::api::Reason;
use serde_json::{Value, json};
use testbed::crd::Fixture;
use testbed::objects::{self, Batch, content};
use testbed::webhook::{Mapping, Webhook};

use crate::scene::{Scene, counts};

const OBJECTS: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_crontabs_are_converted_and_trimmed() {
    let webhook = Webhook::start(Mapping::CronTab).await.unwrap();
    let scene = crontabs("webhook", &webhook, &Batch::of(OBJECTS, content::crontab)).await;
    assert_eq!(scene.stored().await, counts([("v1beta1", OBJECTS)]));
    let before = objects::snapshot(&scene.client, &scene.kind, "v1").await.unwrap();
    scene.move_storage("v1").await;
    let asked = webhook.asked().objects;
    let _controller = scene.controller(&["--writes-per-second", "0"]).await;
    scene.migrate(json!({})).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
    assert!(webhook.asked().objects >= asked + OBJECTS as u64, "{:?}", webhook.asked());

    // As they are stored, and as the server shows them.
    for stored in scene.plane.etcd().values(&scene.kind.group, scene.kind.plural).await {
        let object = stored.object().unwrap();
        let spec = &object["spec"];
        assert!(spec["host"].is_string() && spec["port"].is_string(), "{object}");
        assert_eq!(spec["hostPort"], Value::Null, "{object}");
    }
    let after = objects::snapshot(&scene.client, &scene.kind, "v1").await.unwrap();
    assert_eq!(before.len(), OBJECTS);
    assert_eq!(before.differences(&after), Vec::<String>::new());
}

/// Crontabs that are stored in v1beta1, converted by `webhook`.
async fn crontabs(name: &str, webhook: &Webhook, batch: &Batch) -> Scene {
    let scene = Scene::new(name, |group| Fixture::crontabs_in(group, webhook.conversion())).await;
    objects::create(&scene.client, &scene.kind, "v1beta1", batch).await.unwrap();
    scene
}
