//! The control planes that seeds run on: one that most of them share, and some that one seed at a time has to itself, with a
//! second API server on the same etcd.

use std::sync::{Mutex, PoisonError};

use testbed::control_plane::{ApiServer, ControlPlane, Options};
use tokio::runtime::Handle;

use super::historian::Historian;
use crate::scene::install;

/// A control plane, and who looks into its history. All is there until the end of the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cluster {
    pub(super) plane: &'static ControlPlane,
    pub(super) second: Option<&'static ApiServer>,
    pub(super) historian: &'static Historian,
}

/// All of them.
pub(super) struct Clusters {
    /// Where historians are at work.
    runtime: Handle,
    shared: Cluster,
    /// Those with two API servers that no seed has at the moment.
    free: Mutex<Vec<Cluster>>,
}

impl Cluster {
    async fn start(runtime: &Handle) -> Self {
        let plane = ControlPlane::start(Options::default()).await.expect("start a control plane");
        let plane: &'static ControlPlane = Box::leak(Box::new(plane));
        install(plane).await;
        let historian: &'static Historian = Box::leak(Box::new(Historian::new(plane.etcd())));
        runtime.spawn(historian.run());
        Self { plane, second: None, historian }
    }

    async fn with_two_servers(runtime: &Handle) -> Self {
        let cluster = Self::start(runtime).await;
        let second = cluster.plane.start_another("second").await.expect("start a second API server");
        Self { second: Some(Box::leak(Box::new(second))), ..cluster }
    }
}

impl Clusters {
    pub(super) async fn start(runtime: Handle) -> Self {
        let shared = Cluster::start(&runtime).await;
        Self { runtime, shared, free: Mutex::default() }
    }

    /// One for a seed, to be given back.
    pub(super) async fn take(&self, has_two_servers: bool) -> Cluster {
        if !has_two_servers {
            return self.shared;
        }
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match free {
            Some(cluster) => cluster,
            None => Cluster::with_two_servers(&self.runtime).await,
        }
    }

    /// Takes back one on which everything is well again.
    pub(super) fn give_back(&self, cluster: Cluster) {
        if cluster.second.is_some() {
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push(cluster);
        }
    }
}
