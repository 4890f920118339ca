//! Field cases of pace: many migrations at once don't add up, and each really old object is one event for its watchers.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use kube::api::{ListParams, WatchEvent, WatchParams};
use restow::api::{Reason, StorageMigrationStatus};
use serde_json::json;
use testbed::audit::Filter;
use testbed::crd::{self, Fixture, Kind};
use testbed::objects::{self, Batch};
use tokio::task::JoinHandle;

use crate::scene::{Scene, counts, eventually, reason_of};

#[tokio::test]
async fn b55_ten_migrations_at_once_keep_to_the_limit_of_one() {
    const KINDS: usize = 10;
    const OBJECTS: usize = 40;
    let scene = Scene::widgets("b55-limit").await;
    let mut kinds = vec![scene.kind.clone()];
    for number in 1..KINDS {
        let fixture = Fixture::widgets(&format!("b55-limit-{number}.example.com"));
        kinds.push(crd::apply(&scene.client, &fixture).await.unwrap());
        scene.grant(fixture.kind()).await;
    }
    for kind in &kinds {
        objects::create(&scene.client, kind, "v1alpha1", &Batch::plain(OBJECTS)).await.unwrap();
        crd::move_storage(&scene.client, &kind.crd_name(), "v1").await.unwrap();
    }
    let _controller = scene.controller(&["--writes-per-second", "20"]).await;
    for (number, kind) in kinds.iter().enumerate() {
        let mut spec = json!({ "resource": { "group": kind.group, "resource": kind.plural } });
        if number == 0 {
            // At this pace it would take longer than anybody waits here.
            spec["pace"] = json!({ "writesPerSecond": 1 });
            spec["resource"] = json!(scene.resource());
        }
        scene.migrate_as(&format!("b55-limit-{number}"), spec).await;
    }
    let is_met = |status: &StorageMigrationStatus| reason_of(status) == Some(Reason::Migrated);
    eventually("some visits of each", async || {
        kinds.iter().all(|kind| !visits(&scene, kind).is_empty()).then_some(())
    })
    .await;
    let slow = visits(&scene, &kinds[0]).len();
    assert!(slow < OBJECTS / 2, "{slow} visits at one a second");
    // What one migration may do is changed while all of them run. The limit of the process still holds.
    scene.patch_spec("b55-limit-0", json!({ "pace": { "writesPerSecond": 50 } })).await;
    for (number, kind) in kinds.iter().enumerate() {
        scene.until_of(&format!("b55-limit-{number}"), "Migrated", is_met).await;
        let stored = scene.plane.etcd().stored_versions(&kind.group, kind.plural).await;
        assert_eq!(stored, counts([(kind.api_version("v1").as_str(), OBJECTS)]));
    }
    let all: Vec<_> = kinds.iter().flat_map(|kind| visits(&scene, kind)).collect();
    assert!(all.len() >= KINDS * OBJECTS, "{} visits", all.len());
    // 20 a second, and a tenth of it for what was under way.
    assert_most(&all, Duration::from_secs(5), 110);
}

#[tokio::test]
async fn b61_watchers_see_one_event_for_each_old_object_and_none_for_others() {
    const OLD: usize = 100;
    let scene = Scene::widgets("b61-events").await;
    let old = scene.stored_old(&Batch::plain(OLD)).await;
    scene.touch_until_stored(&old[0], "v1").await;
    objects::create(&scene.client, &scene.kind, "v1", &Batch::plain(30).named("n")).await.unwrap();
    let before = objects::snapshot(&scene.client, &scene.kind, "v1").await.unwrap();
    assert!(before.iter().all(|(_, object)| object["metadata"]["generation"] == 1));
    let events = Events::watch(&scene).await;
    let _controller = scene.begin(json!({ "pace": { "writesPerSecond": 20, "maxInFlight": 2 } })).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", OLD + 30)]));
    // The last word that a watcher gets is that of the test itself.
    objects::patch(&scene.client, &scene.kind, "v1", &old[0], &json!({ "spec": { "size": 4711 } }))
        .await
        .unwrap();
    let seen = events.until_seen(&old[0].name).await;
    let expected: BTreeMap<_, _> = old.iter().map(|key| (key.name.clone(), 1)).collect();
    assert_eq!(seen, expected, "events by object");

    objects::patch(&scene.client, &scene.kind, "v1", &old[0], &json!({ "spec": { "size": 0 } }))
        .await
        .unwrap();
    let after = objects::snapshot(&scene.client, &scene.kind, "v1").await.unwrap();
    let differences: Vec<_> =
        before.differences(&after).into_iter().filter(|line| !line.contains(&old[0].name)).collect();
    assert_eq!(differences, Vec::<String>::new(), "generation and all else is as it was");
    // One more than 20 fit into a second at an even pace; two were under way. A burst at the start would be 20 more.
    assert_most(&visits(&scene, &scene.kind), Duration::from_secs(1), 23);
}

/// When the visits of a kind came in.
fn visits(scene: &Scene, kind: &Kind) -> Vec<Timestamp> {
    let patches = Filter::resource(&kind.group, kind.plural).verb("patch").user_agent("restow/");
    scene.audit.entries(&patches).into_iter().map(|entry| entry.received).collect()
}

/// Asserts that no window of time has more of the moments than that.
fn assert_most(moments: &[Timestamp], window: Duration, count_max: usize) {
    let mut sorted = moments.to_vec();
    sorted.sort();
    for (index, from) in sorted.iter().enumerate() {
        let within = sorted[index..].iter().take_while(|moment| **moment < *from + window).count();
        assert!(within <= count_max, "{within} in {window:?} from {from}");
    }
}

/// The changes that a watcher of a kind is told of.
struct Events {
    modified: Arc<Mutex<BTreeMap<String, usize>>>,
    task: JoinHandle<()>,
}

impl Events {
    async fn watch(scene: &Scene) -> Self {
        let api = scene.kind.api(&scene.client, "v1", None);
        let from = api.list_metadata(&ListParams::default()).await.expect("list").metadata.resource_version;
        let modified = Arc::new(Mutex::new(BTreeMap::new()));
        let found = Arc::clone(&modified);
        let task = tokio::spawn(async move {
            let params = WatchParams::default().timeout(290);
            let events = api.watch_metadata(&params, &from.unwrap_or_default()).await.expect("watch");
            let mut events = pin!(events.into_stream());
            while let Some(Ok(event)) = events.next().await {
                match event {
                    WatchEvent::Modified(object) => {
                        let name = object.metadata.name.unwrap_or_default();
                        *found.lock().expect("no panic").entry(name).or_default() += 1;
                    }
                    WatchEvent::Bookmark(_) => {}
                    other @ (WatchEvent::Added(_) | WatchEvent::Deleted(_) | WatchEvent::Error(_)) => {
                        panic!("nothing is created or deleted here: {other:?}")
                    }
                }
            }
        });
        Self { modified, task }
    }

    /// The events so far, once there is one for this object.
    async fn until_seen(&self, name: &str) -> BTreeMap<String, usize> {
        eventually("the last event", async || {
            assert!(!self.task.is_finished(), "the watch has ended");
            let seen = self.modified.lock().expect("no panic").clone();
            seen.contains_key(name).then_some(seen)
        })
        .await
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.task.abort();
    }
}
