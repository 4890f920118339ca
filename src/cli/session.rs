//! What every command that talks to a cluster begins with: logs, the connection and the order to stop.

use tokio_util::sync::CancellationToken;

use super::logging::LogArgs;
use super::{Exit, signals};
use crate::cluster::{Cluster, Gate};

#[derive(Clone, Debug, clap::Args)]
pub(super) struct SessionArgs {
    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME", env = "RESTOW_CONTEXT")]
    context: Option<String>,

    #[command(flatten)]
    log: LogArgs,
}

impl SessionArgs {
    /// Starts logging, connects, and listens for the order to stop. What goes wrong is shown.
    ///
    /// No write leaves while `gate` is shut.
    pub(super) async fn begin(&self, gate: Gate) -> Result<(Cluster, CancellationToken), Exit> {
        self.log.start().map_err(|error| Exit::fail(&error))?;
        let cluster =
            Cluster::connect(self.context.as_deref(), gate).await.map_err(|error| Exit::fail(&error))?;
        let stop = signals::stop().map_err(|error| Exit::fail(&error))?;
        Ok((cluster, stop))
    }
}
