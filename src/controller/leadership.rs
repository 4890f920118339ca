//! One of several controllers is at work: it holds the Lease, and the gate of its writes is open only while that is sure.
//!
//! What the times mean is decided in `plan::election`. There is no task here that could die unseen: whoever leads waits for
//! [`Leadership::keep`] beside its work, and drops that work when it returns.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::cluster::{Cluster, OwnLease, time};
use crate::plan::{Election, ElectionTimes, Failure};

/// How leaders are elected.
#[derive(Clone, Debug)]
pub struct ElectionSettings {
    /// The name of the Lease.
    pub lease_name: String,
    /// What this process is called in it: no other may have this name.
    pub identity: String,
    /// How long it holds and how often it is renewed.
    pub times: ElectionTimes,
}

/// A controller's part in the election.
pub(super) struct Leadership {
    cluster: Cluster,
    namespace: String,
    lease_name: String,
    election: Election,
    lease: OwnLease,
    writes_until: Duration,
}

/// Why the Lease is lost, or may be.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("{0} holds the Lease")]
    Taken(String),
    #[error("the Lease could not be renewed in time: {0}")]
    NotRenewed(Failure),
}

impl Leadership {
    pub(super) fn new(cluster: Cluster, namespace: String, settings: &ElectionSettings) -> Self {
        let ElectionSettings { lease_name, identity, times } = settings.clone();
        Self {
            cluster,
            namespace,
            lease: OwnLease::absent(&lease_name),
            lease_name,
            election: Election::new(identity, times),
            writes_until: Duration::ZERO,
        }
    }

    /// Waits until this process leads.
    ///
    /// # Access
    /// `get` and `update` on the Lease and `create` on `leases`, in restow's own namespace.
    pub(super) async fn win(&mut self) {
        let mut told = None;
        loop {
            let said = match self.bid().await {
                Ok(None) => return,
                Ok(Some(holder)) => format!("standing by: {holder} leads"),
                Err(failure) => format!("standing by: the Lease {} can't be had: {failure}", self.lease_name),
            };
            // Once for each holder and each kind of failure, however long it lasts.
            if told.as_ref() != Some(&said) {
                tracing::info!("{said}");
                told = Some(said);
            }
            let retry = self.election.times().retry;
            let wait = self.election.wait(time());
            sleep(if wait.is_zero() { retry } else { retry.min(wait) }).await;
        }
    }

    /// Renews the Lease for as long as that succeeds. When it returns the gate is shut.
    pub(super) async fn keep(&mut self) -> Lost {
        let lost = self.keep_on().await;
        self.cluster.gate().close();
        lost
    }

    /// Gives the Lease back, so that another can lead at once. No write leaves any more.
    pub(super) async fn release(&mut self) {
        self.cluster.gate().close();
        let released = self.lease.released();
        match self.in_time(self.cluster.write_lease(&self.namespace, &released)).await {
            Ok(_) => tracing::info!("the Lease is released"),
            Err(failure) => tracing::warn!(%failure, "can't release the Lease: it runs out by itself"),
        }
    }

    async fn keep_on(&mut self) -> Lost {
        loop {
            sleep(self.election.times().retry).await;
            let Err(failure) = self.renew().await else { continue };
            tracing::warn!(%failure, "can't renew the Lease");
            if matches!(failure.code, Some(404 | 409)) {
                // Taken by another, deleted, or written by a renewal of this one whose answer was lost.
                match self.bid().await {
                    Ok(None) => continue,
                    Ok(Some(holder)) => return Lost::Taken(holder),
                    Err(failure) => tracing::warn!(%failure, "can't read the Lease"),
                }
            }
            if time() >= self.writes_until {
                return Lost::NotRenewed(failure);
            }
        }
    }

    /// Looks at the Lease and takes it if it may. Says who else holds it.
    async fn bid(&mut self) -> Result<Option<String>, Failure> {
        self.lease = self.in_time(self.cluster.read_lease(&self.namespace, &self.lease_name)).await?;
        self.election.see(self.lease.sight(), time());
        if !self.election.wait(time()).is_zero() {
            return Ok(self.election.other_holder().map(str::to_owned));
        }
        self.renew().await.map(|()| None)
    }

    async fn renew(&mut self) -> Result<(), Failure> {
        // Before it is sent: nobody can see it earlier.
        let sent = time();
        let held = self.lease.held(&self.election);
        self.lease = self.in_time(self.cluster.write_lease(&self.namespace, &held)).await?;
        self.election.see(self.lease.sight(), time());
        self.writes_until = self.election.writes_until(sent);
        self.cluster.gate().open_until(self.writes_until);
        Ok(())
    }

    /// An answer, if it comes early enough for another try before the deadline.
    async fn in_time<T>(&self, request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let patience = self.election.times().renew_deadline / 2;
        timeout(patience, request).await.unwrap_or_else(|_| {
            Err(Failure { message: format!("no answer within {patience:?}"), ..Failure::default() })
        })
    }
}
