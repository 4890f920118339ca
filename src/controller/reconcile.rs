//! One reconcile: a step of one migration, its status, its event.

use std::sync::Arc;
use std::time::Duration;

use kube::runtime::controller::Action;
use kube::runtime::reflector::Store;
use kube::{Resource, ResourceExt};
use tokio::sync::Mutex;

use super::Guarded;
use super::books::{Book, Books};
use super::changes::{Change, Changes};
use super::health::Health;
use crate::api::{
    Conditions, IGNORE_SERVER_ANNOTATION, RETRY_ANNOTATION, Reason, State, StorageMigration,
    StorageMigrationStatus,
};
use crate::cluster::{EventWriter, StatusWritten};
use crate::engine::{Engine, Next, Order};
use crate::plan::{CrdRecord, Finding, rival};

/// How long a migration waits for a change before it is looked at without one.
const RESYNC: Duration = Duration::from_mins(1);
/// How long to wait before a status that could not be written is written again.
const WRITE_AGAIN: Duration = Duration::from_secs(5);
/// How long to wait before a StorageMigration that could not be read, or is newer than the watch has it, is read again.
const READ_AGAIN: Duration = Duration::from_secs(2);
/// How long to wait for the CRDs to become known.
const CRDS_WAIT: Duration = Duration::from_millis(200);

/// What all reconciles share.
pub(super) struct Context {
    pub(super) engine: Arc<Engine>,
    pub(super) events: EventWriter,
    pub(super) books: Arc<Books>,
    pub(super) store: Store<Guarded>,
    pub(super) health: Health,
    pub(super) changes: Changes,
}

/// Nothing in a reconcile fails: what goes wrong is told in the status.
#[derive(Debug, thiserror::Error)]
pub(super) enum Never {}

/// Gives one migration its next step.
pub(super) async fn reconcile(guarded: Arc<Guarded>, context: Arc<Context>) -> Result<Action, Never> {
    if !context.health.is_ready() {
        return Ok(Action::requeue(CRDS_WAIT));
    }
    let (name, uid) = (guarded.name_any(), guarded.uid().unwrap_or_default());
    let migration = match &guarded.0 {
        Ok(migration) => migration,
        Err(invalid) => {
            report_invalid(&context, &guarded, &name, &uid, &invalid.error).await;
            return Ok(Action::await_change());
        }
    };
    let generation = migration.metadata.generation.unwrap_or_default();
    let Some(book) = book(&context, &name, &uid, generation).await else {
        return Ok(Action::requeue(READ_AGAIN));
    };
    let mut book = book.lock().await;
    let all = context.store.state();
    let record = context.engine.records().get(&migration.spec.resource.crd_name());
    let others = all.iter().filter_map(|m| m.0.as_ref().ok());
    let rival = rival(migration, others, record.as_ref().map(CrdRecord::crd));
    let annotation = |name| migration.annotations().get(name).map(String::as_str);
    let (retry, ignored_servers) = (annotation(RETRY_ANNOTATION), annotation(IGNORE_SERVER_ANNOTATION));
    let order = Order { spec: &migration.spec, uid: Some(&uid), generation, retry, ignored_servers, rival };
    let stepped = context.engine.step(&mut book.migration, order).await;
    let wait = match stepped.next {
        Next::Now => Duration::ZERO,
        Next::After(wait) => wait.min(RESYNC),
        Next::OnChange => RESYNC,
        Next::Expire => {
            expire(&context, &name, &uid).await;
            return Ok(Action::requeue(RESYNC));
        }
    };
    let write_again = publish(&context, migration, &uid, &mut book, &stepped.finding).await;
    Ok(Action::requeue(write_again.map_or(wait, |again| again.min(wait))))
}

/// The book of a StorageMigration. It is opened with the status as it is stored: the one that the watch brought may be older
/// than what another process wrote last. Nor is it opened before the watch has brought the spec as it is stored.
async fn book(context: &Context, name: &str, uid: &str, generation: i64) -> Option<Arc<Mutex<Book>>> {
    if let Some(book) = context.books.get(uid) {
        return Some(book);
    }
    match context.engine.cluster().read_status(name, uid).await {
        Ok(stored) => {
            let (latest, status) = stored?;
            if generation < latest {
                tracing::warn!(
                    migration = name,
                    generation,
                    latest,
                    "the watch is behind; the migration waits"
                );
                return None;
            }
            Some(context.books.open(uid, status))
        }
        Err(failure) => {
            tracing::warn!(migration = name, %failure, "can't read the status; the migration waits");
            None
        }
    }
}

/// What kube asks for where a reconcile fails.
pub(super) fn retry(_: Arc<Guarded>, error: &Never, _: Arc<Context>) -> Action {
    match *error {}
}

/// Writes the status if it is time to, with an event and a line in the log at each change of phase. Says when it has to be
/// called again for what was not written.
async fn publish(
    context: &Context,
    migration: &StorageMigration,
    uid: &str,
    book: &mut Book,
    finding: &Finding,
) -> Option<Duration> {
    let name = migration.name_any();
    match book.write_due(finding) {
        None => return None,
        Some(wait) if !wait.is_zero() => return Some(wait),
        Some(_) => {}
    }
    let out_for = || context.engine.held(&migration.spec.resource).map(|(wait, _)| wait);
    let mut write_again = None;
    if out_for().is_none() {
        match context.engine.cluster().write_status(&name, uid, book.migration.status()).await {
            StatusWritten::Done => {
                context.engine.note_stored();
                book.wrote();
            }
            StatusWritten::Gone => return None,
            StatusWritten::Failed(failure) => {
                context.engine.note_failed(&failure);
                tracing::warn!(migration = name, %failure, "can't write the status; the migration goes on");
                write_again = Some(WRITE_AGAIN);
            }
        }
    }
    if let Some(wait) = out_for() {
        // Neither the status nor an event could be written now: the log alone tells.
        if book.tell(finding) {
            log(&name, migration, finding);
        }
        return Some(wait);
    }
    book.log_refusals(&name);
    // An event is told even where the status can't be: it may be all that the user sees.
    if book.tell(finding) {
        log(&name, migration, finding);
        context.events.write(migration, finding).await;
        if let (Reason::Migrated, Some(target)) = (finding.reason, &book.migration.status().target)
            && target.stored_versions_before != target.stored_versions_after
        {
            context.events.write_trimmed(&migration.spec.resource.crd_name(), target).await;
        }
        if finding.reason.state() != State::Working {
            // Another StorageMigration may have waited for this one.
            context.changes.tell(Change::Crd(migration.spec.resource.crd_name()));
        }
    }
    write_again
}

fn log(name: &str, migration: &StorageMigration, finding: &Finding) {
    let target = migration.spec.resource.to_string();
    let (reason, message) = (finding.reason.as_str(), &finding.message);
    match finding.reason.state() {
        State::Stalled => tracing::warn!(migration = name, target, reason, "{message}"),
        State::Done | State::Working => tracing::info!(migration = name, target, reason, "{message}"),
    }
}

async fn expire(context: &Context, name: &str, uid: &str) {
    match context.engine.cluster().delete_migration(name, uid).await {
        Ok(()) => tracing::info!(migration = name, "deleted: ttlSecondsAfterFinished has passed"),
        Err(failure) => {
            tracing::warn!(migration = name, %failure, "can't delete a StorageMigration whose time is over");
        }
    }
}

/// Says in the status of a StorageMigration that it can't be understood.
async fn report_invalid(context: &Context, guarded: &Guarded, name: &str, uid: &str, error: &str) {
    tracing::warn!(migration = name, error, "a StorageMigration can't be understood");
    let generation = guarded.meta().generation.unwrap_or_default();
    let message = format!("this StorageMigration can't be understood: {error}");
    let now = jiff::Timestamp::now();
    let status = StorageMigrationStatus {
        observed_generation: Some(generation),
        conditions: Conditions::build(&[], Reason::InvalidSpec, &message, generation, now),
        ..StorageMigrationStatus::default()
    };
    if let StatusWritten::Failed(failure) = context.engine.cluster().write_status(name, uid, &status).await {
        tracing::warn!(migration = name, %failure, "can't write the status");
    }
}
