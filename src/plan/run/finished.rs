//! Runs that have ended: whether their result still stands, when they are repeated, when their StorageMigration goes.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Run, State};
use crate::api::{Mode, Reason, StorageMigrationSpec, StoredVersions};
use crate::plan::{Crd, Finding, Moment, Observation, Step, report, sentence};

/// The wait before a run is repeated whose result somebody undid: restow does not fight over `storedVersions`.
const UNDONE_WAIT: Duration = Duration::from_mins(1);

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

    /// Until when a run that ended well a moment ago is not repeated although its result was undone.
    pub(super) fn undone_until(&self, seen: &Observation<'_>, now: Moment) -> Option<Duration> {
        let State::Idle = self.state else { return None };
        let until = self.finished_at? + UNDONE_WAIT;
        let crd = seen.crd?.crd();
        let target = self.status.target.as_ref();
        let trimmed = target.is_some_and(|t| t.stored_versions_after == [t.storage_version.as_str()]);
        let same_generation = self.status.observed_generation == Some(seen.generation);
        let repeated = seen.spec.mode == Mode::IfStale || same_generation;
        let undone = repeated && self.is_for(crd) && trimmed && !crd.is_trimmed();
        (undone && now.uptime < until).then_some(until)
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
