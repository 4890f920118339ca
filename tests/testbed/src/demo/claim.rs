//! What the demo claims, and how it fails: no output here.

use std::error::Error;
use std::fmt::{Debug, Display};

/// Why the demo ended early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A step could not be made.
    #[error("{doing}")]
    Step {
        /// What was being done.
        doing: &'static str,
        /// What went wrong.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A step was made, but what it shows is not what was claimed.
    #[error("{claim}: expected {expected}, found {found}")]
    Unlike {
        /// What was claimed.
        claim: String,
        /// What should have been seen.
        expected: String,
        /// What was seen.
        found: String,
    },
    /// The product did not get on.
    #[error("{problem}; the end of restow's log:\n{log}")]
    Product {
        /// What it did.
        problem: String,
        /// What it wrote last.
        log: String,
    },
}

impl Failure {
    /// A claim that doesn't hold.
    pub(super) fn unlike(claim: &str, expected: impl Display, found: impl Display) -> Self {
        Self::Unlike { claim: claim.to_owned(), expected: expected.to_string(), found: found.to_string() }
    }

    /// The error and its causes, on one line.
    #[must_use]
    pub fn chain(&self) -> String {
        std::iter::successors(self.source(), |&cause| cause.source())
            .fold(self.to_string(), |text, cause| format!("{text}: {cause}"))
    }
}

/// Says what was being done when an error came up.
pub(super) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, Failure>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> Doing<T> for Result<T, E> {
    fn doing(self, doing: &'static str) -> Result<T, Failure> {
        self.map_err(|source| Failure::Step { doing, source: source.into() })
    }
}

/// Fails unless the two are equal.
pub(super) fn check<T: PartialEq + Debug>(claim: &str, expected: &T, found: &T) -> Result<(), Failure> {
    if expected == found {
        return Ok(());
    }
    Err(Failure::unlike(claim, format!("{expected:?}"), format!("{found:?}")))
}

#[cfg(test)]
mod tests {
    use super::{Doing as _, check};

    #[test]
    fn a_failure_tells_its_causes() {
        let result: Result<(), std::io::Error> = Err(std::io::Error::other("no room"));
        let text = result.doing("write the file").map_err(|failure| failure.chain());
        assert_eq!(text, Err("write the file: no room".to_owned()));
    }

    #[test]
    fn a_claim_that_does_not_hold_is_a_failure() {
        let text = check("objects", &3, &2).map_err(|failure| failure.to_string());
        assert_eq!(text, Err("objects: expected 3, found 2".to_owned()));
        assert!(check("objects", &3, &3).is_ok());
    }
}
