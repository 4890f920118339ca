//! Whether every API server is known to have caught up with the CRD since the storage version moved.
//!
//! A server that was paused goes on with what it knew before, and with the requests that it had under way: it may still store
//! an object in the old version. Each server renews an identity Lease every 10 seconds while it runs, and at once when it
//! wakes up. So a fresh Lease shows a server that runs, but not one that has caught up; a row of renewals without a gap, as
//! long as the settle time, shows that.

#[cfg(test)]
mod tests;
mod watch;

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

pub use watch::{Look, ServerWatch};

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
    /// The name of its Lease.
    pub identity: String,
    /// Its host, where the Lease says so.
    pub host: Option<String>,
    /// When it last renewed the Lease, by its own clock.
    pub renewed_at: Timestamp,
    /// For how long the Lease holds from then; a server whose Lease has run out is gone.
    pub holds_for: Duration,
}

impl fmt::Display for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) => write!(f, "{} on {host}", self.identity),
            None => f.write_str(&self.identity),
        }
    }
}

impl ApiServers {
    /// Why the Leases could not be read, if they could not.
    #[must_use]
    pub fn why_unknown(&self) -> Option<&str> {
        match self {
            Self::Unknown(why) => Some(why),
            Self::Known { .. } => None,
        }
    }

    /// Those that are not to be ignored, and those that are: the ones whose identities `ignored` names, separated by commas.
    #[must_use]
    pub fn without(&self, ignored: Option<&str>) -> (Self, Vec<ApiServer>) {
        match self {
            Self::Unknown(_) => (self.clone(), Vec::new()),
            Self::Known { servers, read_at } => {
                let is_named = |server: &ApiServer| {
                    ignored.is_some_and(|names| names.split(',').any(|name| name.trim() == server.identity))
                };
                let (named, others) = servers.iter().cloned().partition(is_named);
                (Self::Known { servers: others, read_at: *read_at }, named)
            }
        }
    }

    /// The servers that are silent now.
    #[must_use]
    pub fn asleep(&self) -> Vec<&ApiServer> {
        match self {
            Self::Unknown(_) => Vec::new(),
            Self::Known { read_at, .. } => {
                let is_silent = |s: &&ApiServer| s.renewed_at < before(*read_at, SILENCE_MAX);
                self.present().filter(is_silent).collect()
            }
        }
    }

    /// The servers whose Leases have not run out.
    fn present(&self) -> impl Iterator<Item = &ApiServer> {
        let (servers, read_at) = match self {
            Self::Unknown(_) => (&[][..], Timestamp::MIN),
            Self::Known { servers, read_at } => (servers.as_slice(), *read_at),
        };
        servers.iter().filter(move |s| s.renewed_at >= before(read_at, s.holds_for))
    }
}

fn before(moment: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| moment.checked_sub(by).ok()).unwrap_or(Timestamp::MIN)
}
