//! One seed from beginning to end.

use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use restow::api::{Reason, StorageMigrationStatus};
use serde_json::json;
use testbed::access;
use testbed::crd::{self, Conversion};
use testbed::process::Signal;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::cluster::Cluster;
use super::journal::Journal;
use super::plan::{Event, Plan};
use super::stand::Stand;
use super::writers::Writer;
use crate::scene::reason_of;

/// Writers of a seed.
const WRITERS: usize = 2;

/// How long a run may take to come to its end before the next round begins.
const ROUND_WITHIN: Duration = Duration::from_secs(8);

/// The same where two servers have to be seen to renew their Leases.
const ROUND_OF_TWO_SERVERS_WITHIN: Duration = Duration::from_secs(18);

/// How long the migration may take once everything is healed: a pause of a minute at most, then settling, and a run.
const DONE_WITHIN: Duration = Duration::from_secs(150);

pub(super) async fn run(cluster: &Cluster, seed: u64, plan: &Plan, journal: &Journal) {
    let Cluster { plane, second, historian } = *cluster;
    let stand = Stand::set(plane, second, seed, &plan.stage, journal).await;
    historian.watch(stand.kind(), journal).await;
    stand.migrate(&plan.stage).await;
    stand.start().await;
    let writer =
        |number| Writer::new(stand.client_of(number), stand.kind().clone(), number, seed, journal.clone());
    let mut writers: Vec<_> = (0..WRITERS).map(writer).collect();
    let (stop, stopped) = watch::channel(false);
    let writing = join_all(writers.iter_mut().map(|writer| writer.run(stopped.clone())));
    let chaos = async {
        for (number, round) in plan.rounds.iter().enumerate() {
            let events = round.iter().enumerate();
            let (stand, stage) = (&stand, &plan.stage);
            let happen = async |(n, event): (usize, &Event)| {
                event.happen(&format!("{number}-{n}"), stand, stage, historian).await;
            };
            join_all(events.map(happen)).await;
            let within = if plan.stage.has_two_servers { ROUND_OF_TWO_SERVERS_WITHIN } else { ROUND_WITHIN };
            drop(timeout(within, stand.until_trimmed()).await);
        }
        stand.heal().await;
        journal.note("healed");
        sleep(Duration::from_secs(1)).await;
        stop.send_replace(true);
    };
    let untold = async {
        tokio::join!(writing, chaos);
        stand.until_done().await;
    };
    tokio::select! {
        () = untold => {}
        () = stand.note_reasons() => {}
    }
    for writer in &mut writers {
        writer.check().await;
    }
    stand.check_objects().await;
    if !journal.wrongs().is_empty() {
        // What the API server can't do for its managedFields it leaves out, and says so here alone.
        for line in plane.api_server().log().lines().filter(|line| line.contains("SHOULD NOT HAPPEN")) {
            journal.note(line);
        }
    }
    let trims = historian.leave(stand.kind()).await;
    stand.kill().await;
    stand.clear().await;
    let events: usize = plan.rounds.iter().map(Vec::len).sum();
    journal.note(&format!("{events} events, {trims} trims"));
}

impl Stand {
    /// Takes back every fault, also those whose end was cut short, and asks for what only a user can ask for.
    async fn heal(&self) {
        self.heal_proxy();
        self.heal_webhook().await;
        self.restore_conversion().await;
        let (plane, kind) = (self.scene.plane, self.kind());
        access::grant_target(plane, &kind.group, kind.plural).await.expect("grant the rights");
        self.signal(Signal::Continue).await;
        self.start().await;
        // Accepts a conversion that changed meanwhile, and has refused objects tried again.
        let spec = json!({ "suspend": false, "pageSize": 50, "pace": { "writesPerSecond": 200 } });
        self.scene.patch_spec(self.scene.migration(), spec).await;
        self.scene.ask_retry("healed").await;
    }

    pub(super) async fn heal_webhook(&self) {
        let Some(webhook) = &self.webhook else { return };
        let mut webhook = webhook.lock().await;
        webhook.heal();
        webhook.restart().await.expect("start the webhook again");
    }

    /// The conversion as it was at first.
    pub(super) async fn restore_conversion(&self) {
        let conversion = match &self.webhook {
            Some(webhook) => webhook.lock().await.conversion(),
            None => Conversion::None,
        };
        crd::set_conversion(&self.scene.client, &self.kind().crd_name(), &conversion)
            .await
            .expect("edit the CRD");
    }

    pub(super) async fn storage_version(&self) -> String {
        let crds: Api<CustomResourceDefinition> = Api::all(self.scene.client.clone());
        let crd = crds.get(&self.kind().crd_name()).await.expect("read the CRD");
        let storage = crd.spec.versions.into_iter().find(|version| version.storage);
        storage.expect("a storage version").name
    }

    async fn until_trimmed(&self) {
        while self.scene.stored_versions().await.len() > 1 {
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Notes what the status says, for as long as it is polled.
    async fn note_reasons(&self) {
        let mut told = None;
        loop {
            let read = self.scene.migrations().get_opt(self.scene.migration()).await;
            let status = read.ok().flatten().and_then(|migration| migration.status);
            let condition = status.and_then(|status| status.conditions.into_iter().next());
            let now = condition.map(|condition| format!("{}: {}", condition.reason, condition.message));
            if told != now {
                self.journal.note(&format!("    {}", now.as_deref().unwrap_or("no status")));
                told = now;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until everything is stored in the storage version, nothing else is named, and the status says so.
    async fn until_done(&self) {
        let version = self.storage_version().await;
        let deadline = Instant::now() + DONE_WITHIN;
        loop {
            let migration =
                self.scene.migrations().get(self.scene.migration()).await.expect("read the status");
            let status = migration.status.clone().unwrap_or_default();
            let is_told =
                tells_done(&status, &version) && status.observed_generation == migration.metadata.generation;
            if is_told && self.is_all_in(&version).await {
                self.journal.note("done");
                return;
            }
            if !self.journal.wrongs().is_empty() {
                return;
            }
            if Instant::now() > deadline {
                let stored = self.scene.stored().await;
                let named = self.scene.stored_versions().await;
                let log = self.log().await;
                let lines: Vec<_> = log.lines().collect();
                let log = lines[lines.len().saturating_sub(40)..].join("\n");
                self.journal.wrong(&format!("not done: {stored:?} {named:?} {status:#?}\n{log}"));
                return;
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    async fn is_all_in(&self, version: &str) -> bool {
        self.scene.stored_versions().await == [version]
            && self.scene.stored().await.into_keys().all(|stored| stored == version)
    }
}

fn tells_done(status: &StorageMigrationStatus, version: &str) -> bool {
    matches!(reason_of(status), Some(Reason::Migrated | Reason::NothingToMigrate))
        && status.target.as_ref().is_some_and(|target| target.storage_version == version)
}
