//! What came of a step, and the state it leads to. Choosing the step is `decide`'s.

use std::time::Duration;

use super::{Run, State};
use crate::api::{Reason, StoredVersions};
use crate::plan::{
    ApiServers, CompleteSweep, CrdRecord, Drift, Failure, Finding, Listing, Look, Moment, Observation, Seal,
    Surroundings, Sweep, Trim, TrimVerdict, Verdict, checkpoint, judge, judge_trim, report, sentence,
};

/// How soon a denied right or another migrator is asked for again.
pub(super) const REVIEW_AGAIN: Duration = Duration::from_secs(30);

/// How soon a trim is tried again after somebody else wrote the CRD.
const TRIM_AGAIN: Duration = Duration::from_secs(1);

/// How often the wait until the CRD has settled is counted down, and silent API servers are looked at.
const INSPECT_AGAIN: Duration = Duration::from_secs(5);

/// Nothing is sent before that uptime, unless the StorageMigration or its CRD changes.
#[derive(Clone, Debug)]
pub(super) struct Pause {
    pub(super) finding: Finding,
    pub(super) until: Duration,
    generation: i64,
    crd_resource_version: Option<String>,
}

impl Run {
    /// The CRD was read live, and what stands around it was asked for.
    ///
    /// `seal` is that of the StorageMigration, if it has one.
    pub fn reviewed(
        &mut self,
        seen: &Observation<'_>,
        around: &Surroundings,
        seal: Option<Seal>,
        now: Moment,
    ) {
        self.health.succeeded();
        self.seal = seal;
        let crd = seen.crd.map(CrdRecord::crd);
        let target = match judge(seen.spec, crd, self.has_begun(crd), around) {
            Verdict::Accepted(target) => *target,
            Verdict::Declined(finding) => return self.pause(finding, REVIEW_AGAIN, seen, now),
        };
        let checkpoint = self.status.checkpoint.clone();
        let same_generation = self.status.observed_generation == Some(seen.generation);
        if let Some(crd) = crd.filter(|_| same_generation)
            && checkpoint.as_ref().is_some_and(|c| checkpoint::conversion_changed(c, crd))
        {
            return self.pause(sentence::conversion_changed(seen.spec), REVIEW_AGAIN, seen, now);
        }
        let fits = checkpoint.filter(|c| checkpoint::fits(c, &target));
        let resumed = fits.is_some();
        self.servers_heard = false;
        let sweep = match fits {
            Some(checkpoint) => {
                let is_sealed = self.seal.as_ref().is_some_and(|seal| seal.is_on(&checkpoint));
                // What was seen then holds for as long as the CRD stays as it was.
                let is_same = checkpoint.crd_generation == target.accepted().generation;
                self.servers_heard = is_sealed && is_same && checkpoint.api_servers_heard;
                Sweep::resume(target, &checkpoint, is_sealed, &self.status.refusals)
            }
            None => Sweep::first(target),
        };
        self.repeats = self.repeats_from(seen, now);
        self.status = report::started(&self.status, resumed, now.wall);
        self.retries = 0;
        self.begins_under(seen, &around.rights, now);
        self.accepted = Some(Box::new(seen.spec.clone()));
        self.state = State::Accepted(sweep);
    }

    /// A page was asked for.
    pub fn listed(&mut self, listing: Listing, seen: &Observation<'_>, now: Moment) {
        let Some((sweep, health)) = self.sweep() else { return };
        let held_for = match listing {
            Listing::Listed(page) => {
                // That it answers what stands in the way of a page doesn't show that it is well.
                if sweep.is_on_course() {
                    health.succeeded();
                }
                sweep.list(page)
            }
            // What fails there may be what fails the visits, so it shows nothing either.
            Listing::ListedElsewhere(page) => sweep.list(page),
            Listing::Expired(token) => sweep.list_expired(token),
            Listing::Denied(failure) => {
                let message = format!("restow may not list {}: {failure}", seen.spec.resource);
                return self.pause(Finding::new(Reason::AccessDenied, message), REVIEW_AGAIN, seen, now);
            }
            Listing::Unreadable(failure) | Listing::Deferred(failure) => sweep.list_failed(failure),
        };
        if let Some(failure) = held_for {
            health.request_failed(&failure, now.uptime);
        }
    }

    /// A request that a step needs failed for reasons of the server.
    pub fn request_failed(&mut self, failure: &Failure, seen: &Observation<'_>, now: Moment) {
        self.health.request_failed(failure, now.uptime);
        if let Some((wait, said)) = self.health.held(now.uptime) {
            self.pause(sentence::backing_off(wait, said), wait, seen, now);
        }
    }

    /// The CRD was read live, and the API servers' Leases too, before a sweep.
    ///
    /// A server that slept through the move of the flag answers a visit as it always did, and its answer looks like that of
    /// a server that found the object current. So all of them must have caught up before the first visit.
    pub fn inspected(&mut self, seen: &Observation<'_>, servers: &ApiServers, look: Look, now: Moment) {
        self.health.succeeded();
        let Some(record) = seen.crd else { return };
        if let State::Accepted(sweep) | State::Unconfirmed(sweep) = &self.state
            && sweep.target().drift(record) != Drift::None
        {
            // What was seen of the servers so far says nothing of this CRD. The guard is asked next.
            return;
        }
        let quiet_for = record.quiet_for(now);
        let servers = self.take_in(servers, seen);
        self.servers.look(&servers, look, seen.settle);
        if let State::Accepted(sweep) = &self.state
            && let Some(left) = seen.settle.checked_sub(quiet_for).filter(|left| !left.is_zero())
        {
            let finding = sentence::settling(sweep.target(), left);
            return self.pause(finding, left.min(INSPECT_AGAIN), seen, now);
        }
        let unheard = self.servers.unheard(&servers, quiet_for, seen.settle, now.uptime);
        if !self.servers_heard && !unheard.is_empty() {
            let wait = self.servers.look_again(seen.settle, now.uptime);
            let asleep = servers.asleep();
            let (silent, running): (Vec<_>, Vec<_>) = unheard.into_iter().partition(|s| asleep.contains(s));
            let finding = sentence::waiting_for_servers(&silent, &running, seen.settle);
            return self.pause(finding, wait, seen, now);
        }
        self.servers_heard = self.leases_unread.is_none() && self.servers_ignored.is_empty();
        self.state = match std::mem::replace(&mut self.state, State::Idle) {
            State::Accepted(sweep) => State::Sweeping(sweep),
            State::Unconfirmed(sweep) => State::Sweeping(sweep.into_confirm(record.crd().generation)),
            other @ (State::Idle | State::Sweeping(_) | State::Refused { .. } | State::Trimming(_)) => other,
        };
    }

    /// The servers that count, and a note of what is amiss with the Leases.
    fn take_in(&mut self, servers: &ApiServers, seen: &Observation<'_>) -> ApiServers {
        self.leases_unread = servers.why_unknown().map(str::to_owned);
        let (servers, ignored) = servers.without(seen.ignored_servers);
        self.servers_ignored = ignored.iter().map(ToString::to_string).collect();
        servers
    }

    /// Takes the proof, if there is one, to the guard: the CRD and the Leases were read live just now. Where `storedVersions`
    /// is to be left alone the run ends here, having passed the same guard.
    pub fn judge_trim(&mut self, seen: &Observation<'_>, servers: &ApiServers, now: Moment) -> Option<Trim> {
        let Some(record) = seen.crd else {
            self.drifted();
            return None;
        };
        let complete = match std::mem::replace(&mut self.state, State::Idle) {
            State::Trimming(complete) => complete,
            other @ (State::Idle
            | State::Accepted(_)
            | State::Sweeping(_)
            | State::Unconfirmed(_)
            | State::Refused { .. }) => {
                self.state = other;
                return None;
            }
        };
        let servers = self.take_in(servers, seen);
        match judge_trim(complete, record, &servers) {
            TrimVerdict::Trim(trim) if seen.spec.stored_versions == StoredVersions::Keep => {
                let complete = trim.give_back();
                let finding = self.with_note(sentence::migrated_not_trimmed(&complete));
                self.finish(complete, &finding, seen, now);
            }
            TrimVerdict::Trim(trim) => return Some(trim),
            TrimVerdict::Trimmed(complete) => {
                let stored = record.crd().stored_versions.clone();
                self.trimmed(complete, stored, seen, now);
            }
            TrimVerdict::Wait(complete, asleep) => {
                self.state = State::Trimming(complete);
                let silent: Vec<_> = asleep.iter().collect();
                let finding = sentence::waiting_for_servers(&silent, &[], seen.settle);
                self.pause(finding, INSPECT_AGAIN, seen, now);
            }
            TrimVerdict::Drifted => self.drifted(),
        }
        None
    }

    /// `storedVersions` names nothing but the storage version now.
    pub fn trimmed(
        &mut self,
        complete: CompleteSweep,
        stored: Vec<String>,
        seen: &Observation<'_>,
        now: Moment,
    ) {
        let finding = self.with_note(sentence::migrated(&complete));
        self.finish(complete, &finding, seen, now);
        if let Some(target) = &mut self.status.target {
            target.stored_versions_after = stored;
        }
    }

    /// Somebody wrote the CRD between the look at it and the trim: look and decide again.
    pub fn trim_conflicted(&mut self, trim: Trim, seen: &Observation<'_>, now: Moment) {
        let complete = trim.give_back();
        let finding = sentence::trimming(&complete);
        self.state = State::Trimming(complete);
        self.pause(finding, TRIM_AGAIN, seen, now);
    }

    /// The trim could not be made.
    pub fn trim_failed(&mut self, trim: Trim, failure: &Failure, seen: &Observation<'_>, now: Moment) {
        self.state = State::Trimming(trim.give_back());
        if failure.code == Some(403) {
            let message = format!("restow may not trim storedVersions: {failure}");
            self.pause(Finding::new(Reason::AccessDenied, message), REVIEW_AGAIN, seen, now);
        } else {
            self.request_failed(failure, seen, now);
        }
    }

    pub(super) fn finish(
        &mut self,
        complete: CompleteSweep,
        finding: &Finding,
        seen: &Observation<'_>,
        now: Moment,
    ) {
        self.state = State::Trimming(complete);
        self.report(seen, finding, now);
        self.state = State::Idle;
        self.retries = 0;
        self.finished_at = Some(now.uptime);
    }

    pub(super) fn pause(&mut self, finding: Finding, wait: Duration, seen: &Observation<'_>, now: Moment) {
        self.pause = Some(Pause {
            finding,
            until: now.uptime + wait,
            generation: seen.generation,
            crd_resource_version: seen.crd.map(|r| r.crd().resource_version.clone()),
        });
    }
}

impl Pause {
    pub(super) fn is_over(&self, seen: &Observation<'_>, now: Moment) -> bool {
        let crd_resource_version = seen.crd.map(|r| r.crd().resource_version.as_str());
        now.uptime >= self.until
            || self.generation != seen.generation
            || self.crd_resource_version.as_deref() != crd_resource_version
    }
}
