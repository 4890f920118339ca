//! Outages of the whole cluster while leaders are elected: nobody leads, so nothing is sent for any migration, and whoever leads
//! next goes on where the status is.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use testbed::process::Signal;
use testbed::proxy::{Passed, Proxy};
use tokio::time::sleep;

use crate::leadership::{Replica, visited};
use crate::outages::{OUTAGE, Three};
use crate::scene::eventually;

/// The most requests for the Lease in an outage: two replicas look at it and try to take it every two seconds.
const BIDS_MAX: u64 = 2 * 2 * OUTAGE.as_secs() / 2;

/// Two replicas with the usual times, in the middle of three migrations.
struct Elected {
    three: Three,
    replicas: Vec<Replica>,
    /// How many objects of each kind were done, by its checkpoint.
    done: Vec<u64>,
}

impl Elected {
    async fn new(name: &str, etcd_flags: Vec<String>) -> Self {
        let three = Three::new(name, etcd_flags).await;
        let mut replicas = Vec::new();
        for _ in 0..2 {
            let proxy = Proxy::start(three.scene.plane).await.unwrap();
            replicas.push(Replica::start_behind(&three.scene, proxy, &["--leader-elect"]).await);
        }
        three.order(&json!({ "pageSize": 10, "pace": { "writesPerSecond": 3 } })).await;
        let mut done = Vec::new();
        for at in 0..three.kinds.len() {
            let name = three.name(at);
            let status = three.scene.until_of(&name, "two pages", |status| {
                status.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.rewritten >= 20)
            });
            done.push(status.await.checkpoint.unwrap().rewritten);
        }
        Self { three, replicas, done }
    }

    /// Looks on for a while in which nobody leads: the Lease alone is asked for.
    async fn nobody_leads(&self) {
        let stood_down = || self.replicas.iter().any(Replica::has_stood_down);
        eventually("the leader to stand down", async || stood_down().then_some(())).await;
        // What was sent before may be a while on its way.
        let since = Timestamp::now() + Duration::from_secs(2);
        sleep(OUTAGE).await;
        assert!(!self.replicas.iter().any(Replica::leads));
        let sent: Vec<Passed> = self.sent_since(since).into_iter().map(|(_, passed)| passed).collect();
        let bids = sent.iter().filter(|passed| passed.uri.contains("/leases")).count() as u64;
        assert!(bids > 0 && bids <= BIDS_MAX, "{bids} requests for the Lease");
        let group = &self.three.scene.kind.group;
        let for_a_target = |passed: &&Passed| {
            passed.method != "GET" || passed.uri.contains(group) || passed.uri.contains("/storagemigrations/")
        };
        let sent: Vec<_> = sent.iter().filter(|p| !p.uri.contains("/leases")).filter(for_a_target).collect();
        assert!(sent.is_empty(), "{sent:#?}");
    }

    /// All that was sent by which replica, in turn.
    fn sent_since(&self, since: Timestamp) -> Vec<(usize, Passed)> {
        let all = self.replicas.iter().enumerate();
        let mut sent: Vec<_> = all
            .flat_map(|(who, it)| it.proxy.passed().into_iter().map(move |passed| (who, passed)))
            .collect();
        sent.retain(|(_, passed)| passed.at > since);
        sent.sort_by_key(|(_, passed)| passed.at);
        sent
    }

    /// Waits until all are migrated, which is to begin where each was.
    async fn until_migrated(&self, back: Timestamp) {
        for at in 0..self.three.kinds.len() {
            self.three.scene.patch_spec(&self.three.name(at), json!({ "pace": null })).await;
        }
        self.three.until_migrated().await;
        let sent: Vec<Passed> = self.sent_since(back).into_iter().map(|(_, passed)| passed).collect();
        for (kind, done) in self.three.kinds.iter().zip(&self.done) {
            let of_kind = |passed: &&Passed| {
                passed.method == "PATCH"
                    && passed.uri.contains(&format!("/apis/{}/", kind.group))
                    && passed.uri.contains(&format!("/{}/", kind.plural))
            };
            let visits: Vec<Passed> = sent.iter().filter(of_kind).cloned().collect();
            let first = visited(&visits)[0];
            assert!(first >= format!("w{done:03}").as_str(), "{first} after {done} were done");
        }
        self.assert_one_writer_at_a_time();
    }

    fn assert_one_writer_at_a_time(&self) {
        let mut sent = self.sent_since(Timestamp::MIN);
        sent.retain(|(_, passed)| passed.method != "GET" && !passed.uri.contains("/leases"));
        let mut writers: Vec<_> = sent.into_iter().map(|(who, passed)| (passed.at, who)).collect();
        writers.dedup_by_key(|(_, who)| *who);
        // One more, should the machine have slept. Two that write at once take turns all the time.
        assert!(writers.len() <= 3, "{writers:?}");
    }
}

#[tokio::test]
async fn while_etcd_is_out_of_space_nobody_leads_and_the_next_leader_goes_on() {
    let elected = Elected::new("elected-space", vec!["--quota-backend-bytes=33554432".to_owned()]).await;
    let etcd = elected.three.scene.plane.etcd();
    etcd.fill().await;
    elected.nobody_leads().await;
    let back = Timestamp::now();
    etcd.make_room().await;
    elected.until_migrated(back).await;
}

#[tokio::test]
async fn while_the_api_server_is_away_nobody_leads_and_the_next_leader_goes_on() {
    let elected = Elected::new("elected-gone", Vec::new()).await;
    let server = elected.three.scene.plane.api_server();
    server.stop(Signal::Kill).await.unwrap();
    elected.nobody_leads().await;
    let back = Timestamp::now();
    server.start().await.unwrap();
    elected.until_migrated(back).await;
}
