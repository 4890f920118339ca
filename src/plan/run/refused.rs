//! Objects that the server refuses, and rights that restow lacks: when they are tried again.

use std::time::Duration;

use super::results::REVIEW_AGAIN;
use super::{Run, State};
use crate::plan::{Moment, Observation, Rights, Step, Sweep, sentence};

/// The shortest and the longest wait before refused objects are tried again; it doubles each time.
const RETRY_REFUSED: (Duration, Duration) = (Duration::from_mins(1), Duration::from_hours(1));

/// What refused objects were refused under: once it is another, they are tried again at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    generation: i64,
    crd_generation: Option<i64>,
    retry: Option<String>,
}

/// What is known of restow's rights on the target.
#[derive(Debug, Default)]
pub(super) struct Access {
    /// It has some on single objects alone.
    by_name: bool,
    /// One was missing when they were asked for last.
    lacking: bool,
    asked_at: Duration,
}

impl Run {
    pub(super) fn retry_wait(&mut self) -> Duration {
        let wait = (RETRY_REFUSED.0 * (1 << self.retries.min(6))).min(RETRY_REFUSED.1);
        self.retries = self.retries.saturating_add(1);
        wait
    }

    /// Objects were refused: waits, or tries them again.
    pub(super) fn refused(
        &mut self,
        sweep: Sweep,
        retry_at: Duration,
        seen: &Observation<'_>,
        now: Moment,
    ) -> Step {
        // What changed while the sweep was under way came too late for some of them.
        let given = self.given.get_or_insert_with(|| Given::of(seen));
        if *given != Given::of(seen) || now.uptime >= retry_at {
            return self.try_again(sweep, seen, now);
        }
        let finding = sentence::refused(&sweep);
        let state = State::Refused { sweep, retry_at };
        if !self.access.by_name && !self.access.lacking {
            self.state = state;
            return Step::Hold(finding, Some(retry_at));
        }
        // It may be granted meanwhile.
        let ask_at = self.access.asked_at + REVIEW_AGAIN;
        if now.uptime >= ask_at {
            return self.resting(state, Step::AskRights, seen, now);
        }
        self.state = state;
        Step::Hold(finding, Some(retry_at.min(ask_at)))
    }

    fn try_again(&mut self, sweep: Sweep, seen: &Observation<'_>, now: Moment) -> Step {
        self.given = Some(Given::of(seen));
        self.sweep_on(sweep.into_retry(), seen, now)
    }

    pub(super) fn begins_under(&mut self, seen: &Observation<'_>, rights: &Rights, now: Moment) {
        self.given = Some(Given::of(seen));
        self.access = Access { by_name: rights.by_name, lacking: false, asked_at: now.uptime };
    }

    /// The rights were asked for, since objects are denied. Where they suffice again, these are tried again at once.
    pub fn rights_asked(&mut self, rights: &Rights, seen: &Observation<'_>, now: Moment) {
        let lacking = rights.lacking(&seen.spec.resource);
        let before = std::mem::replace(
            &mut self.access,
            Access { by_name: rights.by_name, lacking: lacking.is_some(), asked_at: now.uptime },
        );
        if let Some(finding) = lacking {
            return self.pause(finding, REVIEW_AGAIN, seen, now);
        }
        let restored = before.lacking || (before.by_name && !rights.by_name);
        self.state = match std::mem::replace(&mut self.state, State::Idle) {
            State::Refused { sweep, .. } if restored => {
                self.given = Some(Given::of(seen));
                State::Sweeping(sweep.into_retry())
            }
            State::Sweeping(mut sweep) => {
                sweep.trust_rights();
                let again = restored && sweep.refusals().total() > 0;
                State::Sweeping(if again { sweep.into_retry() } else { sweep })
            }
            other @ (State::Idle
            | State::Accepted(_)
            | State::Unconfirmed(_)
            | State::Refused { .. }
            | State::Trimming(_)) => other,
        };
    }
}

impl Given {
    fn of(seen: &Observation<'_>) -> Self {
        Self {
            generation: seen.generation,
            crd_generation: seen.crd.map(|r| r.crd().generation),
            retry: seen.retry.map(str::to_owned),
        }
    }
}
