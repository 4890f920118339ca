//! Another client of the same API server, and how long it waits while somebody migrates.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testbed::crd::{self, Fixture, Kind};
use testbed::objects::{self, Batch, Key};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::Args;
use crate::bed::{Bed, Objects};
use crate::contestant::{Pace, Who};
use crate::round::Round;
use crate::scenario::Found;

/// A GET and a PATCH so often.
const EVERY: Duration = Duration::from_millis(50);

const OBJECTS: usize = 20;

/// How long the foreground client is watched with nobody beside it.
const ALONE: Duration = Duration::from_secs(20);

/// What the default ceiling is chosen from.
const PACES: [Pace; 6] =
    [Pace::Default, Pace::AtMost(200), Pace::AtMost(300), Pace::AtMost(400), Pace::Adaptive, Pace::Unlimited];

/// When its requests were sent, and how long they took, the shortest first.
#[derive(Clone, Debug, Default)]
struct Latencies(Vec<(Timestamp, Duration)>);

struct Foreground {
    client: Client,
    kind: Kind,
    keys: Vec<Key>,
}

/// What another client waited beside one of them.
struct Beside {
    name: String,
    /// Objects a second, of each round.
    rates: Vec<f64>,
    latencies: Latencies,
}

/// How long another client waits. What it waits beside the same contestant is taken together, since a round has few requests.
pub(crate) async fn run(args: &Args, objects: Objects) -> Found {
    let mut bed = Bed::set(&args.binary, objects).await;
    let foreground = Foreground::set(&bed).await;
    let there = PACES.map(|pace| Some(Who::Controller(pace)));
    let mut order = vec![None];
    order.extend(there);
    order.extend([Some(Who::Builtin); 2]);
    order.extend(there.into_iter().rev());
    order.push(None);
    let mut beside: Vec<Beside> = Vec::new();
    for who in order {
        let name = who.map_or_else(|| "nothing".to_owned(), Who::name);
        let (rate, latencies) = match who {
            None => (None, foreground.beside(sleep(ALONE)).await.1),
            Some(who) => {
                bed.make_stale().await;
                let audit = bed.plane.audit().from_now();
                let (watched, latencies) = foreground.beside(who.run(&bed, args.in_flight, None)).await;
                let round = Round::watched(&bed, who, &watched, &audit).await;
                // Before and after it nobody stands in its way.
                (Some(round.objects as f64 / round.sweep), latencies.between(round.swept))
            }
        };
        println!("{name:32} p99 {:5.1} ms, {:4.0} objects/s", latencies.percentile(99), rate.unwrap_or(0.0));
        match beside.iter_mut().find(|it| it.name == name) {
            Some(before) => before.add(rate, latencies),
            None => beside.push(Beside { name, rates: rate.into_iter().collect(), latencies }),
        }
    }
    let alone = beside[0].latencies.percentile(99);
    let head = "| beside | p50 ms | p99 ms | p99 to nothing | objects/s |\n|---|---|---|---|---|\n";
    let rows = beside.iter().map(|it| it.row(alone));
    let text = std::iter::once(head.to_owned()).chain(rows).collect();
    Found { text, json: beside.iter().map(Beside::json).collect(), plot: None }
}

impl Foreground {
    async fn set(bed: &Bed) -> Self {
        let client = bed.admin.clone();
        let kind = crd::apply(&client, &Fixture::widgets("foreground.example.com")).await.expect("apply");
        let keys = objects::create(&client, &kind, "v1alpha1", &Batch::plain(OBJECTS)).await.expect("create");
        Self { client, kind, keys }
    }

    /// Asks on while `during` runs.
    async fn beside<T>(&self, during: impl Future<Output = T>) -> (T, Latencies) {
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
    fn between(mut self, [from, to]: [Timestamp; 2]) -> Self {
        self.0.retain(|(at, _)| (from..=to).contains(at));
        self
    }

    /// Takes those of another round in.
    fn join(&mut self, Self(others): Self) {
        self.0.extend(others);
        self.0.sort_by_key(|(_, took)| *took);
    }

    /// In milliseconds, what so many of a hundred did not exceed.
    fn percentile(&self, of_hundred: usize) -> f64 {
        let at = (self.0.len() * of_hundred / 100).min(self.0.len().saturating_sub(1));
        self.0.get(at).map_or(0.0, |(_, took)| took.as_secs_f64() * 1000.0)
    }

    fn json(&self) -> Value {
        json!({ "requests": self.0.len(), "p50Ms": self.percentile(50), "p99Ms": self.percentile(99) })
    }
}

impl Beside {
    fn add(&mut self, rate: Option<f64>, latencies: Latencies) {
        self.rates.extend(rate);
        self.latencies.join(latencies);
    }

    /// The mean over the rounds, where there is a migrator.
    fn rate(&self) -> Option<f64> {
        (!self.rates.is_empty()).then(|| self.rates.iter().sum::<f64>() / self.rates.len() as f64)
    }

    fn row(&self, alone: f64) -> String {
        let [p50, p99] = [50, 99].map(|of_hundred| self.latencies.percentile(of_hundred));
        let rate = self.rate().map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"));
        format!("| {} | {p50:.1} | {p99:.1} | {:.2} | {rate} |\n", self.name, p99 / alone)
    }

    fn json(&self) -> Value {
        json!({ "beside": self.name, "latencies": self.latencies.json(), "objectsPerSecond": self.rate() })
    }
}
