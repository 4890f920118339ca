//! Metrics that tell the present state, gathered when somebody asks: so what is gone is gone from them at once.
//!
//! CRDs and StorageMigrations are told by every replica alike, from its watches.

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first thing that is not as it should be")]
mod tests;

use std::collections::HashMap;
use std::fmt::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::reflector::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use super::Guarded;
use crate::api::{Conditions, Reason, State, StorageMigrationStatus};
use crate::engine::Engine;
use crate::metrics::PREFIX;

/// No labels.
const UNLABELLED: [(&str, &str); 0] = [];

/// The word for a StorageMigration that restow has not looked at yet.
const NEW: &str = "New";

/// What the present state is gathered from.
#[derive(Debug)]
pub(super) struct Gathered {
    engine: Arc<Engine>,
    store: Store<Guarded>,
    seen: Mutex<HashMap<String, Seen>>,
}

/// What was seen of a migration that is not done, when it was asked for before.
#[derive(Clone, Debug)]
struct Seen {
    unfinished_since: Timestamp,
    sweep: Option<(Instant, u64)>,
}

/// Everything that is exported: what is counted and what is gathered.
pub(super) fn registry(engine: &Arc<Engine>, store: &Store<Guarded>) -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    engine.cluster().metrics().register(&mut registry);
    let gathered = Gathered { engine: Arc::clone(engine), store: store.clone(), seen: Mutex::default() };
    registry.register_collector(Box::new(gathered));
    registry
}

impl Collector for Gathered {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        self.process(&mut encoder)?;
        self.crds(&mut encoder)?;
        self.migrations(&mut encoder, Timestamp::now())
    }
}

impl Gathered {
    fn process(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let one = |value: f64| [(UNLABELLED, value)];
        let build = [([("version", env!("CARGO_PKG_VERSION").to_owned())], 1.0)];
        gauges(encoder, "build_info", "The version of restow", None, build)?;
        let leads = f64::from(u8::from(self.engine.cluster().gate().is_open()));
        gauges(encoder, "leader", "Whether this process leads, and so may write", None, one(leads))?;
        let pacer = self.engine.pacer();
        let limits = pacer.limits();
        let rate = limits.writes_per_second.map_or(0.0, |rate| f64::from(rate.get()));
        let text = "The most writes a second, over all migrations; 0 is no limit";
        gauges(encoder, "pace_limit_writes_per_second", text, None, one(rate))?;
        let text = "The most writes under way at once, over all migrations";
        gauges(encoder, "pace_limit_in_flight", text, None, one(f64::from(limits.max_in_flight.get())))?;
        let text = "Writes that may be under way at once as the API server answers now";
        gauges(encoder, "pace_allowed_in_flight", text, None, one(f64::from(pacer.allowed())))?;
        let text = "Writes under way";
        gauges(encoder, "pace_in_flight", text, None, one(f64::from(pacer.in_flight())))
    }

    fn crds(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let (mut named, mut stale) = (Vec::new(), Vec::new());
        self.engine.records().each(|crd| {
            let storage = crd.storage_version().map_or("", |version| &version.name);
            let old = crd.stored_versions.iter().filter(|version| *version != storage).count();
            let labels = [("crd", crd.name.clone())];
            named.push((labels.clone(), crd.stored_versions.len() as f64));
            stale.push((labels, old as f64));
        });
        let text = "Versions that status.storedVersions of a CustomResourceDefinition names";
        gauges(encoder, "crd_stored_versions", text, None, named)?;
        let text = "Versions among them that are not the storage version: they can't be removed from the CRD";
        gauges(encoder, "crd_stale_stored_versions", text, None, stale)
    }

    fn migrations(&self, encoder: &mut DescriptorEncoder<'_>, now: Timestamp) -> Result<(), Error> {
        let mut counts: Vec<_> =
            Reason::ALL.iter().map(|r| (state_word(r.state()), r.as_str(), 0.0)).collect();
        counts.push((state_word(State::Working), NEW, 0.0));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *seen);
        let (mut oldest, mut left) = (Duration::ZERO, Vec::new());
        for migration in self.store.state() {
            let (status, reason) = told(&migration);
            let word = reason.map_or(NEW, Reason::as_str);
            if let Some(row) = counts.iter_mut().find(|(_, reason, _)| *reason == word) {
                row.2 += 1.0;
            }
            if reason.is_some_and(|reason| reason.state() == State::Done) {
                continue;
            }
            let uid = migration.uid().unwrap_or_default();
            let created = migration.creation_timestamp().map_or(now, |time| time.0);
            let row = Seen::now(before.get(&uid), &status, reason, created);
            oldest = oldest.max(now.duration_since(row.unfinished_since).try_into().unwrap_or_default());
            if let Some(secs) = row.seconds_left(&status) {
                left.push(([("migration", migration.name_any())], secs));
            }
            seen.insert(uid, row);
        }
        drop(seen);
        let rows = counts.into_iter().map(|(state, reason, count)| {
            ([("state", state.to_owned()), ("reason", reason.to_owned())], count)
        });
        gauges(encoder, "migrations", "StorageMigrations, by state and reason", None, rows)?;
        let text = "For how long the oldest StorageMigration that is not done has not been; 0 if all are";
        let none = [(UNLABELLED, oldest.as_secs_f64())];
        gauges(encoder, "oldest_unfinished_migration_age", text, Some(&Unit::Seconds), none)?;
        let text = "How long the first sweep still takes, if it goes on as since it was asked for first";
        gauges(encoder, "migration_remaining", text, Some(&Unit::Seconds), left)
    }
}

impl Seen {
    fn now(
        before: Option<&Self>,
        status: &StorageMigrationStatus,
        reason: Option<Reason>,
        created: Timestamp,
    ) -> Self {
        let unfinished_since = unfinished_since(status, created);
        let visited = status.progress.as_ref().map_or(0, |progress| progress.visited);
        let sweep = (reason == Some(Reason::Sweeping)).then(|| {
            before
                .and_then(|before| before.sweep)
                .filter(|(_, then)| *then <= visited)
                .unwrap_or((Instant::now(), visited))
        });
        Self {
            unfinished_since: before.map_or(unfinished_since, |it| it.unfinished_since.min(unfinished_since)),
            sweep,
        }
    }

    /// How long the sweep still takes at the rate seen.
    fn seconds_left(&self, status: &StorageMigrationStatus) -> Option<f64> {
        let (since, then) = self.sweep?;
        let progress = status.progress.as_ref()?;
        let done = progress.visited.checked_sub(then).filter(|done| *done > 0)?;
        let rate = done as f64 / since.elapsed().as_secs_f64();
        Some(progress.total.saturating_sub(progress.visited) as f64 / rate)
    }
}

/// Since when a migration that is not done has not been.
fn unfinished_since(status: &StorageMigrationStatus, created: Timestamp) -> Timestamp {
    let ran_since = status.start_time.as_ref().map(|time| time.0);
    let done_at = status.completion_time.as_ref().map(|time| time.0);
    match (ran_since, done_at) {
        (Some(start), Some(done)) if start < done => {
            // It was done before. When that ended is known by the conditions alone.
            let turned = status.conditions.iter().map(|condition| condition.last_transition_time.0).min();
            turned.unwrap_or(done)
        }
        (Some(start), _) => start,
        (None, _) => created,
    }
}

/// What a StorageMigration says of itself.
fn told(migration: &Guarded) -> (StorageMigrationStatus, Option<Reason>) {
    match &migration.0 {
        Ok(migration) => {
            let status = migration.status.clone().unwrap_or_default();
            let reason = Conditions::reason(&status.conditions);
            (status, reason)
        }
        Err(_) => (StorageMigrationStatus::default(), Some(Reason::InvalidSpec)),
    }
}

const fn state_word(state: State) -> &'static str {
    match state {
        State::Done => "done",
        State::Working => "working",
        State::Stalled => "stalled",
    }
}

fn gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    rows: impl IntoIterator<Item = (L, f64)>,
) -> Result<(), Error> {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    let text = format!("{help}.");
    let mut family = encoder.encode_descriptor(name, &text, unit, MetricType::Gauge)?;
    for (labels, value) in rows {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
