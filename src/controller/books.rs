//! The migrations of one term of leadership, by the uid of their StorageMigration, and when the status of each was last written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::api::{Reason, State, StorageMigrationStatus};
use crate::engine::Migration;
use crate::plan::Finding;

/// How long a status of the same phase waits before it is written again.
const WRITE_PAUSE: Duration = Duration::from_secs(3);

/// All migrations of one term.
#[derive(Debug, Default)]
pub(super) struct Books {
    books: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Book>>>>,
}

/// One migration and what of it was told to the cluster.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) migration: Migration,
    written: StorageMigrationStatus,
    written_at: Option<Instant>,
    told: Option<Reason>,
    refusals_logged: usize,
}

impl Books {
    /// The book of a StorageMigration, if it is open.
    pub(super) fn get(&self, uid: &str) -> Option<Arc<tokio::sync::Mutex<Book>>> {
        self.lock().get(uid).cloned()
    }

    /// Opens the book of a StorageMigration with the status that it has.
    pub(super) fn open(&self, uid: &str, status: StorageMigrationStatus) -> Arc<tokio::sync::Mutex<Book>> {
        let mut books = self.lock();
        let open = || Arc::new(tokio::sync::Mutex::new(Book::new(status)));
        Arc::clone(books.entry(uid.to_owned()).or_insert_with(open))
    }

    /// Forgets a StorageMigration that is gone.
    pub(super) fn close(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Forgets all StorageMigrations but those that `is_there` knows.
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.lock().retain(|uid, _| is_there(uid));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<tokio::sync::Mutex<Book>>>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn new(status: StorageMigrationStatus) -> Self {
        Self {
            told: crate::api::Conditions::reason(&status.conditions),
            written: status.clone(),
            written_at: None,
            refusals_logged: 0,
            migration: Migration::new(status),
        }
    }

    /// For how long the status is not to be written yet; `None` if there is nothing to write.
    pub(super) fn write_due(&self, finding: &Finding) -> Option<Duration> {
        if *self.migration.status() == self.written {
            return None;
        }
        let same_phase = self.told == Some(finding.reason) && finding.reason.state() == State::Working;
        let since = self.written_at.map_or(WRITE_PAUSE, |at| at.elapsed());
        Some(if same_phase { WRITE_PAUSE.saturating_sub(since) } else { Duration::ZERO })
    }

    /// Takes in that the status was written.
    pub(super) fn wrote(&mut self) {
        self.written = self.migration.status().clone();
        self.written_at = Some(Instant::now());
    }

    /// Takes in that this phase is told now. Says whether it is a new one.
    pub(super) fn tell(&mut self, finding: &Finding) -> bool {
        self.told.replace(finding.reason) != Some(finding.reason)
    }

    /// Logs the refusals that were not logged yet: as many as the status lists, at most.
    pub(super) fn log_refusals(&mut self, name: &str) {
        let refusals = &self.migration.status().refusals;
        if refusals.len() < self.refusals_logged {
            self.refusals_logged = 0;
        }
        for refusal in &refusals[self.refusals_logged..] {
            let namespace = refusal.namespace.as_deref().unwrap_or_default();
            tracing::warn!(
                migration = name,
                object = format!("{namespace}/{}", refusal.name),
                code = refusal.code,
                reason = refusal.reason,
                message = refusal.message,
                "refused"
            );
        }
        self.refusals_logged = refusals.len();
    }
}
