//! When to leave a target alone for a while because its server or its webhooks don't answer.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::{Failure, Scope};

/// The longest wait that restow chooses by itself: requests fall to a few a minute.
const BACK_OFF_MAX: Duration = Duration::from_mins(1);

/// The longest wait that a server can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(10);

/// So many failures with no success between them are the target's, not one object's.
const FAILURES_IN_A_ROW: u32 = 3;

/// How a target has answered of late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    failures_in_a_row: u32,
    rounds: Rounds,
}

/// Waits that grow from one failure to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rounds {
    count: u32,
    held_until: Duration,
    last: String,
}

impl Health {
    /// Something succeeded.
    pub fn succeeded(&mut self) {
        self.failures_in_a_row = 0;
        self.rounds.count = 0;
    }

    /// An object's visit could not be answered. The target is left alone once that has happened a few times in a row, or
    /// at once if the server asks for it. What concerns the whole cluster is not held against the target.
    pub fn visit_failed(&mut self, failure: &Failure, now: Duration) {
        if failure.scope() == Scope::Cluster {
            return;
        }
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        if failure.retry_after.is_some() || self.failures_in_a_row >= FAILURES_IN_A_ROW {
            self.rounds.hold(failure, now);
        }
    }

    /// A request that concerns the target as a whole could not be answered.
    pub fn request_failed(&mut self, failure: &Failure, now: Duration) {
        if failure.scope() == Scope::Cluster {
            return;
        }
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(FAILURES_IN_A_ROW);
        self.rounds.hold(failure, now);
    }

    /// For how long nothing is to be sent, and what the server said.
    #[must_use]
    pub fn held(&self, now: Duration) -> Option<(Duration, &str)> {
        self.rounds.held(now)
    }

    /// Whether only one request at a time is to be sent, as the target has yet to show that it answers again.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.rounds.count > 0
    }
}

impl Rounds {
    pub(super) fn held(&self, now: Duration) -> Option<(Duration, &str)> {
        let wait = self.held_until.checked_sub(now).filter(|wait| !wait.is_zero())?;
        Some((wait, self.said()))
    }

    pub(super) fn said(&self) -> &str {
        &self.last
    }

    pub(super) fn hold(&mut self, failure: &Failure, now: Duration) {
        self.last = failure.to_string();
        // What was in flight together fails together: that is one round.
        let own = if now < self.held_until {
            self.held_until
        } else {
            self.count = self.count.saturating_add(1);
            // 1, 2, 4, … seconds; 2^6 is past the cap.
            now + Duration::from_secs(1 << (self.count - 1).min(6)).min(BACK_OFF_MAX)
        };
        let asked = failure.retry_after.map_or(now, |wait| now + wait.min(RETRY_AFTER_MAX));
        self.held_until = own.max(asked);
    }
}
