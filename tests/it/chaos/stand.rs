//! What stands on the stage of one seed: its CRD, its webhook, the proxy, and the controller, which may be killed.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt as _, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DeleteParams;
use kube::{Api, Client};
use serde_json::json;
use testbed::control_plane::{ApiServer, ControlPlane};
use testbed::crd::{Fixture, Kind};
use testbed::etcd::Stored;
use testbed::objects::{self, Batch, Key, Snapshot};
use testbed::process::{Exit, Signal};
use testbed::proxy::{Fault, Proxy, Rule};
use testbed::restow::Restow;
use testbed::webhook::{Mapping, Webhook};
use tokio::sync::{Mutex, RwLock};

use super::journal::Journal;
use super::plan::{SETTLE, Stage};
use crate::scene::{PATIENCE, Scene};

/// Writes of a burst under way at once.
const BURST_IN_FLIGHT: usize = 4;

pub(super) struct Stand {
    pub(super) scene: Scene,
    /// The second API server, where there is one.
    pub(super) second: Option<&'static ApiServer>,
    /// Written to by whoever takes down what others ask.
    pub(super) is_up: RwLock<()>,
    pub(super) journal: Journal,
    pub(super) proxy: Proxy,
    pub(super) webhook: Option<Mutex<Webhook>>,
    /// The objects that no writer owns, and what they are.
    pub(super) keys: Vec<Key>,
    before: Snapshot,
    controller: Mutex<Option<Restow>>,
    sees_leases: bool,
    /// One at a time re-creates the StorageMigration.
    recreating: Mutex<()>,
}

impl Stand {
    pub(super) async fn set(
        plane: &'static ControlPlane,
        second: Option<&'static ApiServer>,
        seed: u64,
        stage: &Stage,
        journal: &Journal,
    ) -> Self {
        let webhook = if stage.has_webhook {
            Some(Webhook::start(Mapping::ApiVersionOnly).await.expect("start a webhook"))
        } else {
            None
        };
        let fixture = |group: &str| {
            let fixture = Fixture::widgets(group).with_version("v2");
            match &webhook {
                Some(webhook) => fixture.converted_by(webhook.conversion()),
                None => fixture,
            }
        };
        let scene = Scene::on(plane, &format!("chaos-{seed}"), fixture).await;
        let proxy = Proxy::start(plane).await.expect("start a proxy");
        let keys = scene.stored_old(&Batch::plain(stage.objects)).await;
        let before = snapshot(&scene).await;
        let stand = Self {
            scene,
            second,
            is_up: RwLock::default(),
            journal: journal.clone(),
            proxy,
            webhook: webhook.map(Mutex::new),
            keys,
            before,
            controller: Mutex::new(None),
            sees_leases: stage.sees_leases,
            recreating: Mutex::default(),
        };
        stand.heal_proxy();
        stand
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.scene.kind
    }

    /// The API server that a writer talks to: a client that waits for as long as that one sleeps.
    pub(super) fn client_of(&self, writer: usize) -> Client {
        let Some(second) = self.second.filter(|_| writer == 1) else { return self.scene.client.clone() };
        let mut config = second.admin_config();
        config.connect_timeout = None;
        config.read_timeout = None;
        Client::try_from(config).expect("a client")
    }

    /// Starts a controller, unless one runs.
    pub(super) async fn start(&self) {
        let _up = self.is_up.read().await;
        let mut slot = self.controller.lock().await;
        if slot.is_none() {
            let settle = format!("{}s", SETTLE.as_secs());
            *slot = Some(self.scene.controller_through(&self.proxy, &["--settle", &settle]).await);
        }
    }

    /// Kills the controller. If it had ended by itself that is wrong.
    pub(super) async fn kill(&self) {
        let Some(controller) = self.controller.lock().await.take() else { return };
        if let Some(exit) = controller.exit() {
            self.journal.wrong(&format!("the controller ended by itself: {exit:?}"));
        }
        controller.signal(Signal::Kill);
        let exit = controller.wait_exit(PATIENCE).await.expect("it dies");
        if exit != Exit::Signal(9) {
            self.journal.wrong(&format!("the controller ended by itself: {exit:?}"));
        }
    }

    /// Has the kind deleted: the more of them a server has, the longer it takes to start.
    pub(super) async fn clear(&self) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.scene.client.clone());
        crds.delete(&self.kind().crd_name(), &DeleteParams::default()).await.expect("delete the CRD");
    }

    /// Pauses the controller, or lets it go on.
    pub(super) async fn signal(&self, signal: Signal) {
        if let Some(controller) = self.controller.lock().await.as_ref() {
            controller.signal(signal);
        }
    }

    /// Everything passes again, but what restow may never see.
    pub(super) fn heal_proxy(&self) {
        self.proxy.heal();
        if !self.sees_leases {
            let denied = Fault::status(403, "Forbidden", "cannot list leases");
            self.proxy.add(Rule::new(denied).uri("/leases"));
        }
    }

    /// Moves the flag. Writes of the first moment meet handlers that lag.
    pub(super) async fn move_flag(&self, to: &str) {
        {
            let _up = self.is_up.read().await;
            self.scene.move_storage(to).await;
        }
        self.burst(to, Duration::from_millis(300)).await;
    }

    /// Sends writes that change nothing to the second server, and waits for as long as that one sleeps.
    pub(super) async fn wait_with_writes(&self, count: usize) {
        let client = self.client_of(1);
        let writes = self.keys.iter().take(count).map(async |key| {
            // It may be killed meanwhile.
            drop(objects::touch(&client, self.kind(), "v1", key).await);
        });
        join_all(writes).await;
    }

    /// Has the server encode every other object anew by writing it unchanged, for about so long. The rest is restow's alone.
    pub(super) async fn burst(&self, through: &str, for_: Duration) {
        let until = tokio::time::Instant::now() + for_;
        let own = self.keys.iter().step_by(2).cycle();
        let writes = stream::iter(own).take_until(tokio::time::sleep_until(until));
        let touch = async |key: &Key| {
            // Faults make many of them fail, which is as good.
            drop(objects::touch(&self.scene.client, self.kind(), through, key).await);
        };
        writes.map(touch).buffer_unordered(BURST_IN_FLIGHT).for_each(async |()| ()).await;
    }

    /// The objects that no writer owns, as they are stored.
    pub(super) async fn values(&self) -> Vec<Stored> {
        let own: BTreeSet<_> = self.keys.iter().map(|key| key.name.as_str()).collect();
        let is_own = |stored: &Stored| stored.key.rsplit('/').next().is_some_and(|name| own.contains(name));
        self.scene.values().await.into_iter().filter(is_own).collect()
    }

    /// Compares the objects that nobody changed with what they were.
    pub(super) async fn check_objects(&self) {
        let after = snapshot(&self.scene).await;
        for (key, before) in self.before.iter() {
            match after.get(key) {
                Some(after) if after == before => {}
                now => self.journal.wrong(&format!("{key} was {before} and is {now:?}")),
            }
        }
    }

    /// Creates the StorageMigration.
    pub(super) async fn migrate(&self, stage: &Stage) {
        let pace = json!({ "writesPerSecond": stage.writes_per_second });
        self.scene.migrate(json!({ "pace": pace, "pageSize": stage.page_size })).await;
    }

    /// Deletes it, and creates it again under its name.
    pub(super) async fn migrate_anew(&self, stage: &Stage) {
        let _one_at_a_time = self.recreating.lock().await;
        self.scene.delete_migration(self.scene.migration()).await;
        self.migrate(stage).await;
    }

    /// What the controller that runs has logged.
    pub(super) async fn log(&self) -> String {
        self.controller.lock().await.as_ref().map(|controller| controller.log()).unwrap_or_default()
    }
}

/// All objects, at a version that is always served.
async fn snapshot(scene: &Scene) -> Snapshot {
    objects::snapshot(&scene.client, &scene.kind, "v1").await.expect("list the objects")
}
