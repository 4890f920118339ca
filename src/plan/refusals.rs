//! The refused objects of a run: an exact total and a capped list.

#[cfg(test)]
mod tests;

use crate::api::{REFUSALS_LISTED_MAX, RefusedObject};

use super::{Failure, Object};

/// The longest message of a listed refusal, in bytes.
const MESSAGE_MAX: usize = 1024;

/// The longest reason of a listed refusal, in bytes: the server's own have at most 30, a webhook may say anything.
const REASON_MAX: usize = 128;

/// Objects that the server refused to store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    total: u64,
    listed: Vec<RefusedObject>,
}

impl Refusals {
    /// Refusals from before a restart: their number, and those that were listed.
    #[must_use]
    pub fn carried_over(total: u64, listed: &[RefusedObject]) -> Self {
        // Those past the total were refused behind the place where the run goes on: they are found again.
        let most = usize::try_from(total).unwrap_or(usize::MAX).min(REFUSALS_LISTED_MAX);
        Self { total, listed: listed.iter().take(most).cloned().collect() }
    }

    /// Adds one.
    pub fn add(&mut self, object: &Object, failure: &Failure, attempts: u32) {
        self.total = self.total.saturating_add(1);
        if self.listed.len() < REFUSALS_LISTED_MAX {
            self.listed.push(RefusedObject {
                namespace: object.namespace.clone(),
                name: object.name.clone(),
                code: failure.code.unwrap_or_default(),
                reason: cut(&failure.reason, REASON_MAX),
                message: cut(&failure.message, MESSAGE_MAX),
                attempts,
            });
        }
    }

    /// How many there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The first few of them.
    #[must_use]
    pub fn listed(&self) -> &[RefusedObject] {
        &self.listed
    }
}

/// The longest start of `text` that has at most `bytes_max` bytes.
fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}
