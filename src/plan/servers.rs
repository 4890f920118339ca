//! Whether every API server is known to have been awake since the storage version moved.
//!
//! A server that was paused goes on with what it knew before: it may still store an object in the old version. Each server
//! renews an identity Lease every 10 seconds while it runs, so a Lease that was renewed since shows a server that has
//! caught up, and a silent one a server that may not have.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The longest silence of a server that is taken for awake: three renewals (k8s.io/kubernetes
/// `pkg/controlplane/apiserver`, `IdentityLeaseRenewIntervalPeriod`, is 10 s).
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The API servers of the cluster, as far as their Leases tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiServers {
    /// The Leases can't be read, or there are none: this is why. Settling alone counts then.
    Unknown(String),
    /// They were read.
    Known {
        /// One for each Lease.
        servers: Vec<ApiServer>,
        /// When, by the clock of the server that answered.
        read_at: Timestamp,
    },
}

/// One API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServer {
    /// The name of its Lease, and its host where the Lease says so.
    pub name: String,
    /// When it last renewed the Lease.
    pub renewed_at: Timestamp,
    /// For how long the Lease holds from then; a server whose Lease has run out is gone.
    pub holds_for: Duration,
}

impl ApiServers {
    /// The servers that have not been heard of since `settle` was over, the CRD having begun `quiet_for` ago to encode objects
    /// as it does.
    ///
    /// One that was heard of earlier may have fallen asleep with a request under way that it took before the move.
    #[must_use]
    pub fn unheard(&self, quiet_for: Duration, settle: Duration) -> Vec<&str> {
        self.silent(|server, read_at| server.renewed_at < before(read_at, quiet_for.saturating_sub(settle)))
    }

    /// Why the Leases could not be read, if they could not.
    #[must_use]
    pub fn why_unknown(&self) -> Option<&str> {
        match self {
            Self::Unknown(why) => Some(why),
            Self::Known { .. } => None,
        }
    }

    /// The servers that are silent now.
    #[must_use]
    pub fn asleep(&self) -> Vec<&str> {
        self.silent(|server, read_at| server.renewed_at < before(read_at, SILENCE_MAX))
    }

    fn silent(&self, is_silent: impl Fn(&ApiServer, Timestamp) -> bool) -> Vec<&str> {
        match self {
            Self::Unknown(_) => Vec::new(),
            Self::Known { servers, read_at } => servers
                .iter()
                .filter(|s| s.renewed_at >= before(*read_at, s.holds_for))
                .filter(|s| is_silent(s, *read_at))
                .map(|s| s.name.as_str())
                .collect(),
        }
    }
}

fn before(moment: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| moment.checked_sub(by).ok()).unwrap_or(Timestamp::MIN)
}
