//! Counts of objects: what the user sees as progress. No decision rests on them.

use crate::api::{Checkpoint, Progress};

/// Counts of objects in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    total: u64,
    listed: u64,
    rewritten: u64,
    unchanged: u64,
    gone: u64,
    refused: u64,
    confirmed: u64,
    visited_again: u64,
}

impl Tally {
    /// The counts of before a restart.
    #[must_use]
    pub fn carried_over(checkpoint: &Checkpoint) -> Self {
        let Checkpoint { rewritten, unchanged, gone, refused, .. } = *checkpoint;
        let mut tally = Self { rewritten, unchanged, gone, refused, ..Self::default() };
        tally.listed = tally.visited();
        tally.total = tally.listed;
        tally
    }

    /// Objects whose visit has an outcome.
    #[must_use]
    pub fn visited(&self) -> u64 {
        self.rewritten.saturating_add(self.unchanged).saturating_add(self.gone).saturating_add(self.refused)
    }

    /// The counts as the status shows them.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let visited = self.visited();
        let total = self.total.max(visited);
        let percent = (visited * 100).checked_div(total).and_then(|p| u8::try_from(p).ok()).unwrap_or(100);
        Progress {
            total,
            visited,
            rewritten: self.rewritten,
            unchanged: self.unchanged,
            gone: self.gone,
            refused: self.refused,
            percent,
            summary: format!("{visited}/{total} {percent}%"),
        }
    }

    /// Objects that the confirm has seen, and how many of them it visited again.
    #[must_use]
    pub fn confirmed(&self) -> (u64, u64) {
        (self.confirmed, self.visited_again)
    }

    pub(super) fn listed(&mut self, objects: u64, remaining: Option<u64>, confirm: bool) {
        if confirm {
            self.confirmed += objects;
            return;
        }
        self.listed += objects;
        self.total = self.listed + remaining.unwrap_or_default();
    }

    pub(super) fn starts_over(&mut self, confirm: bool) {
        if confirm {
            self.confirmed = 0;
        } else {
            self.listed = 0;
        }
    }

    pub(super) fn stored(&mut self, rewritten: bool, confirm: bool) {
        match (confirm, rewritten) {
            (true, _) => self.visited_again += 1,
            (false, true) => self.rewritten += 1,
            (false, false) => self.unchanged += 1,
        }
    }

    pub(super) fn gone(&mut self, confirm: bool) {
        if !confirm {
            self.gone += 1;
        }
    }

    pub(super) fn refused(&mut self, confirm: bool) {
        self.refused += 1;
        if confirm {
            self.visited_again += 1;
        }
    }

    pub(super) fn confirm_starts(&mut self) {
        self.total = self.visited();
        self.confirmed = 0;
        self.visited_again = 0;
    }

    pub(super) fn retry_starts(&mut self) {
        self.listed = 0;
        self.refused = 0;
    }
}
