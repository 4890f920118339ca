//! Whose turn it is in a sweep: first what is certain to tell something, then what is in doubt.
//!
//! An object is in doubt if nothing has succeeded since its visit was deferred: its next failure would not tell whether the
//! object or the server is at fault. The witness, an object that could be written before, is asked then.

use std::time::Duration;

use super::Sweep;
use crate::plan::visit::Postponed;
use crate::plan::{Outcome, Visit};

/// So many deferred visits in a row are the server's rather than the objects': the witness is asked before any other goes.
const DEFERRED_IN_A_ROW: u32 = 3;

/// So many objects may wait for their first visit while a witness is sought on further pages.
const PENDING_MAX: usize = 5000;

/// After so many denied visits in a row the rights are asked for: they may have been withdrawn.
const DENIED_IN_A_ROW: u32 = 3;

impl Sweep {
    /// The next object to visit, if one is due at `now`.
    ///
    /// Objects in doubt come last, so that one that always fails never keeps the others waiting.
    pub fn next(&mut self, now: Duration) -> Option<Visit> {
        let due = self.next_certain(now).or_else(|| self.postponed.iter().position(|p| p.due <= now));
        let in_doubt = self.deferred_in_a_row >= DEFERRED_IN_A_ROW
            || (self.pending.is_empty() && due.is_some_and(|at| self.is_in_doubt(&self.postponed[at])));
        let visit = match (&self.witness, due) {
            (_, None) if self.pending.is_empty() => return None,
            (Some(witness), _) if in_doubt && self.in_flight == 0 => Visit::probe(witness.clone()),
            (_, Some(at)) if self.pending.is_empty() || !self.is_in_doubt(&self.postponed[at]) => {
                self.postponed.swap_remove(at).into_visit()
            }
            (Some(_) | None, _) => Visit::first(self.pending.pop_front()?),
        };
        self.in_flight += 1;
        Some(visit)
    }

    /// Whether the next page is worth a look before the objects of this one: nothing could be written lately, and there is
    /// nothing to tell by whether that is the fault of the server, or of each object on it.
    #[must_use]
    pub fn seeks_witness(&self) -> bool {
        self.witness.is_none()
            && self.deferred_in_a_row >= DEFERRED_IN_A_ROW
            && !self.has_new
            && self.in_flight == 0
            && self.pending.len() < PENDING_MAX
            && !self.paging.is_at_end()
    }

    /// Whether the rights are to be asked for again: the latest visits were all denied.
    #[must_use]
    pub fn doubts_rights(&self) -> bool {
        self.doubts_rights
    }

    /// Takes in that the rights are what they are known to be.
    pub fn trust_rights(&mut self) {
        self.doubts_rights = false;
    }

    pub(super) fn watch_rights(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Refused(failure) if failure.is_lack_of_right() => {
                self.denied_in_a_row = self.denied_in_a_row.saturating_add(1);
                // Once for each series of denials: it may be right that these objects are denied.
                self.doubts_rights |= self.denied_in_a_row == DENIED_IN_A_ROW;
            }
            Outcome::Rewritten(_) | Outcome::Unchanged | Outcome::Refused(_) => self.denied_in_a_row = 0,
            Outcome::Gone | Outcome::Conflict(_) | Outcome::Deferred(_) => {}
        }
    }

    /// When the next postponed object is due, on the clock of uptime; `None` if none is postponed.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        self.postponed.iter().map(|p| p.due).min()
    }

    /// Whether an object is due at `now`.
    #[must_use]
    pub fn has_due(&self, now: Duration) -> bool {
        !self.pending.is_empty() || self.next_due().is_some_and(|due| due <= now)
    }

    /// Whether an object is due at `now` that is worth a visit before the next page is listed.
    #[must_use]
    pub fn has_certain(&self, now: Duration) -> bool {
        !self.pending.is_empty() || self.next_certain(now).is_some()
    }

    /// A postponed object that is due and whose next failure would tell something.
    fn next_certain(&self, now: Duration) -> Option<usize> {
        self.postponed.iter().position(|p| p.due <= now && !self.is_in_doubt(p))
    }

    /// Whether nothing has succeeded since the object failed.
    fn is_in_doubt(&self, postponed: &Postponed) -> bool {
        postponed.needs_witness(self.successes)
    }

    /// Whether nothing is left but objects in doubt, and nothing to tell by: so it is where the run was taken up close to
    /// its end, or the witness was deleted.
    pub(super) fn lacks_witness(&self) -> bool {
        self.witness.is_none()
            && !self.sought
            && self.paging.is_at_end()
            && self.pending.is_empty()
            && self.in_flight == 0
            && !self.postponed.is_empty()
            && self.postponed.iter().all(|p| self.is_in_doubt(p))
    }
}
