//! A reason with the text that goes with it: what conditions, events and the command line show.

use crate::api::Reason;

/// Where a migration is, in one word and in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The word.
    pub reason: Reason,
    /// The sentence: what is wrong or going on, and what to do where somebody has to act.
    pub message: String,
}

impl Finding {
    /// A finding.
    #[must_use]
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}
