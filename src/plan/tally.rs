//! Counts of objects: what the user sees as progress. No decision rests on them.

#[cfg(test)]
mod tests;

use crate::api::{Checkpoint, Progress};

/// Counts of objects in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// `None` until a page was listed.
    total: Option<u64>,
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
        let total = self.total.unwrap_or_default().max(visited);
        let percent = match (self.total, u128::from(total)) {
            (None, _) => 0,
            (Some(_), 0) => 100,
            (Some(_), total) => u8::try_from(u128::from(visited) * 100 / total).unwrap_or(100),
        };
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
            self.confirmed = self.confirmed.saturating_add(objects);
            return;
        }
        self.listed = self.listed.saturating_add(objects);
        self.total = Some(self.listed.saturating_add(remaining.unwrap_or_default()));
    }

    /// The list starts over. What was refused is found again, and so is what was visited `before_restart`.
    pub(super) fn starts_over(&mut self, confirm: bool, before_restart: bool) {
        self.refused = 0;
        if confirm {
            self.confirmed = 0;
        } else if before_restart {
            *self = Self::default();
        } else {
            self.listed = 0;
        }
    }

    pub(super) fn stored(&mut self, rewritten: bool, confirm: bool) {
        match (confirm, rewritten) {
            (true, _) => add_one(&mut self.visited_again),
            (false, true) => add_one(&mut self.rewritten),
            (false, false) => add_one(&mut self.unchanged),
        }
    }

    pub(super) fn gone(&mut self, confirm: bool) {
        if !confirm {
            add_one(&mut self.gone);
        }
    }

    pub(super) fn refused(&mut self, confirm: bool) {
        add_one(&mut self.refused);
        if confirm {
            add_one(&mut self.visited_again);
        }
    }

    /// An object stands in the list that can't be listed.
    pub(super) fn unreadable(&mut self, confirm: bool) {
        self.refused(confirm);
        if confirm {
            add_one(&mut self.confirmed);
        } else {
            add_one(&mut self.listed);
        }
    }

    pub(super) fn confirm_starts(&mut self) {
        self.total = Some(self.visited());
        self.confirmed = 0;
        self.visited_again = 0;
    }

    pub(super) fn retry_starts(&mut self) {
        self.listed = 0;
        self.refused = 0;
    }
}

/// Counts on from what may be a checkpoint's number, which anybody may have written.
fn add_one(count: &mut u64) {
    *count = count.saturating_add(1);
}
