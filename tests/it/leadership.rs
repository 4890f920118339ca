//! Several controllers, of which one is at work: whatever becomes of it, no two write at the same time, and the next one
//! goes on where it was.
//!
//! Each replica has a proxy of its own, so that what it sends is known by itself. They share the Lease that the manifests give
//! restow the right to, so these tests take turns.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::DeleteParams;
use restow::api::Reason;
use serde_json::json;
use testbed::access;
use testbed::objects::Batch;
use testbed::process::{Exit, Signal};
use testbed::proxy::{Fault, Gate, Passed, Proxy, Rule};
use testbed::restow::Restow;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

use crate::health::Health;
use crate::scene::{Scene, counts, eventually};

/// Held by the test whose replicas hold, or want, the Lease.
static LEASE: Mutex<()> = Mutex::const_new(());

/// The times of the Lease, well below the usual.
const LEASE_TIME: Duration = Duration::from_secs(6);
const FLAGS: [&str; 4] = [
    "--leader-elect",
    "--leader-election-lease-duration=6s",
    "--leader-election-renew-deadline=4s",
    "--leader-election-retry-period=1s",
];

const OBJECTS: usize = 600;
const PAGE: u64 = 20;

pub(crate) struct Replica {
    health: Health,
    pub(crate) proxy: Proxy,
    restow: Restow,
}

impl Replica {
    async fn start(scene: &Scene) -> Self {
        Self::start_behind(scene, Proxy::start(scene.plane).await.unwrap(), &FLAGS).await
    }

    /// One behind this proxy, which elects by these flags.
    pub(crate) async fn start_behind(scene: &Scene, proxy: Proxy, flags: &[&str]) -> Self {
        let health = Health::free();
        let flags = [flags, &["--admin-address", &health.address]].concat();
        let restow = scene.controller_through(&proxy, &flags).await;
        Self { health, proxy, restow }
    }

    /// Whether it says that it leads. It is alive and ready, and knows all CRDs, whether it does or not.
    pub(crate) fn leads(&self) -> bool {
        assert!(self.health.is_ok("/livez") && self.health.is_ok("/readyz"));
        let metrics = self.health.metrics("*/*");
        assert!(metrics.contains("restow_crd_stored_versions{"), "{metrics}");
        metrics.contains("\nrestow_leader 1")
    }

    /// Whether it led once, and had to stop.
    pub(crate) fn has_stood_down(&self) -> bool {
        self.restow.log().contains("not leading any more")
    }

    /// All that it has sent that changes something, but for the Lease.
    fn writes(&self) -> Vec<Passed> {
        let mut passed = self.proxy.passed();
        passed.retain(|request| request.method != "GET" && !request.uri.contains("/leases"));
        passed
    }

    fn last_write(&self) -> Option<Timestamp> {
        self.writes().last().map(|request| request.at)
    }

    async fn until_writes(&self, count: usize) {
        eventually("writes", async || (self.writes().len() >= count).then_some(())).await;
    }
}

/// The turn of one test, with no Lease left over from the one before.
async fn turn(scene: &Scene) -> MutexGuard<'static, ()> {
    let turn = LEASE.lock().await;
    let leases: Api<Lease> = Api::namespaced(scene.client.clone(), access::NAMESPACE);
    drop(leases.delete("restow", &DeleteParams::default()).await);
    turn
}

/// Which of them writes.
async fn at_work(replicas: &[Replica]) -> usize {
    at_work_besides(replicas, None).await
}

/// Which of them writes, beside one whose last requests may still come in.
async fn at_work_besides(replicas: &[Replica], paused: Option<usize>) -> usize {
    let writes = || replicas.iter().map(|replica| replica.writes().len()).collect::<Vec<_>>();
    let before = writes();
    eventually("a replica at work", async || {
        let now = writes();
        (0..now.len()).find(|place| Some(*place) != paused && now[*place] > before[*place] + 5)
    })
    .await
}

/// Waits until the second visits, and asserts that the first has not written after that, and that the second goes on where
/// the status was: `done` objects, in the order of their names, are not visited again.
async fn handed_over(from: &Replica, to: &Replica, since: Timestamp, done: u64) {
    let later = eventually("visits of the next one", async || {
        let mut later = to.writes();
        later.retain(|request| request.at > since);
        (visited(&later).len() >= 5).then_some(later)
    })
    .await;
    let (last, first) = (from.last_write().expect("it has written"), later[0].at);
    assert!(last < first, "the old one wrote at {last}, the new one since {first}");
    let begun = &visited(&later)[..5];
    assert!(begun.iter().all(|name| **name >= *format!("w{done:03}")), "{begun:?} after {done} were done");
}

/// The objects that are visited, in turn.
pub(crate) fn visited(requests: &[Passed]) -> Vec<&str> {
    requests.iter().filter_map(|request| request.uri.split(['?', '/']).find(|it| is_object(it))).collect()
}

fn is_object(name: &str) -> bool {
    name.strip_prefix('w').is_some_and(|number| number.parse::<u64>().is_ok())
}

/// How many objects are done by the checkpoint.
async fn done(scene: &Scene) -> u64 {
    let checkpoint = scene.status_of(scene.migration()).await.checkpoint.expect("a checkpoint");
    checkpoint.rewritten + checkpoint.unchanged
}

#[tokio::test]
async fn b67_of_three_replicas_one_writes_whatever_becomes_of_it() {
    let scene = Scene::widgets("b67-replicas").await;
    let _turn = turn(&scene).await;
    scene.stored_old(&Batch::plain(OBJECTS)).await;
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(Replica::start(&scene).await);
    }
    scene.migrate(json!({ "pace": { "writesPerSecond": 25 }, "pageSize": PAGE })).await;

    // Killed.
    let first = at_work(&replicas).await;
    replicas[first].until_writes(120).await;
    for (place, replica) in replicas.iter().enumerate() {
        assert!(place == first || replica.writes().is_empty(), "{:?}", replica.writes());
    }
    let killed_with = done(&scene).await;
    let (killed_at, killed) = (Timestamp::now(), Instant::now());
    replicas[first].restow.signal(Signal::Kill);
    let second = at_work(&replicas).await;
    assert!(killed.elapsed() < LEASE_TIME + Duration::from_secs(10), "after {:?}", killed.elapsed());
    handed_over(&replicas[first], &replicas[second], killed_at, killed_with).await;
    assert!(killed_with >= 2 * PAGE, "{killed_with} were done");

    // Paused, until another leads; and as it wakes up it learns of that late.
    let (paused_with, paused_at) = (done(&scene).await, Timestamp::now());
    replicas[second].restow.signal(Signal::Stop);
    let third = at_work_besides(&replicas, Some(second)).await;
    let slow = Rule::new(Fault::Delay(Duration::from_secs(3))).uri("/leases");
    replicas[second].proxy.add(slow);
    let sent = replicas[second].writes().len();
    replicas[second].restow.signal(Signal::Continue);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(replicas[second].writes().len(), sent, "a leader that wakes up writes nothing");
    handed_over(&replicas[second], &replicas[third], paused_at, paused_with).await;
    replicas[second].proxy.heal();

    // Told to stop: the one that woke up stands by and is the next.
    let stopped_with = done(&scene).await;
    let (stopped_at, stopped) = (Timestamp::now(), Instant::now());
    replicas[third].restow.signal(Signal::Term);
    assert_eq!(replicas[third].restow.wait_exit(Duration::from_secs(10)).await.unwrap(), Exit::Code(0));
    assert_eq!(at_work(&replicas).await, second);
    assert!(stopped.elapsed() < Duration::from_secs(8), "after {:?}", stopped.elapsed());
    handed_over(&replicas[third], &replicas[second], stopped_at, stopped_with).await;

    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
    assert!(scene.values().await.iter().all(|stored| stored.writes == 2));
}

#[tokio::test]
async fn b67_a_leader_that_can_not_renew_stops_before_another_starts_and_lives_on() {
    let scene = Scene::widgets("b67-doubt").await;
    let _turn = turn(&scene).await;
    scene.stored_old(&Batch::plain(OBJECTS)).await;
    let replicas = [Replica::start(&scene).await, Replica::start(&scene).await];
    scene.migrate(json!({ "pace": { "writesPerSecond": 25 }, "pageSize": PAGE })).await;
    let old = at_work(&replicas).await;

    assert!(replicas[old].leads() && !replicas[1 - old].leads());

    // Its Lease alone is out of reach. All else would get through.
    let refused = Fault::status(503, "ServiceUnavailable", "no Lease today");
    let (doubted_with, doubt) = (done(&scene).await, Timestamp::now());
    replicas[old].proxy.add(Rule::new(refused).uri("/leases"));
    handed_over(&replicas[old], &replicas[1 - old], doubt, doubted_with).await;
    assert!(replicas[old].restow.is_running());
    let sent = replicas[old].writes().len();

    // The same for both, for longer than a Lease holds: nobody writes, nobody ends.
    let refused = Fault::status(503, "ServiceUnavailable", "no Lease today");
    replicas[1 - old].proxy.add(Rule::new(refused).uri("/leases"));
    sleep(LEASE_TIME + Duration::from_secs(1)).await;
    scene.no_visits_for(Duration::from_secs(3)).await;
    assert_eq!(replicas[old].writes().len(), sent, "it stands by");
    for replica in &replicas {
        assert!(replica.restow.is_running() && !replica.leads());
        replica.proxy.heal();
    }
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
    assert!(scene.values().await.iter().all(|stored| stored.writes == 2));
}

#[tokio::test]
async fn a_replica_whose_watch_hangs_does_not_act_on_a_spec_that_was_changed_since() {
    let scene = Scene::widgets("leader-behind").await;
    let _turn = turn(&scene).await;
    scene.stored_old(&Batch::plain(OBJECTS)).await;
    let first = Replica::start(&scene).await;
    scene.migrate(json!({ "pace": { "writesPerSecond": 25 }, "pageSize": PAGE })).await;
    first.until_writes(20).await;

    let (proxy, gate) = (Proxy::start(scene.plane).await.unwrap(), Gate::default());
    proxy.add(Rule::new(Fault::Gate(gate.clone())).uri("/storagemigrations?").uri("watch=true"));
    let second = Replica::start_behind(&scene, proxy, &FLAGS).await;
    gate.reached().await;
    scene.patch_spec(scene.migration(), json!({ "suspend": true })).await;
    scene.until(Reason::Suspended).await;
    first.restow.signal(Signal::Kill);

    let one = format!("/storagemigrations/{}", scene.migration());
    let read = || second.proxy.passed().iter().filter(|p| p.method == "GET" && p.uri.contains(&one)).count();
    eventually("several looks", async || (read() >= 3).then_some(())).await;
    assert_eq!(visited(&second.writes()), Vec::<&str>::new());
    gate.open();
    scene.patch_spec(scene.migration(), json!({ "suspend": false, "pace": null })).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
}
