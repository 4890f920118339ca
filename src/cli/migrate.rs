//! `restow migrate`: the engine without any object of ours in the cluster.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use futures::future::join_all;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Exit;
use super::pace::{PaceArgs, duration};
use super::progress::Progress;
use super::resource::Resource;
use super::session::SessionArgs;
use super::summary::{self, Ended};
use super::termination::TerminationArgs;
use crate::api::{
    Mode, Reason, State, StorageMigrationSpec, StorageMigrationStatus, StoredVersions, TargetResource,
};
use crate::cluster::Gate;
use crate::engine::{Engine, Migration, Next, Order};
use crate::plan::Finding;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// The resources, each by its plural name and its group, for example crontabs.example.com
    #[arg(value_name = "PLURAL.GROUP", required = true)]
    resources: Vec<Resource>,

    /// The version that the CustomResourceDefinitions are expected to store; with another one nothing is written
    #[arg(long, value_name = "VERSION")]
    expected_storage_version: Option<String>,

    #[command(flatten)]
    mode: ModeArgs,

    /// Take a resource that the cluster doesn't have for done
    #[arg(long)]
    ignore_missing: bool,

    /// Leave status.storedVersions as it is
    #[arg(long)]
    keep_stored_versions: bool,

    /// Write objects although fields are lost for good that the storage version's schema doesn't have
    #[arg(long)]
    accept_field_loss: bool,

    /// An API server that is gone for good, by the name of its identity Lease: it isn't waited for
    #[arg(long, value_name = "IDENTITY", value_delimiter = ',')]
    ignore_api_server: Vec<String>,

    /// Give up after so long, for example 30m; by default never
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,

    /// The form of the summary on standard output
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    output: Output,

    #[command(flatten)]
    termination: TerminationArgs,

    #[command(flatten)]
    pace: PaceArgs,

    #[command(flatten)]
    session: SessionArgs,
}

#[derive(Clone, Copy, Debug, clap::Args)]
struct ModeArgs {
    /// Read no object of a resource whose status.storedVersions names the storage version alone: the default
    #[arg(long, conflicts_with = "always")]
    if_stale: bool,

    /// Visit all objects even if status.storedVersions names the storage version alone
    #[arg(long)]
    always: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    Text,
    Json,
}

/// When to give up.
struct GivenUp {
    stop: CancellationToken,
    timeout: Option<Duration>,
}

impl GivenUp {
    /// Waits for it, and says why.
    async fn wait(&self) -> &'static str {
        let expiry = async {
            match self.timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = expiry => "not done within --timeout",
            () = self.stop.cancelled() => "interrupted",
        }
    }
}

pub(super) async fn run(args: Args) -> Exit {
    let (cluster, stop) = match args.session.begin(Gate::open()).await {
        Ok(begun) => begun,
        Err(exit) => return exit,
    };
    let progress = Progress::new();
    let engine = Arc::new(Engine::new(cluster, args.pace.pacer(), args.pace.settle(), None));
    let given_up = GivenUp { stop, timeout: args.timeout };
    let ignored = args.ignore_api_server.join(",");
    let runs = args
        .resources
        .iter()
        .map(|resource| one(&engine, args.spec(&resource.0), &ignored, &progress, &given_up));
    let ended = join_all(runs).await;
    progress.clear();
    args.termination.leave(&summary::line(&ended, args.ignore_missing));
    let shown = match args.output {
        Output::Text => summary::text(&ended),
        Output::Json => summary::json(&ended),
    };
    let exits = ended.iter().map(|ended| ended.exit(args.ignore_missing));
    exits.fold(Exit::Done, Exit::worse).after_output(shown)
}

impl ModeArgs {
    fn mode(self) -> Mode {
        // clap lets nobody ask for both.
        let Self { if_stale: _, always } = self;
        if always { Mode::Always } else { Mode::IfStale }
    }
}

impl Args {
    fn spec(&self, resource: &TargetResource) -> StorageMigrationSpec {
        StorageMigrationSpec {
            expected_storage_version: self.expected_storage_version.clone(),
            mode: self.mode.mode(),
            stored_versions: if self.keep_stored_versions {
                StoredVersions::Keep
            } else {
                StoredVersions::Trim
            },
            accept_field_loss: self.accept_field_loss,
            ..StorageMigrationSpec::for_resource(resource.clone())
        }
    }
}

/// Runs one migration to its end.
async fn one(
    engine: &Engine,
    spec: StorageMigrationSpec,
    ignored_servers: &str,
    progress: &Progress,
    given_up: &GivenUp,
) -> Ended {
    let resource = spec.resource.clone();
    if let Err(failure) = engine.look_up(&resource).await {
        let message = format!("can't read the CustomResourceDefinition {}: {failure}", resource.crd_name());
        let status = StorageMigrationStatus::default();
        if failure.code == Some(403) {
            return Ended {
                resource,
                finding: Finding::new(Reason::AccessDenied, message),
                status,
                failed: false,
            };
        }
        return Ended::failed(resource, message, status);
    }
    let mut migration = Migration::new(StorageMigrationStatus::default());
    let changed = Notify::new();
    let why = {
        let name = resource.crd_name();
        let feed = engine.follow_crds(Some(&name), |_| changed.notify_one());
        let ignored_servers = Some(ignored_servers);
        let order =
            Order { spec: &spec, uid: None, generation: 1, retry: None, ignored_servers, rival: None };
        let steps = steps(engine, order, &mut migration, &changed, progress);
        tokio::select! {
            finding = steps => {
                let status = migration.status().clone();
                return Ended { resource, finding, status, failed: false };
            }
            ended = feed => ended.to_string(),
            reason = given_up.wait() => reason.to_owned(),
        }
    };
    Ended::failed(resource, why, migration.status().clone())
}

async fn steps(
    engine: &Engine,
    order: Order<'_>,
    migration: &mut Migration,
    changed: &Notify,
    progress: &Progress,
) -> Finding {
    let mut shown = progress.line(&order.spec.resource);
    loop {
        let stepped = engine.step(migration, order).await;
        shown.show(&stepped.finding, migration.status());
        if is_end(&stepped.finding) {
            return stepped.finding;
        }
        match stepped.next {
            Next::Now => {}
            Next::After(wait) => drop(tokio::time::timeout(wait, changed.notified()).await),
            Next::OnChange => changed.notified().await,
            Next::Expire => return stepped.finding,
        }
    }
}

/// Whether a pipeline is to be told now rather than kept waiting.
fn is_end(finding: &Finding) -> bool {
    match finding.reason.state() {
        State::Done | State::Stalled => true,
        State::Working => finding.reason == Reason::Waiting,
    }
}
