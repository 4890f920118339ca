//! Objects that a conversion webhook turns from one version into the other.

use restow::api::{ConditionType, Reason};
use serde_json::{Value, json};
use testbed::crd::Fixture;
use testbed::etcd::Etcd;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b31_an_object_that_cannot_be_converted_is_named_and_blocks_the_trim() {
    let webhook = Webhook::start(Mapping::CronTab).await.unwrap();
    let scene = crontabs("webhook-bad", &webhook, &Batch::of(10, one_bad)).await;
    scene.move_storage("v1").await;
    let _controller = scene.begin(json!({})).await;
    let status = scene.until(Reason::ObjectsRefused).await;
    let [refusal] = status.refusals.as_slice() else { panic!("{status:#?}") };
    assert_eq!((refusal.namespace.as_deref(), refusal.name.as_str()), (Some("default"), "w003"));
    let succeeded = status.conditions.iter().find(|c| c.type_ == ConditionType::Succeeded.as_str());
    assert_eq!(succeeded.map(|c| c.status.as_str()), Some("False"));
    let progress = status.progress.expect("progress");
    assert_eq!((progress.visited, progress.rewritten, progress.refused), (10, 9, 1));
    assert_eq!(scene.stored().await, counts([("v1", 9), ("v1beta1", 1)]));
    assert_eq!(scene.stored_versions().await, ["v1beta1", "v1"]);

    // The server takes no write of such an object. Once it is right, it is visited like any other; a change of the spec
    // tries at once.
    let key = Etcd::key(&scene.kind.group, scene.kind.plural, Some("default"), "w003");
    let mut object = scene.plane.etcd().get(&key).await.and_then(|stored| stored.object()).unwrap();
    object["spec"]["hostPort"] = json!("node:1");
    scene.plane.etcd().put(&key, object.to_string()).await;
    scene.patch_spec(scene.migration(), json!({ "pageSize": 100 })).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 10)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

/// Crontabs that are stored in v1beta1, converted by `webhook`.
async fn crontabs(name: &str, webhook: &Webhook, batch: &Batch) -> Scene {
    let scene = Scene::new(name, |group| Fixture::crontabs_in(group, webhook.conversion())).await;
    objects::create(&scene.client, &scene.kind, "v1beta1", batch).await.unwrap();
    scene
}

fn one_bad(number: usize) -> Value {
    let mut crontab = content::crontab(number);
    if number == 3 {
        crontab["spec"]["hostPort"] = json!("8080");
    }
    crontab
}
