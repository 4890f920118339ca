//! What the migrations of this process tell each other of the cluster, so that they wait for it together.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use super::{Engine, Order};
use crate::api::TargetResource;
use crate::plan::{Failure, Outage, Run, Step};

impl Engine {
    /// For how long nothing is to be sent for a resource, and what the server said; `None` if the cluster is not known to be
    /// out, or it is for this one to try whether it still is.
    #[must_use]
    pub fn held(&self, resource: &TargetResource) -> Option<(Duration, String)> {
        let (who, now) = (resource.crd_name(), self.clock.now().uptime);
        self.outage_lock().held(&who, now).map(|(wait, said)| (wait, said.to_owned()))
    }

    /// Takes in that a request failed, whomever it was for.
    pub fn note_failed(&self, failure: &Failure) {
        let now = self.clock.now().uptime;
        self.outage_lock().failed(failure, now);
    }

    /// Takes in that something was written and stored.
    pub fn note_stored(&self) {
        self.outage_lock().stored();
    }

    pub(super) fn note_answered(&self) {
        self.outage_lock().answered();
    }

    pub(super) fn noting<T>(&self, answer: Result<T, Failure>) -> Result<T, Failure> {
        match &answer {
            Ok(_) => self.note_answered(),
            Err(failure) => self.note_failed(failure),
        }
        answer
    }

    pub(super) fn is_out(&self) -> bool {
        self.outage_lock().lasts()
    }

    /// Decides, and sees to it that in an outage one migration alone sends anything.
    pub(super) fn decide_in_turn(&self, run: &mut Run, order: Order<'_>) -> Step {
        let who = order.spec.resource.crd_name();
        let step = self.decide(run, order);
        match step {
            Step::Hold(..) | Step::Expire => {
                self.outage_lock().rests(&who);
                step
            }
            Step::Review | Step::AskRights | Step::List(_) | Step::Visit | Step::Inspect | Step::Trim => {
                let now = self.clock.now().uptime;
                if self.outage_lock().try_by(&who, now) { step } else { self.decide(run, order) }
            }
        }
    }

    fn outage_lock(&self) -> MutexGuard<'_, Outage> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
