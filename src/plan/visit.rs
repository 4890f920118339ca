//! One visit: how often an object is tried, when again, and when its failures are its own.

use std::time::Duration;

use super::{Failure, Object, Outcome, Scope};

/// Attempts at an object that the server refuses.
const REFUSALS_MAX: u32 = 3;
/// Failures that hit an object while its neighbours succeed, before they are taken for the object's own.
const STRIKES_MAX: u32 = 3;
/// The same where the server asks for patience, which it may do many times on a busy day.
const STRIKES_PATIENT_MAX: u32 = 10;
/// Conflicts with other writers in a row; the server itself retries five times within each attempt.
const CONFLICTS_MAX: u32 = 20;
/// The wait after the first attempt; it doubles with each further one.
const DELAY_FIRST: Duration = Duration::from_secs(1);
/// The longest wait between two attempts within one sweep.
const DELAY_MAX: Duration = Duration::from_secs(30);

/// A visit that is under way. It can't be copied: one object, one outcome.
#[derive(Debug)]
pub struct Visit {
    object: Object,
    tries: Tries,
    probe: bool,
}

/// An object that waits for another attempt.
#[derive(Debug)]
pub(super) struct Postponed {
    object: Object,
    tries: Tries,
    /// When, on the clock of uptime.
    pub(super) due: Duration,
}

/// What a visit comes to.
#[derive(Debug)]
pub(super) enum Effect {
    /// The object is stored in the storage version.
    Stored { object: Object, resource_version: String, rewritten: bool },
    /// The object is gone.
    Gone,
    /// The object is given up for this sweep.
    Refused { object: Object, failure: Failure, attempts: u32 },
    /// The object is tried again later.
    Postponed(Postponed),
    /// The witness itself can't be written any more: it tells nothing.
    ProbeRefused,
    /// The server doesn't answer for the witness either.
    ProbeDeferred,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tries {
    attempts: u32,
    refusals: u32,
    strikes: u32,
    conflicts: u32,
    /// The sweep's count of successes when the last attempt was deferred.
    deferred_at: Option<u64>,
}

impl Visit {
    pub(super) fn first(object: Object) -> Self {
        Self { object, tries: Tries::default(), probe: false }
    }

    pub(super) fn probe(object: Object) -> Self {
        Self { object, tries: Tries::default(), probe: true }
    }

    /// The object to visit.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Whether it only asks if the server answers at all.
    pub(super) fn is_probe(&self) -> bool {
        self.probe
    }

    /// What `outcome` comes to, `successes` visits having succeeded in this sweep until now.
    pub(super) fn judge(self, outcome: Outcome, successes: u64, now: Duration) -> Effect {
        let Self { object, mut tries, probe } = self;
        tries.attempts += 1;
        let (failure, given_up) = match outcome {
            Outcome::Rewritten(resource_version) => {
                return Effect::Stored { object, resource_version, rewritten: true };
            }
            Outcome::Unchanged => {
                let resource_version = object.resource_version.clone();
                return Effect::Stored { object, resource_version, rewritten: false };
            }
            Outcome::Gone => return Effect::Gone,
            Outcome::Refused(_) | Outcome::Conflict(_) if probe => return Effect::ProbeRefused,
            Outcome::Deferred(_) if probe => return Effect::ProbeDeferred,
            Outcome::Refused(failure) => {
                tries.refusals += 1;
                (failure, tries.refusals >= REFUSALS_MAX)
            }
            Outcome::Conflict(failure) => {
                tries.conflicts += 1;
                (failure, tries.conflicts >= CONFLICTS_MAX)
            }
            Outcome::Deferred(failure) => {
                // A failure counts against the object only if others succeeded since its last one. Where etcd stores
                // nothing, objects that need no write succeed all the time.
                let is_outage = failure.scope() == Scope::Cluster;
                if !is_outage && tries.deferred_at.is_none_or(|then| successes > then) {
                    tries.strikes += 1;
                }
                tries.deferred_at = Some(successes);
                let patient = matches!(failure.code, Some(429 | 503));
                let given_up = tries.strikes >= if patient { STRIKES_PATIENT_MAX } else { STRIKES_MAX };
                (failure, given_up)
            }
        };
        if given_up {
            return Effect::Refused { object, failure, attempts: tries.attempts };
        }
        let due = now + tries.delay();
        Effect::Postponed(Postponed { object, tries, due })
    }
}

impl Postponed {
    /// Whether only a success elsewhere could show that the failure is the object's own.
    pub(super) fn needs_witness(&self, successes: u64) -> bool {
        self.tries.deferred_at == Some(successes)
    }

    pub(super) fn is_of(&self, object: &Object) -> bool {
        self.object.uid == object.uid
    }

    pub(super) fn into_visit(self) -> Visit {
        Visit { object: self.object, tries: self.tries, probe: false }
    }
}

impl Tries {
    fn delay(self) -> Duration {
        if self.conflicts == self.attempts && self.conflicts < CONFLICTS_MAX / 2 {
            return Duration::ZERO;
        }
        (DELAY_FIRST * (1 << (self.attempts - 1).min(5))).min(DELAY_MAX)
    }
}
