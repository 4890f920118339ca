//! One run of a migration, from accepting the CRD to the trim: [`Run::decide`] says what is to be done next.
//!
//! What came of it is told in `run::results`; the status that users read is made in `report`. Nothing here waits, sends or
//! reads a clock: the same observation at the same moment gives the same step.

mod finished;
mod refused;
mod results;
#[cfg(test)]
mod tests;

use std::time::Duration;

use self::refused::{Access, Given};
use self::results::Pause;
use crate::api::{Checkpoint, Mode, Reason, StorageMigrationSpec, StorageMigrationStatus};

use super::target::judge_crd;
use super::{
    CompleteSweep, Conclusion, Crd, CrdRecord, Drift, Finding, Health, Moment, Observation, Seal,
    ServerWatch, Step, StoredBesides, Sweep, checkpoint, report, sentence,
};

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
    /// How often in a row a run was made only because somebody had undone the one before.
    repeats: u32,
    /// What the user asked for when the run was accepted.
    accepted: Option<Box<StorageMigrationSpec>>,
    /// What was seen of the API servers.
    servers: ServerWatch,
    /// Every API server was seen to have caught up with the CRD.
    servers_heard: bool,
    /// Why the API servers' Leases could not be read, so that settling alone counts.
    leases_unread: Option<String>,
    /// The API servers that were ignored, as asked.
    servers_ignored: Vec<String>,
    /// What goes on the checkpoints of this run.
    seal: Option<Seal>,
    /// What the sweep began under.
    given: Option<Given>,
    access: Access,
    status: StorageMigrationStatus,
}

#[derive(Debug)]
enum State {
    /// Nothing is accepted, or all is done.
    Idle,
    /// The CRD is accepted; no object has been visited in this process.
    Accepted(Sweep),
    Sweeping(Sweep),
    /// The first sweep left nothing open.
    Unconfirmed(Sweep),
    /// Objects were refused; they are tried again at that uptime, or when something changes that they may depend on.
    Refused {
        sweep: Sweep,
        retry_at: Duration,
    },
    Trimming(CompleteSweep),
}

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
            repeats: 0,
            accepted: None,
            servers: ServerWatch::default(),
            servers_heard: false,
            leases_unread: None,
            servers_ignored: Vec::new(),
            seal: None,
            given: None,
            access: Access::default(),
            status,
        }
    }

    /// The status as last reported.
    #[must_use]
    pub fn status(&self) -> &StorageMigrationStatus {
        &self.status
    }

    /// The sweep that is under way, for listing and visiting.
    pub fn sweep(&mut self) -> Option<(&mut Sweep, &mut Health)> {
        match &mut self.state {
            State::Sweeping(sweep) => Some((sweep, &mut self.health)),
            State::Idle
            | State::Accepted(_)
            | State::Unconfirmed(_)
            | State::Refused { .. }
            | State::Trimming(_) => None,
        }
    }

    /// In which versions objects may be stored, beside those that `storedVersions` names by now.
    #[must_use]
    pub fn stored_besides(&self, seen: &Observation<'_>) -> StoredBesides {
        let begun = self.has_begun(seen.crd.map(CrdRecord::crd));
        let before = self.status.target.as_ref().filter(|_| begun).map(|t| t.stored_versions_before.clone());
        match seen.spec.mode {
            // It is asked for where `storedVersions` is not to be believed.
            Mode::Always => StoredBesides::Any,
            Mode::IfStale => StoredBesides::In(before.unwrap_or_default()),
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
        if let Some(step) = self.undone(seen, now) {
            return step;
        }
        if let Some(step) = self.guard(seen) {
            return step;
        }
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => self.begin(seen, now),
            // Already while it settles, so that the API servers are seen to run meanwhile.
            State::Accepted(sweep) => self.resting(State::Accepted(sweep), Step::Inspect, seen, now),
            State::Sweeping(sweep) => self.sweep_on(sweep, seen, now),
            State::Unconfirmed(sweep) => self.resting(State::Unconfirmed(sweep), Step::Inspect, seen, now),
            State::Trimming(complete) => self.resting(State::Trimming(complete), Step::Trim, seen, now),
            State::Refused { sweep, retry_at } => self.refused(sweep, retry_at, seen, now),
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
        if let (Some(seal), Some(_)) = (&self.seal, self.swept()) {
            let api_servers_heard = self.servers_heard;
            let seal_it = |checkpoint| seal.put_on(Checkpoint { api_servers_heard, ..checkpoint });
            self.status.checkpoint = self.status.checkpoint.take().map(seal_it);
        }
        &self.status
    }

    /// Where the migration is, after a step.
    #[must_use]
    pub fn phase(&self, now: Moment) -> Finding {
        if let Some(pause) = &self.pause {
            return pause.finding.clone();
        }
        if let Some((wait, said)) = self.health.held(now.uptime) {
            return sentence::backing_off(wait, said);
        }
        match &self.state {
            State::Idle => {
                let said = report::finding_of(&self.status);
                said.unwrap_or_else(|| Finding::new(Reason::Waiting, "about to start"))
            }
            State::Accepted(sweep) | State::Sweeping(sweep) | State::Unconfirmed(sweep) => {
                self.with_note(sentence::sweeping(sweep))
            }
            State::Refused { sweep, .. } => sentence::refused(sweep),
            State::Trimming(complete) => sentence::trimming(complete),
        }
    }

    /// The finding, and what it rests on where that is less than usual.
    fn with_note(&self, finding: Finding) -> Finding {
        let finding = match &self.leases_unread {
            Some(why) => sentence::leases_unread(finding, why),
            None => finding,
        };
        sentence::servers_ignored(finding, &self.servers_ignored)
    }

    fn swept(&self) -> Option<report::Swept<'_>> {
        match &self.state {
            State::Idle => None,
            State::Accepted(sweep)
            | State::Sweeping(sweep)
            | State::Unconfirmed(sweep)
            | State::Refused { sweep, .. } => Some(sweep.into()),
            State::Trimming(complete) => Some(complete.into()),
        }
    }

    /// Stops what is under way where the CRD is no longer the one that was accepted.
    fn guard(&mut self, seen: &Observation<'_>) -> Option<Step> {
        let target = match &self.state {
            State::Idle => return None,
            State::Accepted(sweep)
            | State::Sweeping(sweep)
            | State::Unconfirmed(sweep)
            | State::Refused { sweep, .. } => sweep.target(),
            State::Trimming(complete) => complete.target(),
        };
        let drift = seen.crd.map_or(Drift::Moved, |record| target.drift(record));
        let target_migrating = target.accepted().migrating;
        let accepts_otherwise = target.accepts_field_loss() != seen.spec.accept_field_loss;
        let unwanted =
            accepts_otherwise || judge_crd(seen.spec, seen.crd.map(CrdRecord::crd), true).is_some();
        if drift == Drift::Conversion && self.status.observed_generation == Some(seen.generation) {
            return Some(Step::Hold(sentence::conversion_changed(seen.spec), None));
        }
        if drift != Drift::None {
            self.drifted();
            return None;
        }
        if unwanted {
            self.abandon();
            return None;
        }
        if self.wants_another(seen.spec) {
            self.abandon();
            self.status.checkpoint = None;
            return None;
        }
        if seen.crd.is_some_and(|record| record.crd().migrating) && !target_migrating {
            // The review tells whether another migrator is at work, or its condition was left over.
            self.abandon();
            return None;
        }
        let rival = seen.rival?;
        Some(Step::Hold(sentence::rival(seen.spec, rival), None))
    }

    /// Whether a full run is asked for that the present one, begun before, would not be. A break or another pace asks for
    /// none.
    fn wants_another(&self, spec: &StorageMigrationSpec) -> bool {
        let Some(accepted) = &self.accepted else { return false };
        let StorageMigrationSpec { suspend, pace, .. } = **accepted;
        spec.mode == Mode::Always && StorageMigrationSpec { suspend, pace, ..spec.clone() } != **accepted
    }

    fn begin(&mut self, seen: &Observation<'_>, now: Moment) -> Step {
        if self.status.observed_generation != Some(seen.generation) {
            self.accept_conversion(seen);
            if seen.spec.mode == Mode::Always {
                self.status.checkpoint = None;
            }
        }
        let crd = seen.crd.map(CrdRecord::crd);
        if let Some(finding) = judge_crd(seen.spec, crd, self.has_begun(crd)) {
            return Step::Hold(finding, None);
        }
        if let Some(rival) = seen.rival {
            return Step::Hold(sentence::rival(seen.spec, rival), None);
        }
        self.held(seen, now).unwrap_or(Step::Review)
    }

    /// Whether a run on this CRD has begun, in this process or before, and not come to its end.
    fn has_begun(&self, crd: Option<&Crd>) -> bool {
        let begun_on = self.status.checkpoint.as_ref().map(|checkpoint| checkpoint.crd_uid.as_str());
        begun_on.is_some() && begun_on == crd.map(|crd| crd.uid.as_str())
    }

    /// A new generation accepts a conversion that changed during the run: the run starts over, whatever comes in between.
    fn accept_conversion(&mut self, seen: &Observation<'_>) {
        if let Some(record) = seen.crd {
            self.status.checkpoint.take_if(|c| checkpoint::conversion_changed(c, record.crd()));
        }
    }

    fn sweep_on(&mut self, mut sweep: Sweep, seen: &Observation<'_>, now: Moment) -> Step {
        if let Some(hold) = self.held(seen, now) {
            self.state = State::Sweeping(sweep);
            return hold;
        }
        let step = if sweep.doubts_rights() {
            Step::AskRights
        } else if sweep.has_certain(now.uptime) && !sweep.seeks_witness() {
            Step::Visit
        } else if sweep.wanted_page().is_some() {
            Step::List(sweep.request(seen.limits.page_size(seen.spec)))
        } else if sweep.has_due(now.uptime) {
            Step::Visit
        } else if let Some(due) = sweep.next_due() {
            Step::Hold(sentence::sweeping(&sweep), Some(due))
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
            Conclusion::Complete(complete) => {
                self.state = State::Trimming(complete);
                Step::Trim
            }
            Conclusion::Refused(sweep) => {
                let retry_at = now.uptime + self.retry_wait();
                self.refused(sweep, retry_at, seen, now)
            }
        }
    }

    /// Keeps `state`, and does `step` unless the target is to be left alone.
    fn resting(&mut self, state: State, step: Step, seen: &Observation<'_>, now: Moment) -> Step {
        self.state = state;
        self.held(seen, now).unwrap_or(step)
    }

    /// The wait where the target, or the whole cluster, is to be left alone.
    fn held(&self, seen: &Observation<'_>, now: Moment) -> Option<Step> {
        let (finding, wait) = match (seen.outage, self.health.held(now.uptime)) {
            (Some((wait, said)), _) => (sentence::outage(wait, said), wait),
            (None, Some((wait, said))) => (sentence::backing_off(wait, said), wait),
            (None, None) => return None,
        };
        Some(Step::Hold(finding, Some(now.uptime + wait)))
    }

    /// The CRD is another one, or may have been for a while: what was seen of the servers is void.
    fn drifted(&mut self) {
        self.abandon();
        if let Some(checkpoint) = &mut self.status.checkpoint {
            checkpoint.api_servers_heard = false;
        }
    }

    fn abandon(&mut self) {
        self.state = State::Idle;
        self.servers_heard = false;
        self.retries = 0;
    }
}
