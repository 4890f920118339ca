//! What happened in the run of one seed, and what should not have.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Copies are the same journal.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    begun: Instant,
    books: Arc<Mutex<Books>>,
}

#[derive(Debug, Default)]
struct Books {
    lines: Vec<String>,
    wrongs: Vec<String>,
}

impl Journal {
    pub(super) fn begin() -> Self {
        Self { begun: Instant::now(), books: Arc::default() }
    }

    pub(super) fn note(&self, what: &str) {
        let line = format!("{:>7.3} s  {what}", self.begun.elapsed().as_secs_f64());
        self.books().lines.push(line);
    }

    /// Something that must never happen.
    pub(super) fn wrong(&self, what: &str) {
        self.note(&format!("WRONG: {what}"));
        self.books().wrongs.push(what.to_owned());
    }

    pub(super) fn wrongs(&self) -> Vec<String> {
        self.books().wrongs.clone()
    }

    pub(super) fn text(&self) -> String {
        self.books().lines.join("\n")
    }

    pub(super) fn last(&self) -> String {
        self.books().lines.last().cloned().unwrap_or_default()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
