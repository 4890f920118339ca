//! The controller is killed at each request of a short run, in a run of its own for each.
//!
//! A request is not sent on, or is acted on and its answer lost, and nothing passes from then on until the process is dead.
//! The next one meets the same fate, so that a confirm that was taken up is broken off, too. The one after that must bring
//! the migration to its end as if nothing had happened.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use restow::api::{Reason, StorageMigrationStatus};
use serde_json::json;
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::Fixture;
use testbed::etcd::Stored;
use testbed::objects::Batch;
use testbed::process::{Exit, Signal};
use testbed::proxy::{Fault, Proxy, Rule};

use crate::history::trims_since;
use crate::scene::{PATIENCE, Scene, counts, reason_of};

/// Objects, and objects of a page.
const OBJECTS: usize = 6;
const PAGE_SIZE: usize = 2;

/// Runs at a time.
const LANES: usize = 6;

/// Requests of a run at the least: watches, reviews, three pages listed twice, visits, the trim, statuses and events.
const REQUESTS_MIN: usize = 30;

/// Which request is the last.
#[derive(Clone, Copy, Debug)]
struct Kill {
    request: usize,
    is_acted_on: bool,
}

/// One CRD, whose objects are put back to the old version before each run.
struct Lane {
    scene: Scene,
    old: Vec<Stored>,
}

#[tokio::test]
async fn killed_at_any_request_a_run_ends_as_if_nothing_had_happened() {
    // Without identity Leases: each process would have to see for itself that the API server runs, for some seconds.
    let flags =
        vec!["--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false".to_owned()];
    let options = Options { api_server_flags: flags, ..Options::default() };
    let plane: &ControlPlane = Box::leak(Box::new(ControlPlane::start(options).await.expect("start")));
    let lanes = join_all((0..LANES).map(|number| Lane::new(plane, number))).await;
    let (tickets, requests) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    join_all(lanes.iter().map(async |lane| {
        loop {
            let ticket = tickets.fetch_add(1, Ordering::Relaxed);
            let kill = Kill { request: ticket / 2 + 1, is_acted_on: ticket % 2 == 1 };
            if kill.request > requests.load(Ordering::Relaxed) {
                break;
            }
            if lane.run(kill).await.is_break() {
                requests.fetch_min(kill.request - 1, Ordering::Relaxed);
            }
        }
    }))
    .await;
    let requests = requests.into_inner();
    assert!(requests >= REQUESTS_MIN, "a run is over after {requests} requests");
}

impl Lane {
    async fn new(plane: &'static ControlPlane, number: usize) -> Self {
        let scene = Scene::on(plane, &format!("kills-{number}"), Fixture::widgets).await;
        scene.stored_old(&Batch::plain(OBJECTS)).await;
        let old = scene.values().await;
        Self { scene, old }
    }

    /// Makes a run, kills its controller and the one after it, and lets a third end it. Breaks if the first ended it.
    async fn run(&self, kill: Kill) -> ControlFlow<()> {
        let scene = &self.scene;
        let begun = self.put_back().await;
        let before = scene.values().await;
        let name = format!("{}-{}-{}", scene.migration(), kill.request, kill.is_acted_on);
        scene.migrate_as(&name, json!({ "pageSize": PAGE_SIZE })).await;
        let flow = self.live(&name, kill).await;
        if flow.is_continue() && self.live(&name, kill).await.is_continue() {
            let _unharmed = scene.controller(&[]).await;
            self.until_done(&name).await;
        }
        self.assert_right(kill, &scene.status_of(&name).await, &before, begun).await;
        scene.delete_migration(&name).await;
        flow
    }

    /// One controller's life: to the request at which it is killed, or to the end of the run.
    async fn live(&self, name: &str, kill: Kill) -> ControlFlow<()> {
        let proxy = Proxy::start(self.scene.plane).await.unwrap();
        let at = if kill.is_acted_on { Fault::HoldAfter } else { Fault::HoldBefore };
        proxy.add(Rule::new(at).after(kill.request - 1).times(1));
        proxy.add(Rule::new(Fault::HoldBefore).after(kill.request - 1));
        let controller = self.scene.controller_through(&proxy, &[]).await;
        let is_over = async {
            self.until_done(name).await;
            // It sends what is left to be sent before it goes.
            controller.signal(Signal::Term);
            controller.wait_exit(PATIENCE).await.expect("it ends");
        };
        tokio::select! {
            () = is_over => return ControlFlow::Break(()),
            () = proxy.until_held(1) => controller.signal(Signal::Kill),
        }
        assert_eq!(controller.wait_exit(PATIENCE).await.expect("it dies"), Exit::Signal(9), "{kill:?}");
        ControlFlow::Continue(())
    }

    async fn until_done(&self, name: &str) {
        let is_done = |status: &StorageMigrationStatus| reason_of(status) == Some(Reason::Migrated);
        self.scene.until_of(name, &format!("Migrated of {name}"), is_done).await;
    }

    /// Stores the objects as they were at first, with both versions named. The flag stays: no run but the first settles.
    async fn put_back(&self) -> i64 {
        let Scene { plane, .. } = &self.scene;
        for stored in &self.old {
            plane.etcd().put(&stored.key, &stored.bytes).await;
        }
        self.scene.set_stored_versions(&["v1alpha1", "v1"]).await;
        plane.etcd().revision().await
    }

    async fn assert_right(&self, kill: Kill, status: &StorageMigrationStatus, before: &[Stored], begun: i64) {
        let scene = &self.scene;
        assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]), "{kill:?}");
        assert_eq!(scene.stored_versions().await, ["v1"], "{kill:?}");
        let after = scene.values().await;
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(after.writes, before.writes + 1, "{kill:?}: writes of {}", after.key);
            let mut expected = before.object().expect("JSON");
            expected["apiVersion"] = json!(scene.kind.api_version("v1"));
            assert_eq!(after.object(), Some(expected), "{kill:?}");
        }
        let trims = trims_since(scene.plane.etcd(), &scene.kind, begun).await;
        assert_eq!(trims.len(), 1, "{kill:?}: {trims:?}");
        assert_eq!(trims[0].forgotten, [""; 0], "{kill:?}");
        let progress = status.progress.as_ref().expect("progress");
        let counted = progress.rewritten + progress.unchanged;
        let all = OBJECTS as u64;
        assert_eq!((progress.total, progress.visited, counted), (all, all, all), "{kill:?}: {progress:?}");
    }
}
