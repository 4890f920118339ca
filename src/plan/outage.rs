//! What concerns all migrations of a process: the API server is gone, or its storage takes no write. All of them wait
//! then, and one at a time tries whether it is over.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::health::Rounds;
use super::{Failure, Scope};

/// How long one may try alone. It is longer than any request takes: who had no answer by then lets another try, and where it
/// had some, and none spoke of the outage, that is over.
const TRIAL_MAX: Duration = Duration::from_mins(2);

/// How soon the others look again while one tries.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// How the cluster has answered of late, whichever target was asked for.
#[derive(Debug, Default)]
pub struct Outage {
    rounds: Rounds,
    ill: Option<Ill>,
    trial: Option<Trial>,
}

/// What would show that it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ill {
    /// Any answer: none came, or restow was not known to the server.
    Unreached,
    /// A write that was stored, or a whole trial: reads may be answered all the time, and there may be nothing to write.
    Storage,
}

#[derive(Debug)]
struct Trial {
    by: String,
    until: Duration,
    is_answered: bool,
}

impl Outage {
    /// A request failed.
    pub fn failed(&mut self, failure: &Failure, now: Duration) {
        match failure.scope() {
            Scope::Cluster => {
                self.ill = Some(if failure.code.is_some_and(|code| code != 401) {
                    Ill::Storage
                } else {
                    Ill::Unreached
                });
                self.trial = None;
                self.rounds.hold(failure, now);
            }
            Scope::Target if failure.code.is_some() => self.answered(),
            // A time-out or a reset tells nothing.
            Scope::Target => {}
        }
    }

    /// A request was answered.
    pub fn answered(&mut self) {
        if self.ill == Some(Ill::Unreached) {
            *self = Self::default();
        } else if let Some(trial) = &mut self.trial {
            trial.is_answered = true;
        }
    }

    /// Something was stored.
    pub fn stored(&mut self) {
        *self = Self::default();
    }

    /// Whether it lasts, as far as is known.
    #[must_use]
    pub fn lasts(&self) -> bool {
        self.ill.is_some()
    }

    /// For how long `who` is to send nothing, and what the server said.
    #[must_use]
    pub fn held(&self, who: &str, now: Duration) -> Option<(Duration, &str)> {
        self.ill?;
        let tried = self.trial.as_ref().is_some_and(|trial| trial.by != who && trial.until > now);
        self.rounds.held(now).or_else(|| tried.then(|| (LOOK_AGAIN, self.rounds.said())))
    }

    /// Lets `who` try whether it is over, unless it is too early or another one does. Where nothing is ill it may go on.
    pub fn try_by(&mut self, who: &str, now: Duration) -> bool {
        if self.held(who, now).is_some() {
            return false;
        }
        match &self.trial {
            Some(trial) if trial.until > now => {}
            Some(trial) if trial.is_answered => *self = Self::default(),
            Some(_) | None if self.lasts() => {
                self.trial = Some(Trial { by: who.to_owned(), until: now + TRIAL_MAX, is_answered: false });
            }
            Some(_) | None => {}
        }
        true
    }

    /// Takes in that `who` sends nothing more for now.
    pub fn rests(&mut self, who: &str) {
        self.trial.take_if(|trial| trial.by == who);
    }
}
