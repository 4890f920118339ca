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

/// What the server answered as hoped in a sweep.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Successes {
    /// Visits, probes among them.
    pub(super) visits: u64,
    /// Probes alone: a visit of an object that is current needs no conversion, but a probe asks for one.
    pub(super) probes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tries {
    attempts: u32,
    refusals: u32,
    strikes: u32,
    conflicts: u32,
    /// When the last attempt was deferred.
    deferred: Option<Deferred>,
}

/// How far the sweep was when an attempt was deferred, and whether that was for a conversion webhook that did not answer.
#[derive(Clone, Copy, Debug)]
struct Deferred {
    at: Successes,
    by_silence: bool,
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
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.probe
    }

    /// What `outcome` comes to, after so many successes in this sweep.
    pub(super) fn judge(self, outcome: Outcome, successes: Successes, now: Duration) -> Effect {
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
                let by_silence = failure.is_silence_of_webhook();
                let tells = |then: Deferred| then.at.telling(by_silence) < successes.telling(by_silence);
                if !is_outage && tries.deferred.is_none_or(tells) {
                    tries.strikes += 1;
                }
                tries.deferred = Some(Deferred { at: successes, by_silence });
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
    pub(super) fn needs_witness(&self, successes: Successes) -> bool {
        self.tries.deferred.is_some_and(|deferred| {
            deferred.at.telling(deferred.by_silence) == successes.telling(deferred.by_silence)
        })
    }

    pub(super) fn is_of(&self, object: &Object) -> bool {
        self.object.uid == object.uid
    }

    pub(super) fn into_visit(self) -> Visit {
        Visit { object: self.object, tries: self.tries, probe: false }
    }
}

impl Successes {
    /// Those that show that a failure is not everybody's.
    fn telling(self, by_silence: bool) -> u64 {
        if by_silence { self.probes } else { self.visits }
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
