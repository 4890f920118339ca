//! One run of a migration, from accepting the CRD to the trim: [`Run::decide`] says what is to be done next.
//!
//! What came of it is told in `run::results`; the status that users read is made in `report`. Nothing here waits, sends or
//! reads a clock: the same observation at the same moment gives the same step.

mod results;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::api::{Mode, Reason, StorageMigrationSpec, StorageMigrationStatus, StoredVersions};

use super::target::judge_crd;
use super::{
    CompleteSweep, Conclusion, Crd, CrdRecord, Drift, Finding, Health, Limits, Moment, PageRequest, Sweep,
    report,
};

/// Everything a decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// What the user asks for.
    pub spec: &'a StorageMigrationSpec,
    /// `metadata.generation` of the StorageMigration.
    pub generation: i64,
    /// The CRD as last seen; `None` if there is none.
    pub crd: Option<&'a CrdRecord>,
    /// An older StorageMigration for the same resource that is not done with it.
    pub rival: Option<&'a str>,
    /// How long after a move of the storage version API servers may still write the old one.
    pub settle: Duration,
    /// The limits of this process.
    pub limits: Limits,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is to be sent before that uptime, or before something changes.
    Hold(Finding, Option<Duration>),
    /// Read the CRD live, and ask for rights and other migrators.
    Review,
    /// List a page of objects.
    List(PageRequest),
    /// Visit the objects that are due.
    Visit,
    /// Read the CRD and the API servers' Leases, to know whether the confirm may start.
    Inspect,
    /// Read the CRD and the API servers' Leases live, and trim if they allow it.
    Trim,
    /// Delete the StorageMigration: its time to live is over.
    Expire,
}

/// A migration's state in this process.
#[derive(Debug)]
pub struct Run {
    state: State,
    health: Health,
    pause: Option<Pause>,
    /// How often refused objects were tried again.
    retries: u32,
    /// When this process saw the latest run end well.
    finished_at: Option<Duration>,
    status: StorageMigrationStatus,
}

#[derive(Debug)]
enum State {
    /// Nothing is accepted, or all is done.
    Idle,
    Sweeping(Sweep),
    /// The first sweep left nothing open.
    Unconfirmed(Sweep),
    /// Objects were refused; they are tried again at that uptime.
    Refused {
        sweep: Sweep,
        retry_at: Duration,
        generation: i64,
        crd_generation: i64,
    },
    Trimming(CompleteSweep),
}

/// Nothing is sent before that uptime, unless the StorageMigration or its CRD changes.
#[derive(Clone, Debug)]
struct Pause {
    finding: Finding,
    until: Duration,
    generation: i64,
    crd_resource_version: Option<String>,
}

/// The shortest and the longest wait before refused objects are tried again; it doubles each time.
const RETRY_REFUSED: (Duration, Duration) = (Duration::from_mins(1), Duration::from_hours(1));

/// The wait before a run is repeated whose result somebody undid: restow does not fight over `storedVersions`.
const UNDONE_WAIT: Duration = Duration::from_mins(1);

/// How often a wait is counted down in the status.
const COUNT_DOWN: Duration = Duration::from_secs(5);

impl Run {
    /// A run that takes up what `status` says.
    #[must_use]
    pub fn new(status: StorageMigrationStatus) -> Self {
        Self {
            state: State::Idle,
            health: Health::default(),
            pause: None,
            retries: 0,
            finished_at: None,
            status,
        }
    }

    /// The status as last reported.
    #[must_use]
    pub fn status(&self) -> &StorageMigrationStatus {
        &self.status
    }

    /// How the target has answered of late.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The sweep that is under way, for listing and visiting.
    pub fn sweep(&mut self) -> Option<(&mut Sweep, &mut Health)> {
        match &mut self.state {
            State::Sweeping(sweep) => Some((sweep, &mut self.health)),
            State::Idle | State::Unconfirmed(_) | State::Refused { .. } | State::Trimming(_) => None,
        }
    }

    /// Says what is to be done now.
    pub fn decide(&mut self, seen: &Observation<'_>, now: Moment) -> Step {
        if let Some(finding) = self.still_done(seen) {
            return self.done(seen.spec, finding, now);
        }
        if let Some(finding) = self.expired(seen, now) {
            self.state = State::Idle;
            return Step::Hold(finding, None);
        }
        if seen.spec.suspend {
            return Step::Hold(Finding::new(Reason::Suspended, "paused by spec.suspend"), None);
        }
        if let Some(pause) = self.pause.take_if(|p| !p.is_over(seen, now)) {
            let step = Step::Hold(pause.finding.clone(), Some(pause.until));
            self.pause = Some(pause);
            return step;
        }
        self.pause = None;
        if let Some(until) = self.undone_until(seen, now) {
            return Step::Hold(report::undone(seen.spec), Some(until));
        }
        if let Some(step) = self.guard(seen) {
            return step;
        }
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => Self::begin(seen),
            State::Sweeping(sweep) => self.sweep_on(sweep, seen, now),
            State::Unconfirmed(sweep) => self.resting(State::Unconfirmed(sweep), Step::Inspect, now),
            State::Trimming(complete) => self.resting(State::Trimming(complete), Step::Trim, now),
            State::Refused { sweep, retry_at, generation, crd_generation } => {
                let moved = generation != seen.generation
                    || seen.crd.is_some_and(|r| r.crd().generation != crd_generation);
                if moved || now.uptime >= retry_at {
                    return self.sweep_on(sweep.into_retry(), seen, now);
                }
                let finding = report::refused(&sweep);
                self.state = State::Refused { sweep, retry_at, generation, crd_generation };
                Step::Hold(finding, Some(retry_at))
            }
        }
    }

    /// Makes the status that says `finding`, and keeps it.
    pub fn report(
        &mut self,
        seen: &Observation<'_>,
        finding: &Finding,
        now: Moment,
    ) -> &StorageMigrationStatus {
        self.status = report::status(&self.status, self.swept(), seen, finding, now.wall);
        &self.status
    }

    /// What is being done, in a sentence, while a sweep or its trim is under way.
    #[must_use]
    pub fn phase(&self) -> Option<Finding> {
        match &self.state {
            State::Idle => None,
            State::Sweeping(sweep) | State::Unconfirmed(sweep) => Some(report::sweeping(sweep)),
            State::Refused { sweep, .. } => Some(report::refused(sweep)),
            State::Trimming(complete) => Some(report::trimming(complete)),
        }
    }

    /// What the status says: where no sweep is under way, that is where the migration is.
    #[must_use]
    pub fn said(&self) -> Option<Finding> {
        self.pause.as_ref().map(|p| p.finding.clone()).or_else(|| report::finding_of(&self.status))
    }

    fn swept(&self) -> Option<report::Swept<'_>> {
        match &self.state {
            State::Idle => None,
            State::Sweeping(sweep) | State::Unconfirmed(sweep) | State::Refused { sweep, .. } => {
                Some(sweep.into())
            }
            State::Trimming(complete) => Some(complete.into()),
        }
    }

    /// Stops what is under way where the CRD is no longer the one that was accepted.
    fn guard(&mut self, seen: &Observation<'_>) -> Option<Step> {
        let target = match &self.state {
            State::Idle => return None,
            State::Sweeping(sweep) | State::Unconfirmed(sweep) | State::Refused { sweep, .. } => {
                sweep.target()
            }
            State::Trimming(complete) => complete.target(),
        };
        let drift = seen.crd.map_or(Drift::Moved, |record| target.drift(record.crd()));
        let unwanted = judge_crd(seen.spec, seen.crd.map(CrdRecord::crd))
            .is_some_and(|finding| finding.reason != Reason::NothingToMigrate);
        if drift == Drift::Conversion && self.status.observed_generation == Some(seen.generation) {
            return Some(Step::Hold(report::conversion_changed(seen.spec), None));
        }
        if drift != Drift::None || unwanted {
            self.abandon();
            return None;
        }
        let rival = seen.rival?;
        Some(Step::Hold(report::rival(seen.spec, rival), None))
    }

    fn begin(seen: &Observation<'_>) -> Step {
        if let Some(finding) = judge_crd(seen.spec, seen.crd.map(CrdRecord::crd)) {
            return Step::Hold(finding, None);
        }
        if let Some(rival) = seen.rival {
            return Step::Hold(report::rival(seen.spec, rival), None);
        }
        Step::Review
    }

    fn sweep_on(&mut self, sweep: Sweep, seen: &Observation<'_>, now: Moment) -> Step {
        let quiet_for = seen.crd.map(|r| r.quiet_for(now)).unwrap_or_default();
        if quiet_for < seen.settle {
            let left = seen.settle.saturating_sub(quiet_for);
            let finding = report::settling(sweep.target(), left);
            self.state = State::Sweeping(sweep);
            return Step::Hold(finding, Some(now.uptime + left.min(COUNT_DOWN)));
        }
        if let Some((wait, said)) = self.health.held(now.uptime) {
            let finding = report::backing_off(wait, said);
            self.state = State::Sweeping(sweep);
            return Step::Hold(finding, Some(now.uptime + wait));
        }
        let step = if sweep.has_due(now.uptime) {
            Step::Visit
        } else if let Some(token) = sweep.wanted_page() {
            let continue_token = token.map(str::to_owned);
            Step::List(PageRequest { continue_token, limit: seen.limits.page_size(seen.spec) })
        } else if let Some(due) = sweep.next_due() {
            Step::Hold(report::sweeping(&sweep), Some(due))
        } else {
            return self.conclude(sweep, seen, now);
        };
        self.state = State::Sweeping(sweep);
        step
    }

    fn conclude(&mut self, sweep: Sweep, seen: &Observation<'_>, now: Moment) -> Step {
        match sweep.conclude() {
            // A visit whose outcome was never recorded: what it left is found by going over everything again.
            Conclusion::Open(sweep) => {
                self.state = State::Sweeping(sweep.into_retry());
                Step::Hold(Finding::new(Reason::Sweeping, "the sweep starts over"), Some(now.uptime))
            }
            Conclusion::Unconfirmed(sweep) => {
                self.state = State::Unconfirmed(sweep);
                Step::Inspect
            }
            Conclusion::Complete(complete) if seen.spec.stored_versions == StoredVersions::Keep => {
                let finding = report::migrated_not_trimmed(&complete);
                self.finish(complete, &finding, seen, now);
                Step::Hold(finding, None)
            }
            Conclusion::Complete(complete) => {
                self.state = State::Trimming(complete);
                Step::Trim
            }
            Conclusion::Refused(sweep) => {
                let wait = (RETRY_REFUSED.0 * (1 << self.retries.min(6))).min(RETRY_REFUSED.1);
                self.retries = self.retries.saturating_add(1);
                let retry_at = now.uptime + wait;
                let finding = report::refused(&sweep);
                let crd_generation = seen.crd.map_or(0, |r| r.crd().generation);
                self.state = State::Refused { sweep, retry_at, generation: seen.generation, crd_generation };
                Step::Hold(finding, Some(retry_at))
            }
        }
    }

    /// Keeps `state`, and does `step` unless the target is to be left alone.
    fn resting(&mut self, state: State, step: Step, now: Moment) -> Step {
        self.state = state;
        match self.health.held(now.uptime) {
            Some((wait, said)) => Step::Hold(report::backing_off(wait, said), Some(now.uptime + wait)),
            None => step,
        }
    }

    /// What the status says of a migration that is done, if it still is.
    fn still_done(&self, seen: &Observation<'_>) -> Option<Finding> {
        let (State::Idle, Some(record)) = (&self.state, seen.crd) else { return None };
        let finding = report::finding_of(&self.status).filter(|f| report::is_done(f.reason))?;
        let crd = record.crd();
        let done = match (seen.spec.mode, seen.spec.stored_versions) {
            (Mode::Always, _) => self.status.observed_generation == Some(seen.generation),
            (Mode::IfStale, StoredVersions::Trim) => crd.is_trimmed(),
            (Mode::IfStale, StoredVersions::Keep) => {
                finding.reason == Reason::MigratedNotTrimmed || crd.is_trimmed()
            }
        };
        (self.is_for(crd) && done).then_some(finding)
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
    fn undone_until(&self, seen: &Observation<'_>, now: Moment) -> Option<Duration> {
        let State::Idle = self.state else { return None };
        let until = self.finished_at? + UNDONE_WAIT;
        let undone = seen.spec.mode == Mode::IfStale && self.is_for(seen.crd?.crd());
        (undone && now.uptime < until).then_some(until)
    }

    fn done(&self, spec: &StorageMigrationSpec, finding: Finding, now: Moment) -> Step {
        let lives_for = spec.ttl_seconds_after_finished.map(SignedDuration::from_secs);
        let completed = self.status.completion_time.as_ref().map(|t| t.0);
        let (Some(lives_for), Some(completed)) = (lives_for, completed) else {
            return Step::Hold(finding, None);
        };
        match Duration::try_from(lives_for - now.wall.duration_since(completed)) {
            Ok(left) if !left.is_zero() => Step::Hold(finding, Some(now.uptime + left)),
            Ok(_) | Err(_) => Step::Expire,
        }
    }

    fn expired(&self, seen: &Observation<'_>, now: Moment) -> Option<Finding> {
        let same_generation = self.status.observed_generation == Some(seen.generation);
        let said = report::finding_of(&self.status).filter(|f| f.reason == Reason::DeadlineExceeded);
        if said.is_some() {
            return said.filter(|_| same_generation);
        }
        let limit = SignedDuration::from_secs(seen.spec.active_deadline_seconds?);
        let started: Timestamp = self.swept().and(self.status.start_time.as_ref())?.0;
        (now.wall.duration_since(started) > limit).then(|| report::deadline_exceeded(limit))
    }

    fn abandon(&mut self) {
        self.state = State::Idle;
        self.retries = 0;
    }
}

impl Pause {
    fn is_over(&self, seen: &Observation<'_>, now: Moment) -> bool {
        let crd_resource_version = seen.crd.map(|r| r.crd().resource_version.as_str());
        now.uptime >= self.until
            || self.generation != seen.generation
            || self.crd_resource_version.as_deref() != crd_resource_version
    }
}
