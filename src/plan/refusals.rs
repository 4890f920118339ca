//! The refused objects of a run: an exact total and a capped list.

#[cfg(test)]
mod tests;

use crate::api::{REFUSALS_LISTED_MAX, RefusedObject};

use super::{Failure, Object};

/// The longest message of a listed refusal, in bytes.
const MESSAGE_MAX: usize = 1024;

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
                reason: failure.reason.clone(),
                message: failure.message[..failure.message.floor_char_boundary(MESSAGE_MAX)].to_owned(),
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
