//! Outages of the whole cluster: all migrations wait together, and go on by themselves.

use std::time::Duration;

use restow::api::{Reason, StorageMigrationStatus};
use serde_json::{Value, json};
use testbed::audit::Filter;
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::{self, Fixture, Kind};
use testbed::objects::{self, Batch};
use testbed::process::Signal;
use testbed::proxy::{Fault, Passed, Proxy, Rule};
use testbed::restow::Restow;
use tokio::time::{Instant, sleep};

use crate::scene::{Scene, eventually, reason_of};

/// Objects of each kind.
const OBJECTS: usize = 150;

/// How long the cluster is away.
pub(crate) const OUTAGE: Duration = Duration::from_mins(1);

/// A scene with three kinds on a control plane of its own, each with its StorageMigration to be.
pub(crate) struct Three {
    pub(crate) scene: Scene,
    pub(crate) kinds: Vec<Kind>,
}

impl Three {
    pub(crate) async fn new(name: &str, etcd_flags: Vec<String>) -> Self {
        let options = Options { etcd_flags, ..Options::default() };
        let plane = Box::leak(Box::new(ControlPlane::start(options).await.expect("start")));
        let scene = Scene::on(plane, name, Fixture::widgets).await;
        let mut kinds = vec![scene.kind.clone()];
        for fixture in
            [Fixture::gadgets(&scene.kind.group), Fixture::widgets(&format!("b.{name}.example.com"))]
        {
            let kind = crd::apply(&scene.client, &fixture).await.unwrap();
            scene.grant(&kind).await;
            kinds.push(kind);
        }
        for kind in &kinds {
            objects::create(&scene.client, kind, "v1alpha1", &Batch::plain(OBJECTS)).await.unwrap();
            crd::move_storage(&scene.client, &kind.crd_name(), "v1").await.unwrap();
        }
        Self { scene, kinds }
    }

    pub(crate) fn name(&self, at: usize) -> String {
        format!("{}-{at}", self.scene.migration())
    }

    /// Creates the StorageMigration of each kind, with further fields of the spec.
    pub(crate) async fn order(&self, spec: &Value) {
        for (at, kind) in self.kinds.iter().enumerate() {
            let mut spec = spec.clone();
            spec["resource"] = json!({ "group": kind.group, "resource": kind.plural });
            self.scene.migrate_as(&self.name(at), spec).await;
        }
    }

    /// Starts all migrations, and waits until each has stored a few objects.
    async fn begin(&self) -> Restow {
        let controller = self.scene.controller(&["--writes-per-second", "30"]).await;
        self.order(&json!({})).await;
        for at in 0..self.kinds.len() {
            eventually("objects in v1", async || (self.stored(at).await >= 5).then_some(())).await;
        }
        controller
    }

    async fn stored(&self, at: usize) -> usize {
        let kind = &self.kinds[at];
        let stored = self.scene.plane.etcd().stored_versions(&kind.group, kind.plural).await;
        stored.get(&kind.api_version("v1")).copied().unwrap_or_default()
    }

    /// Waits until all wait for the cluster, as the log says: no status can be written.
    async fn until_waiting(&self, controller: &Restow) {
        eventually("all to wait", async || {
            let waiting = controller.log().matches("no migration is getting on").count();
            (waiting >= self.kinds.len()).then_some(())
        })
        .await;
    }

    /// Waits until all are migrated, and nothing was held against an object.
    pub(crate) async fn until_migrated(&self) {
        let is_migrated = |status: &StorageMigrationStatus| reason_of(status) == Some(Reason::Migrated);
        for at in 0..self.kinds.len() {
            let status = self.scene.until_of(&self.name(at), "Migrated", is_migrated).await;
            assert_eq!(status.progress.map(|p| p.refused), Some(0));
            assert_eq!(self.stored(at).await, OBJECTS);
        }
    }
}

#[tokio::test]
async fn while_etcd_is_out_of_space_all_migrations_wait_and_few_requests_are_sent() {
    let three = Three::new("outages-space", vec!["--quota-backend-bytes=33554432".to_owned()]).await;
    let plane = three.scene.plane;
    let controller = three.begin().await;
    plane.etcd().fill().await;
    three.until_waiting(&controller).await;
    let audit = plane.audit().from_now();
    sleep(OUTAGE).await;
    let asked = audit.entries(&Filter::default().user_agent("restow/"));
    let asked: Vec<_> = asked.iter().filter(|entry| entry.verb != "watch").collect();
    assert!(!asked.is_empty() && asked.len() <= 15, "{} requests in a minute: {asked:#?}", asked.len());
    for at in 0..three.kinds.len() {
        assert!(three.stored(at).await < OBJECTS);
    }
    plane.etcd().make_room().await;
    three.until_migrated().await;
}

#[tokio::test]
async fn an_api_server_that_is_away_for_a_minute_costs_nothing_but_that() {
    let three = Three::new("outages-gone", Vec::new()).await;
    let server = three.scene.plane.api_server();
    let controller = three.begin().await;
    server.stop(Signal::Kill).await.unwrap();
    three.until_waiting(&controller).await;
    sleep(OUTAGE).await;
    server.start().await.unwrap();
    let back = Instant::now();
    three.until_migrated().await;
    assert!(controller.is_running());
    // The longest wait is a minute, and the work that is left takes 15 seconds.
    assert!(back.elapsed() < Duration::from_secs(110), "it took {:?}", back.elapsed());
}

#[tokio::test]
async fn one_word_of_etcd_holds_nobody_up_where_nothing_is_left_to_write() {
    let scene = Scene::widgets("outages-word").await;
    objects::create(&scene.client, &scene.kind, "v1alpha1", &Batch::plain(OBJECTS)).await.unwrap();
    let gadgets = crd::apply(&scene.client, &Fixture::gadgets(&scene.kind.group)).await.unwrap();
    scene.grant(&gadgets).await;
    objects::create(&scene.client, &gadgets, "v1alpha1", &Batch::plain(5)).await.unwrap();
    crd::move_storage(&scene.client, &gadgets.crd_name(), "v1").await.unwrap();
    let proxy = Proxy::start(scene.plane).await.unwrap();
    let word = Fault::status(500, "InternalError", "etcdserver: leader changed");
    proxy.add(Rule::new(word).method("PATCH").uri("/widgets/").after(2).times(1));
    let _controller = scene.controller_through(&proxy, &[]).await;
    // No visit changes anything, and at that pace it takes longer than anybody waits here.
    scene.migrate(json!({ "mode": "Always", "pace": { "writesPerSecond": 1 } })).await;
    scene.until_visits(2).await;
    let other = format!("{}-gadgets", scene.migration());
    let resource = json!({ "group": gadgets.group, "resource": gadgets.plural });
    scene.migrate_as(&other, json!({ "resource": resource })).await;
    scene.until_of(&other, "Migrated", |status| reason_of(status) == Some(Reason::Migrated)).await;
    let met = |passed: &Passed| passed.code == Some(500) && passed.uri.contains("/widgets/");
    assert!(proxy.passed().iter().any(met));
    let status = scene.status_of(scene.migration()).await;
    assert_eq!(reason_of(&status), Some(Reason::Sweeping));
    let goes_on = |status: &StorageMigrationStatus| {
        status.progress.as_ref().is_some_and(|progress| progress.visited > 2 && progress.rewritten == 0)
    };
    scene.until_of(scene.migration(), "more than two visits", goes_on).await;
}
