//! What successive looks at the Leases tell: since when each API server runs without a break.
//!
//! Only a renewal that a look finds new counts as a sign of life, and it is dated by this process's clock: it came after the
//! look before, and before this one. So nothing depends on how the clocks of the servers differ, and nothing is believed of the
//! time in which nobody looked. Looking seldom costs time only.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{ApiServer, ApiServers};

/// The longest time between two renewals without a break: one of every 10 seconds may be late by as much. So a pause that is
/// shorter isn't seen; the settle time has to cover it.
const PAUSE_MAX: Duration = Duration::from_secs(20);

/// How soon servers that are waited for are looked at again: half the time between two renewals.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// When the Leases were read, as uptimes.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Before the request was sent: what it doesn't show came later.
    pub begun: Duration,
    /// After the answer: what it shows was earlier.
    pub ended: Duration,
}

/// What was seen of each API server so far.
#[derive(Clone, Debug, Default)]
pub struct ServerWatch {
    courses: BTreeMap<String, Course>,
    looked_at: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Course {
    renewed_at: Timestamp,
    /// When that renewal was first seen.
    seen_at: Duration,
    /// No break is known of from then on.
    awake_since: Duration,
    /// It ran until then, and for the settle time at least before that.
    steady_until: Option<Duration>,
}

impl ServerWatch {
    /// Takes in what a look shows.
    pub fn look(&mut self, servers: &ApiServers, look: Look, settle: Duration) {
        let mut courses = BTreeMap::new();
        for server in servers.present() {
            let mut course =
                self.courses.remove(&server.identity).unwrap_or_else(|| Course::new(server, look));
            course.follow(server, look, self.looked_at, settle);
            courses.insert(server.identity.clone(), course);
        }
        self.courses = courses;
        self.looked_at = Some(look.begun);
    }

    /// The servers of the latest look that may not have caught up with a CRD that moved `quiet_for` ago: each that was not
    /// seen to run for the settle time after that, without a break.
    ///
    /// Where it moved so long ago that a server that slept ever since has no Lease any more, nobody has to be seen.
    #[must_use]
    pub fn unheard<'a>(
        &self,
        servers: &'a ApiServers,
        quiet_for: Duration,
        settle: Duration,
        now: Duration,
    ) -> Vec<&'a ApiServer> {
        let settled_at = now.saturating_sub(quiet_for) + settle;
        let is_steady = |server: &ApiServer| {
            let course = self.courses.get(&server.identity);
            course.and_then(|c| c.steady_until).is_some_and(|until| until >= settled_at)
        };
        servers
            .present()
            .filter(|server| quiet_for < server.holds_for + settle && !is_steady(server))
            .collect()
    }

    /// How soon to look again: when the next sign of life would tell more, and often enough to see each.
    #[must_use]
    pub fn look_again(&self, settle: Duration, now: Duration) -> Duration {
        let dues = self.courses.values().map(|course| (course.awake_since + settle).saturating_sub(now));
        dues.filter(|wait| !wait.is_zero()).fold(LOOK_AGAIN, Duration::min)
    }
}

impl Course {
    fn new(server: &ApiServer, look: Look) -> Self {
        Self {
            renewed_at: server.renewed_at,
            seen_at: look.ended,
            awake_since: look.ended,
            steady_until: None,
        }
    }

    fn follow(&mut self, server: &ApiServer, look: Look, looked_at: Option<Duration>, settle: Duration) {
        if server.renewed_at == self.renewed_at {
            return;
        }
        // By the server's clock, and by ours: that of a paused machine may have stood still.
        let by_its_clock = server.renewed_at.duration_since(self.renewed_at);
        let by_ours = look.ended.saturating_sub(self.seen_at);
        let is_unbroken =
            (SignedDuration::ZERO..=signed(PAUSE_MAX)).contains(&by_its_clock) && by_ours <= PAUSE_MAX;
        (self.renewed_at, self.seen_at) = (server.renewed_at, look.ended);
        if !is_unbroken {
            self.awake_since = look.ended;
        } else if let Some(until) = looked_at.filter(|until| *until >= self.awake_since + settle) {
            self.steady_until = Some(until);
        }
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}
