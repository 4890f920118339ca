//! `restow controller`.

use std::net::SocketAddr;

use super::Exit;
use super::election::ElectionArgs;
use super::pace::PaceArgs;
use super::session::SessionArgs;
use crate::cluster::Gate;
use crate::controller::{self, Settings};

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pace: PaceArgs,

    /// Where /livez, /readyz and /metrics are served
    #[arg(long, value_name = "ADDRESS", env = "RESTOW_ADMIN_ADDRESS", default_value = "[::]:8080")]
    admin_address: SocketAddr,

    /// Act only on StorageMigrations with these labels, so that several controllers can share a cluster
    #[arg(long, value_name = "SELECTOR", env = "RESTOW_WATCH_LABEL_SELECTOR")]
    watch_label_selector: Option<String>,

    /// The namespace that this controller runs in, where it keeps its Lease and the key of its checkpoints; by default that of
    /// the pod or of the kubeconfig's context
    #[arg(long, value_name = "NAME", env = "RESTOW_NAMESPACE")]
    namespace: Option<String>,

    /// What this process is called in events
    #[arg(long, value_name = "NAME", env = "POD_NAME", hide = true)]
    pod_name: Option<String>,

    #[command(flatten)]
    election: ElectionArgs,

    #[command(flatten)]
    session: SessionArgs,
}

pub(super) async fn run(args: Args) -> Exit {
    let election = match args.election.settings(args.pod_name.as_deref()) {
        Ok(election) => election,
        Err(fault) => return Exit::misused(fault),
    };
    let gate = if election.is_some() { Gate::shut() } else { Gate::open() };
    let (cluster, stop) = match args.session.begin(gate).await {
        Ok(begun) => begun,
        Err(exit) => return exit,
    };
    let settings = Settings {
        pacer: args.pace.pacer(),
        settle: args.pace.settle(),
        admin_address: args.admin_address,
        label_selector: args.watch_label_selector,
        namespace: args.namespace,
        instance: args.pod_name,
        election,
    };
    match controller::run(cluster, settings, stop).await {
        Ok(()) => Exit::Done,
        Err(error) => Exit::fail(&error),
    }
}
