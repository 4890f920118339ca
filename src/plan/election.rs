//! Which of several controllers is at work: when a Lease may be taken, and until when one that is held allows to write.
//!
//! The Lease's own times are for people. A candidate goes by its own clock: it takes a Lease that it has not seen change for
//! as long as the Lease says it holds. A leader counts from the moment before it sent its renewal, which is earlier than
//! anybody can have seen it. So the leader's time is over first, however far the clocks of two machines are apart.

#[cfg(test)]
mod tests;

use std::time::Duration;

/// How long a Lease holds and how often it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectionTimes {
    /// How long a Lease that is not renewed keeps others away.
    pub lease: Duration,
    /// How long after a renewal was sent its holder still writes.
    pub renew_deadline: Duration,
    /// How often the Lease is renewed, or looked at.
    pub retry: Duration,
}

/// What a Lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSight {
    /// Who holds it; `None` if it was released.
    pub holder: Option<String>,
    /// Another one after each renewal.
    pub resource_version: String,
    /// How long it holds, if it says so.
    pub holds_for: Option<Duration>,
}

/// One candidate's view of a Lease.
#[derive(Clone, Debug)]
pub struct Election {
    identity: String,
    times: ElectionTimes,
    seen: Option<(LeaseSight, Duration)>,
}

impl ElectionTimes {
    /// What is wrong with these times, for whoever set them.
    #[must_use]
    pub fn fault(self) -> Option<&'static str> {
        let Self { lease, renew_deadline, retry } = self;
        if lease < Duration::from_secs(1) || lease.subsec_nanos() != 0 {
            Some("the lease duration must be a whole number of seconds, 1s or more")
        } else if renew_deadline >= lease {
            Some(
                "the renew deadline must be shorter than the lease duration: the leader has to stop before another can start",
            )
        } else if retry.is_zero() {
            Some("the retry period must be longer than 0s")
        } else if retry * 2 > renew_deadline {
            Some(
                "the retry period must be half the renew deadline at most: one renewal that fails must not end the leadership",
            )
        } else {
            None
        }
    }
}

impl Election {
    /// A candidate that has seen nothing yet.
    #[must_use]
    pub fn new(identity: String, times: ElectionTimes) -> Self {
        Self { identity, times, seen: None }
    }

    /// Takes in what was read at uptime `now`; `None` if there is no Lease.
    pub fn see(&mut self, lease: Option<LeaseSight>, now: Duration) {
        let Some(lease) = lease else {
            // Somebody deleted it: who held it may not have noticed yet, and has the time that it was promised.
            if let Some((seen, _)) = &mut self.seen {
                seen.resource_version.clear();
            }
            return;
        };
        let known =
            self.seen.as_ref().is_some_and(|(seen, _)| seen.resource_version == lease.resource_version);
        if !known {
            self.seen = Some((lease, now));
        }
    }

    /// How long this candidate has to wait until the Lease is its own to take; zero if it is now.
    #[must_use]
    pub fn wait(&self, now: Duration) -> Duration {
        let Some((lease, since)) = &self.seen else { return Duration::ZERO };
        match &lease.holder {
            None => Duration::ZERO,
            Some(holder) if *holder == self.identity => Duration::ZERO,
            Some(_) => (*since + lease.holds_for.unwrap_or(self.times.lease)).saturating_sub(now),
        }
    }

    /// Who holds the Lease, as far as is known, if it is somebody else.
    #[must_use]
    pub fn other_holder(&self) -> Option<&str> {
        let (lease, _) = self.seen.as_ref()?;
        lease.holder.as_deref().filter(|holder| *holder != self.identity)
    }

    /// Until when this candidate may write after a renewal that was sent at `sent` has succeeded.
    #[must_use]
    pub fn writes_until(&self, sent: Duration) -> Duration {
        sent + self.times.renew_deadline
    }

    /// The candidate's name in the Lease.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The times it goes by.
    #[must_use]
    pub fn times(&self) -> ElectionTimes {
        self.times
    }
}
