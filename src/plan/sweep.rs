//! The bookkeeping of a sweep: what is to be listed, what is to be visited, what came of it, and when it is complete.
//!
//! A [`CompleteSweep`] is made in this file alone, and only from a confirm in which nothing is left unvisited, in flight,
//! deferred or refused. What an answer means is decided in `outcome`, when to pause in `health`.

mod hunt;
mod pages;
mod paging;
#[cfg(test)]
mod tests;
mod token;
mod turns;

use std::collections::VecDeque;
use std::time::Duration;

use crate::api::{Checkpoint, CheckpointPhase, RefusedObject};

use super::visit::{Effect, Postponed, Successes};
use super::{Memory, Object, Outcome, Refusals, Tally, Target, Visit};
use paging::{Paging, Position};

/// All pages once, as far as it got.
#[derive(Debug)]
pub struct Sweep {
    target: Target,
    pass: Pass,
    paging: Paging,
    pending: VecDeque<Object>,
    postponed: Vec<Postponed>,
    in_flight: usize,
    successes: Successes,
    /// The object of the latest such visit: visited again to tell a server that is down from an object that it can't take.
    witness: Option<Object>,
    /// Whether the list was gone through for a witness since the latest success.
    sought: bool,
    deferred_in_a_row: u32,
    /// Whether the latest page had objects to visit, and no visit came back since.
    has_new: bool,
    denied_in_a_row: u32,
    doubts_rights: bool,
    memory: Memory,
    tally: Tally,
    refusals: Refusals,
    checkpoint: Checkpoint,
}

/// Proof that every object is stored in the storage version: a confirm that left nothing open.
///
/// Nobody else can make one, so a trim after anything less does not compile:
///
/// ```compile_fail,E0451
/// fn forge(sweep: restow::plan::Sweep) -> restow::plan::CompleteSweep {
///     restow::plan::CompleteSweep { sweep }
/// }
/// ```
#[derive(Debug)]
pub struct CompleteSweep {
    sweep: Sweep,
}

/// What a sweep that has come to its end is followed by.
#[derive(Debug)]
pub enum Conclusion {
    /// It has not come to its end.
    Open(Sweep),
    /// The first sweep left nothing open: it has to be confirmed.
    Unconfirmed(Sweep),
    /// The confirm left nothing open.
    Complete(CompleteSweep),
    /// Objects were refused.
    Refused(Sweep),
}

/// Which sweep of a run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    First,
    /// With the CRD's generation when it started.
    Confirm(i64),
}

impl Sweep {
    /// A first sweep from the first page.
    #[must_use]
    pub fn first(target: Target) -> Self {
        let checkpoint = super::checkpoint::fresh(&target);
        Self {
            target,
            pass: Pass::First,
            paging: Paging::at(Position::Next(None)),
            pending: VecDeque::new(),
            postponed: Vec::new(),
            in_flight: 0,
            successes: Successes::default(),
            witness: None,
            sought: false,
            deferred_in_a_row: 0,
            has_new: false,
            denied_in_a_row: 0,
            doubts_rights: false,
            memory: Memory::default(),
            tally: Tally::default(),
            refusals: Refusals::default(),
            checkpoint,
        }
    }

    /// The sweep that a checkpoint speaks of, where it fits `target`; a first sweep from the first page otherwise.
    ///
    /// A confirm is taken up in its middle only if the checkpoint `is_sealed` and the CRD's generation is still the one that
    /// it was made at; otherwise it starts over, and visits everything. So a checkpoint that somebody else wrote can at
    /// most skip visits that the confirm then makes.
    #[must_use]
    pub fn resume(
        target: Target,
        checkpoint: &Checkpoint,
        is_sealed: bool,
        refused: &[RefusedObject],
    ) -> Self {
        let mut sweep = Self::first(target);
        if !super::checkpoint::fits(checkpoint, &sweep.target) {
            return sweep;
        }
        let generation = sweep.target.accepted().generation;
        let token = checkpoint.continue_token.clone();
        sweep.tally = Tally::carried_over(checkpoint);
        sweep.refusals = Refusals::carried_over(checkpoint.refused, refused);
        sweep.paging = Paging::at(match checkpoint.phase {
            CheckpointPhase::Sweeping => Position::Next(token),
            CheckpointPhase::Confirming if is_sealed && checkpoint.crd_generation == generation => {
                sweep.pass = Pass::Confirm(generation);
                Position::Next(token)
            }
            CheckpointPhase::Confirming => Position::End,
        });
        // Made anew: restow's seal goes on no word of anybody else's.
        sweep.save_checkpoint();
        sweep
    }

    /// The target that is swept.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Whether this is the confirm.
    #[must_use]
    pub fn is_confirm(&self) -> bool {
        matches!(self.pass, Pass::Confirm(_))
    }

    /// Counts of objects.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Objects refused so far.
    #[must_use]
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Where to go on after a restart.
    #[must_use]
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Takes in what came of a visit.
    pub fn record(&mut self, visit: Visit, outcome: Outcome, now: Duration) {
        self.in_flight -= 1;
        self.has_new = false;
        let is_probe = visit.is_probe();
        self.deferred_in_a_row = match outcome {
            Outcome::Deferred(_) => self.deferred_in_a_row.saturating_add(1),
            Outcome::Rewritten(_)
            | Outcome::Unchanged
            | Outcome::Gone
            | Outcome::Refused(_)
            | Outcome::Conflict(_) => 0,
        };
        self.watch_rights(&outcome);
        match visit.judge(outcome, self.successes, now) {
            Effect::Stored { object, resource_version, rewritten } => {
                self.successes.visits += 1;
                self.successes.probes += u64::from(is_probe);
                self.sought = false;
                self.memory.remember(&object.uid, &resource_version);
                if !is_probe {
                    self.tally.stored(rewritten, self.is_confirm());
                }
                self.witness = Some(Object { resource_version, ..object });
            }
            Effect::Gone => {
                if is_probe {
                    self.witness = None;
                } else {
                    self.tally.gone(self.is_confirm());
                }
            }
            Effect::Refused { object, failure, attempts } => {
                self.refusals.add(&object, &failure, attempts);
                self.tally.refused(self.is_confirm());
            }
            Effect::Postponed(postponed) => self.postponed.push(postponed),
            Effect::ProbeRefused => self.witness = None,
            Effect::ProbeDeferred => {}
        }
        if self.lacks_witness() {
            self.sought = true;
            self.list_again();
        }
    }

    /// Says what is next.
    #[must_use]
    pub fn conclude(self) -> Conclusion {
        let open = !self.paging.is_at_end()
            || !self.pending.is_empty()
            || !self.postponed.is_empty()
            || self.in_flight > 0;
        match self.pass {
            _ if open => Conclusion::Open(self),
            _ if self.refusals.total() > 0 => Conclusion::Refused(self),
            Pass::First => Conclusion::Unconfirmed(self),
            Pass::Confirm(_) => Conclusion::Complete(CompleteSweep { sweep: self }),
        }
    }

    /// The confirm that follows, with the CRD at `generation`.
    #[must_use]
    pub fn into_confirm(mut self, generation: i64) -> Self {
        self.rewind(Pass::Confirm(generation));
        self.tally.confirm_starts();
        self.save_checkpoint();
        self
    }

    /// The sweep that gives refused objects another chance: whatever is remembered as stored needs nothing.
    #[must_use]
    pub fn into_retry(mut self) -> Self {
        self.rewind(Pass::First);
        self.refusals = Refusals::default();
        self.tally.retry_starts();
        self.checkpoint = super::checkpoint::fresh(&self.target);
        self
    }

    fn rewind(&mut self, pass: Pass) {
        self.pass = pass;
        self.paging.rewind();
        self.pending.clear();
        self.postponed.clear();
        self.in_flight = 0;
    }

    /// Goes through the list from its first page once more. Whatever was refused is found again.
    fn list_again(&mut self) {
        self.paging.rewind();
        self.refusals = Refusals::default();
        // Where nothing was visited in this process, the counts are those of before a restart.
        self.tally.starts_over(self.is_confirm(), self.successes.visits == 0);
    }

    /// All pages up to here are listed: a restart may go on here.
    ///
    /// In the first sweep objects may be left open behind the place, as the confirm visits whatever this process doesn't
    /// remember. In the confirm none may be.
    fn save_checkpoint(&mut self) {
        let (phase, generation, token) = match (self.pass, self.paging.position()) {
            (Pass::First, Position::Next(token)) => {
                (CheckpointPhase::Sweeping, self.target.accepted().generation, token.clone())
            }
            // The first sweep has come to its end: a confirm from its first page is next.
            (Pass::First, Position::End) => {
                (CheckpointPhase::Confirming, self.target.accepted().generation, None)
            }
            (Pass::Confirm(generation), Position::Next(token)) => {
                (CheckpointPhase::Confirming, generation, token.clone())
            }
            (Pass::Confirm(_), Position::End) => return,
        };
        let refused = self.refusals.total();
        let is_clean =
            self.pending.is_empty() && self.postponed.is_empty() && self.in_flight == 0 && refused == 0;
        if self.pass == Pass::First || is_clean {
            self.checkpoint =
                super::checkpoint::at(&self.target, phase, generation, token, &self.tally, refused);
        }
    }
}

impl CompleteSweep {
    /// The target that was swept.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.sweep.target
    }

    /// Counts of objects.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.sweep.tally
    }

    /// Where to go on after a restart.
    #[must_use]
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.sweep.checkpoint
    }
}
