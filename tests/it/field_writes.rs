//! Field cases of the write itself: it never creates, never drops a field, and is in no busy writer's way.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Client;
use kube::api::{DynamicObject, PostParams};
use restow::api::Reason;
use serde_json::json;
use testbed::crd::{self, Fixture, Kind};
use testbed::objects::{self, Batch, Hot, Key};
use tokio::task::JoinHandle;

use crate::scene::{Scene, counts};
use crate::trims::Trims;

#[tokio::test]
async fn b19_objects_deleted_and_created_anew_meanwhile_are_neither_a_failure_nor_brought_back() {
    let scene = Scene::widgets("b19-churn").await;
    let keys = scene.stored_old(&Batch::plain(400)).await;
    let trims = Trims::watch(&scene);
    let _controller = scene.begin(json!({ "pace": { "writesPerSecond": 40 } })).await;
    scene.until_stored("v1", 1).await;
    let churn = Churn::start(&scene, &keys);
    let status = scene.until(Reason::Migrated).await;
    let deleted = churn.stop().await;
    let progress = status.progress.expect("progress");
    assert!(progress.gone > 0, "the churn met no visit: {progress:?}");
    assert_eq!(progress.refused, 0);
    assert!(deleted.len() > 10, "{deleted:?}");
    let stored: BTreeSet<_> = scene.values().await.into_iter().map(|stored| stored.key).collect();
    let back: Vec<_> = deleted.iter().filter(|name| stored.iter().any(|key| key.ends_with(*name))).collect();
    assert!(back.is_empty(), "restow brought back {back:?}");
    assert_eq!(stored.len(), 400 - deleted.len());
    assert_eq!(scene.stored().await, counts([("v1", stored.len())]));
    let seen = trims.seen();
    assert_eq!(seen.len(), 1);
    assert!(!seen[0].stored.contains_key("v1alpha1"), "{seen:?}");
}

/// A client that deletes objects here and there, and creates two of three anew under the same name.
struct Churn {
    deleted: Arc<Mutex<BTreeSet<String>>>,
    task: JoinHandle<()>,
}

impl Churn {
    fn start(scene: &Scene, keys: &[Key]) -> Self {
        let deleted = Arc::new(Mutex::new(BTreeSet::new()));
        let (client, kind) = (scene.client.clone(), scene.kind.clone());
        let (keys, gone) = (keys.to_vec(), Arc::clone(&deleted));
        // Every object once, far from its neighbours: 397 and the number of objects have no divisor in common.
        let order: Vec<usize> = (0..keys.len()).map(|turn| turn * 397 % keys.len()).collect();
        let task = tokio::spawn(async move {
            for (turn, number) in order.into_iter().enumerate() {
                let key = &keys[number];
                objects::delete(&client, &kind, "v1", key).await.expect("delete");
                // From the start, and from the end of the page on, which is visited last.
                if turn.is_multiple_of(3) {
                    gone.lock().expect("no panic").insert(format!("/{}", key.name));
                } else {
                    create_anew(&client, &kind, key).await;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { deleted, task }
    }

    /// The names of those that were deleted for good.
    async fn stop(self) -> BTreeSet<String> {
        // Not aborted: an object must not be left deleted that was to be created.
        self.task.await.expect("the churn goes through");
        self.deleted.lock().expect("no panic").clone()
    }
}

async fn create_anew(client: &Client, kind: &Kind, key: &Key) {
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": kind.api_version("v1"),
        "kind": kind.kind,
        "metadata": { "name": key.name },
        "spec": { "color": "anew" },
    }))
    .expect("an object");
    let api = kind.api(client, "v1", key.namespace.as_deref());
    api.create(&PostParams::default(), &object).await.expect("create anew");
}

#[tokio::test]
async fn b21_a_field_that_only_the_storage_version_has_survives() {
    let scene =
        Scene::new("b21-new-field", |group| Fixture::widgets(group).without_field("v1alpha1", "color")).await;
    let keys = scene.stored_old(&Batch::plain(20)).await;
    scene.touch_until_stored(&keys[0], "v1").await;
    // These have the field in etcd: a write through v1alpha1 would drop it.
    let batch = Batch::plain(20).named("n");
    objects::create(&scene.client, &scene.kind, "v1", &batch).await.expect("create");
    let before = objects::snapshot(&scene.client, &scene.kind, "v1").await.expect("read");
    assert_eq!(before.iter().filter(|(_, object)| object["spec"]["color"].is_string()).count(), 20);
    let _controller = scene.begin(json!({})).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 40)]));
    let after = objects::snapshot(&scene.client, &scene.kind, "v1").await.expect("read");
    assert_eq!(before.differences(&after), Vec::<String>::new());
    let requests = scene.audit.entries(&scene.requests());
    assert!(!requests.is_empty());
    for request in requests {
        assert_eq!(request.object.expect("an object").api_version, "v1", "{}", request.uri);
    }
}

#[tokio::test]
async fn b21_a_storage_version_that_is_not_served_is_refused_before_the_first_write() {
    let scene = Scene::widgets("b21-not-served").await;
    let batch = Batch::plain(20);
    objects::create(&scene.client, &scene.kind, "v1alpha1", &batch).await.expect("create");
    let fixture = || Fixture::widgets(&scene.kind.group).stored_in("v1");
    crd::apply(&scene.client, &fixture().not_served("v1")).await.expect("apply the CRD");
    let before = scene.revisions().await;
    let _controller = scene.begin(json!({})).await;
    let status = scene.until(Reason::StorageVersionNotServed).await;
    assert_eq!(status.conditions[0].status, "False");
    assert_eq!(scene.audit.count(&scene.requests()), 0);
    assert_eq!(scene.revisions().await, before);
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    // It is served from now on, and the migration goes on by itself.
    crd::apply(&scene.client, &fixture()).await.expect("apply the CRD");
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 20)]));
}

#[tokio::test]
async fn b27_objects_that_change_all_the_time_need_no_second_attempt() {
    let scene = Scene::widgets("b27-hot").await;
    let keys = scene.stored_old(&Batch::plain(20)).await;
    let _controller = scene.controller(&[]).await;
    let hot = Hot::start(scene.client.clone(), scene.kind.clone(), "v1", keys, Duration::from_millis(200));
    scene.migrate(json!({ "pace": { "writesPerSecond": 4 } })).await;
    let status = scene.until(Reason::Migrated).await;
    let progress = status.progress.expect("progress");
    assert_eq!((progress.total, progress.visited, progress.refused), (20, 20, 0));
    assert!(hot.written() > 100, "{hot:?}");
    // Once in the sweep, and once more in the confirm if somebody wrote it meanwhile, as nearly always; a few more where five
    // attempts of the server itself met a writer.
    let visits = scene.visits();
    assert!((30..=50).contains(&visits), "{visits} visits");
    assert_eq!(scene.stored().await, counts([("v1", 20)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}
