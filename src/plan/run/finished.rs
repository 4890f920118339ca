//! Runs that have ended: whether their result still stands, when they are repeated, when their StorageMigration goes.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Run, State};
use crate::api::{Mode, Reason, StorageMigrationSpec, StoredVersions};
use crate::plan::{Crd, Finding, Moment, Observation, Step, report, sentence};

/// The shortest and the longest wait before a run is repeated whose result somebody undid; it doubles each time. restow does
/// not fight over `storedVersions`.
const UNDONE_WAIT: (Duration, Duration) = (Duration::from_mins(1), Duration::from_hours(1));

impl Run {
    /// What the status says of a migration that is done, if it still is.
    pub(super) fn still_done(&self, seen: &Observation<'_>) -> Option<Finding> {
        let (State::Idle, Some(record)) = (&self.state, seen.crd) else { return None };
        let finding = report::finding_of(&self.status).filter(|f| report::is_done(f.reason))?;
        let crd = record.crd();
        let same_generation = self.status.observed_generation == Some(seen.generation);
        // Where storedVersions is kept, it doesn't tell of a flag that moved away and back.
        let since = self.status.target.as_ref().and_then(|target| target.crd_generation);
        let unbroken = since.is_some_and(|generation| record.is_unbroken_since(generation));
        let done = match (seen.spec.mode, seen.spec.stored_versions) {
            (Mode::Always, StoredVersions::Trim) => same_generation && crd.is_trimmed(),
            (Mode::Always, StoredVersions::Keep) => same_generation && unbroken,
            (Mode::IfStale, StoredVersions::Trim) => crd.is_trimmed(),
            (Mode::IfStale, StoredVersions::Keep) => {
                (finding.reason == Reason::MigratedNotTrimmed && unbroken) || crd.is_trimmed()
            }
        };
        // Whoever expects another version by now must not read that all is done.
        let expected = &seen.spec.expected_storage_version;
        let as_expected =
            expected.as_ref().is_none_or(|e| crd.storage_version().is_some_and(|v| v.name == *e));
        (self.is_for(crd) && as_expected && done).then_some(finding)
    }

    /// Whether the status speaks of this CRD with its present storage version.
    fn is_for(&self, crd: &Crd) -> bool {
        self.status.target.as_ref().is_some_and(|target| {
            target.crd_uid == crd.uid
                && !crd.terminating
                && crd.storage_version().is_some_and(|v| v.name == target.storage_version)
        })
    }

    /// The wait before a run that ended well is repeated because its result was undone.
    pub(super) fn undone(&self, seen: &Observation<'_>, now: Moment) -> Option<Step> {
        let wait = (UNDONE_WAIT.0 * (1 << self.repeats.min(6))).min(UNDONE_WAIT.1);
        let until = self.finished_at? + wait;
        let crd = seen.crd.filter(|_| self.is_undone(seen) && now.uptime < until)?.crd();
        let finding = sentence::undone(seen.spec, &crd.stored_versions_owners, wait);
        Some(Step::Hold(finding, Some(until)))
    }

    /// Whether the trim of the latest run was undone, and nothing else asks for another one.
    fn is_undone(&self, seen: &Observation<'_>) -> bool {
        let (State::Idle, Some(record)) = (&self.state, seen.crd) else { return false };
        let target = self.status.target.as_ref();
        let trimmed = target.is_some_and(|t| t.stored_versions_after == [t.storage_version.as_str()]);
        let same_generation = self.status.observed_generation == Some(seen.generation);
        same_generation && self.is_for(record.crd()) && trimmed && !record.crd().is_trimmed()
    }

    /// How often in a row, with the run that begins now, one was made only because the one before was undone.
    pub(super) fn repeats_from(&self, seen: &Observation<'_>, now: Moment) -> u32 {
        let lately = self.finished_at.is_some_and(|at| now.uptime.saturating_sub(at) < UNDONE_WAIT.1 * 2);
        if lately && self.is_undone(seen) { self.repeats.saturating_add(1) } else { 0 }
    }

    pub(super) fn done(&self, spec: &StorageMigrationSpec, finding: Finding, now: Moment) -> Step {
        let lives_for = spec.ttl_seconds_after_finished.map(SignedDuration::from_secs);
        let completed = self.status.completion_time.as_ref().map(|t| t.0);
        let (Some(lives_for), Some(completed)) = (lives_for, completed) else {
            return Step::Hold(finding, None);
        };
        match Duration::try_from(lives_for.saturating_sub(now.wall.duration_since(completed))) {
            Ok(left) if !left.is_zero() => Step::Hold(finding, Some(now.uptime + left)),
            Ok(_) | Err(_) => Step::Expire,
        }
    }

    pub(super) fn expired(&self, seen: &Observation<'_>, now: Moment) -> Option<Finding> {
        let same_generation = self.status.observed_generation == Some(seen.generation);
        let said = report::finding_of(&self.status).filter(|f| f.reason == Reason::DeadlineExceeded);
        if said.is_some() {
            return said.filter(|_| same_generation);
        }
        let limit = SignedDuration::from_secs(seen.spec.active_deadline_seconds?);
        let started: Timestamp = self.swept().and(self.status.start_time.as_ref())?.0;
        (now.wall.duration_since(started) > limit).then(|| sentence::deadline_exceeded(limit))
    }
}
