//! Another client of the same API server, and how long it waits while somebody migrates.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testbed::crd::{self, Fixture, Kind};
use testbed::objects::{self, Batch, Key};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::bed::Bed;

/// A GET and a PATCH so often.
const EVERY: Duration = Duration::from_millis(50);

const OBJECTS: usize = 20;

/// When its requests were sent, and how long they took, the shortest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Vec<(Timestamp, Duration)>);

pub(crate) struct Foreground {
    client: Client,
    kind: Kind,
    keys: Vec<Key>,
}

impl Foreground {
    pub(crate) async fn set(bed: &Bed) -> Self {
        let client = bed.admin.clone();
        let kind = crd::apply(&client, &Fixture::widgets("foreground.example.com")).await.expect("apply");
        let keys = objects::create(&client, &kind, "v1alpha1", &Batch::plain(OBJECTS)).await.expect("create");
        Self { client, kind, keys }
    }

    /// Asks on while `during` runs.
    pub(crate) async fn beside<T>(&self, during: impl Future<Output = T>) -> (T, Latencies) {
        let (done, mut is_done) = watch::channel(false);
        let both = async {
            let done_with = during.await;
            done.send_replace(true);
            done_with
        };
        tokio::join!(both, self.ask(&mut is_done))
    }

    async fn ask(&self, is_done: &mut watch::Receiver<bool>) -> Latencies {
        let (mut took, mut ticks) = (Vec::new(), interval(EVERY));
        // One that is late is not made up for: that would be a load of its own.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        for key in self.keys.iter().cycle() {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = is_done.wait_for(|done| *done) => break,
            }
            let api = self.kind.api(&self.client, "v1alpha1", key.namespace.as_deref());
            let (at, began) = (Timestamp::now(), Instant::now());
            api.get(&key.name).await.expect("read it");
            took.push((at, began.elapsed()));
            let change = json!({ "spec": { "size": took.len() } });
            let (at, began) = (Timestamp::now(), Instant::now());
            api.patch(&key.name, &PatchParams::default(), &Patch::Merge(change)).await.expect("change it");
            took.push((at, began.elapsed()));
        }
        took.sort_by_key(|(_, took)| *took);
        Latencies(took)
    }
}

impl Latencies {
    /// Those of requests that were sent in that time.
    pub(crate) fn between(mut self, [from, to]: [Timestamp; 2]) -> Self {
        self.0.retain(|(at, _)| (from..=to).contains(at));
        self
    }

    /// In milliseconds, what so many of a hundred did not exceed.
    pub(crate) fn percentile(&self, of_hundred: usize) -> f64 {
        let at = (self.0.len() * of_hundred / 100).min(self.0.len().saturating_sub(1));
        self.0.get(at).map_or(0.0, |(_, took)| took.as_secs_f64() * 1000.0)
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "requests": self.0.len(), "p50Ms": self.percentile(50), "p99Ms": self.percentile(99) })
    }
}
