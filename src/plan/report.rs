//! The status and its sentences: a function from what is known to what users read. It is compared whole before it is sent.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::{
    Checkpoint, Conditions, Reason, RefusedObject, State, StorageMigrationSpec, StorageMigrationStatus,
    TargetStatus,
};

use super::{CompleteSweep, Finding, Observation, Sweep, Tally, Target};

/// What a status shows of the sweep that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Swept<'a> {
    target: &'a Target,
    tally: &'a Tally,
    refusals: &'a [RefusedObject],
    checkpoint: &'a Checkpoint,
}

impl<'a> From<&'a Sweep> for Swept<'a> {
    fn from(sweep: &'a Sweep) -> Self {
        Self {
            target: sweep.target(),
            tally: sweep.tally(),
            refusals: sweep.refusals().listed(),
            checkpoint: sweep.checkpoint(),
        }
    }
}

impl<'a> From<&'a CompleteSweep> for Swept<'a> {
    fn from(complete: &'a CompleteSweep) -> Self {
        Self {
            target: complete.target(),
            tally: complete.tally(),
            refusals: &[],
            checkpoint: complete.checkpoint(),
        }
    }
}

/// The status that says `finding`, made from the one before.
pub(super) fn status(
    before: &StorageMigrationStatus,
    swept: Option<Swept<'_>>,
    seen: &Observation<'_>,
    finding: &Finding,
    now: Timestamp,
) -> StorageMigrationStatus {
    let now = as_stored(now);
    let mut status = before.clone();
    status.observed_generation = Some(seen.generation);
    status.conditions =
        Conditions::build(&before.conditions, finding.reason, &finding.message, seen.generation, now);
    match swept {
        Some(swept) => show_sweep(&mut status, swept, seen),
        None => show_idle(&mut status, seen, finding.reason),
    }
    match finding.reason.state() {
        State::Done => {
            status.checkpoint = None;
            status.completion_time.get_or_insert(Time(now));
        }
        State::Working | State::Stalled => status.completion_time = None,
    }
    // While it is stalled the duration stands still: the status is not written anew just to count.
    if finding.reason.state() != State::Stalled {
        let until = status.completion_time.as_ref().map_or(now, |t| t.0);
        status.duration = status.start_time.as_ref().map(|start| lasted(until.duration_since(start.0)));
    }
    status
}

/// The status at the start of a run: what an earlier one left is gone, unless this one takes it up.
pub(super) fn started(
    before: &StorageMigrationStatus,
    resumed: bool,
    now: Timestamp,
) -> StorageMigrationStatus {
    let mut status = before.clone();
    let gave_up = finding_of(before).is_some_and(|f| f.reason == Reason::DeadlineExceeded);
    if !resumed || gave_up || status.start_time.is_none() {
        status.start_time = Some(Time(as_stored(now)));
    }
    if !resumed {
        status.target = None;
        status.progress = None;
        status.refusals = Vec::new();
        status.checkpoint = None;
    }
    status.completion_time = None;
    status
}

fn show_sweep(status: &mut StorageMigrationStatus, swept: Swept<'_>, seen: &Observation<'_>) {
    let Swept { target, tally, refusals, checkpoint } = swept;
    let accepted = target.accepted();
    let before =
        status.target.take().filter(|t| t.crd_uid == accepted.uid && t.storage_version == target.version());
    status.target = Some(TargetStatus {
        storage_version: target.version().to_owned(),
        crd_uid: accepted.uid.clone(),
        stored_versions_before: before
            .map_or_else(|| accepted.stored_versions.clone(), |t| t.stored_versions_before),
        stored_versions_after: seen
            .crd
            .map_or_else(|| accepted.stored_versions.clone(), |r| r.crd().stored_versions.clone()),
    });
    status.progress = Some(tally.progress());
    status.refusals = refusals.to_vec();
    status.checkpoint = Some(checkpoint.clone());
}

fn show_idle(status: &mut StorageMigrationStatus, seen: &Observation<'_>, reason: Reason) {
    match reason {
        Reason::TargetNotFound | Reason::TargetTerminating => {
            status.target = None;
            status.progress = None;
            status.refusals = Vec::new();
            status.checkpoint = None;
        }
        Reason::NothingToMigrate => {
            let crd = seen.crd.map(super::CrdRecord::crd);
            status.target = crd.and_then(|crd| {
                Some(TargetStatus {
                    storage_version: crd.storage_version()?.name.clone(),
                    crd_uid: crd.uid.clone(),
                    stored_versions_before: crd.stored_versions.clone(),
                    stored_versions_after: crd.stored_versions.clone(),
                })
            });
        }
        Reason::Migrated
        | Reason::MigratedNotTrimmed
        | Reason::Waiting
        | Reason::Settling
        | Reason::Sweeping
        | Reason::Confirming
        | Reason::Trimming
        | Reason::BackingOff
        | Reason::WaitingForAPIServer
        | Reason::Suspended
        | Reason::StorageVersionNotServed
        | Reason::AccessDenied
        | Reason::ObjectsRefused
        | Reason::AnotherMigrator
        | Reason::ConversionChanged
        | Reason::DeadlineExceeded
        | Reason::InvalidSpec => {}
    }
}

/// What a status says, if restow wrote it.
pub(super) fn finding_of(status: &StorageMigrationStatus) -> Option<Finding> {
    let reason = Conditions::reason(&status.conditions)?;
    let message = status.conditions.first().map(|c| c.message.clone()).unwrap_or_default();
    Some(Finding { reason, message })
}

pub(super) fn is_done(reason: Reason) -> bool {
    reason.state() == State::Done
}

pub(super) fn sweeping(sweep: &Sweep) -> Finding {
    let progress = sweep.tally().progress();
    if sweep.is_confirm() {
        let (confirmed, again) = sweep.tally().confirmed();
        let message = format!(
            "looked at {confirmed} of {} objects once more, {again} of them visited again",
            progress.total.max(confirmed)
        );
        return Finding::new(Reason::Confirming, message);
    }
    let message = format!(
        "visited {} of {} objects: {} rewritten, {} unchanged, {} gone, {} refused",
        progress.visited,
        progress.total,
        progress.rewritten,
        progress.unchanged,
        progress.gone,
        progress.refused
    );
    Finding::new(Reason::Sweeping, message)
}

pub(super) fn settling(target: &Target, left: Duration) -> Finding {
    let message = format!(
        "the storage version of {} moved to {} a moment ago; waiting {} more until no API server writes the old one",
        target.resource(),
        target.version(),
        lasted_up(left)
    );
    Finding::new(Reason::Settling, message)
}

pub(super) fn backing_off(wait: Duration, said: &str) -> Finding {
    Finding::new(Reason::BackingOff, format!("trying again in {}: {said}", lasted_up(wait)))
}

pub(super) fn refused(sweep: &Sweep) -> Finding {
    let total = sweep.refusals().total();
    let first = sweep.refusals().listed().first().map(|r| {
        let place = r.namespace.as_ref().map(|n| format!("{n}/")).unwrap_or_default();
        format!("; the first is {place}{}: {} {}", r.name, r.code, r.message)
    });
    let message = format!(
        "{total} {} refused; all others are migrated and storedVersions is left as it was{}",
        if total == 1 { "object was" } else { "objects were" },
        first.unwrap_or_default()
    );
    Finding::new(Reason::ObjectsRefused, message)
}

pub(super) fn trimming(complete: &CompleteSweep) -> Finding {
    let message = format!(
        "setting storedVersions of {} to [{}]",
        complete.target().resource(),
        complete.target().version()
    );
    Finding::new(Reason::Trimming, message)
}

pub(super) fn migrated(complete: &CompleteSweep) -> Finding {
    let message =
        format!("{}; storedVersions is [{}] now", all_stored(complete), complete.target().version());
    Finding::new(Reason::Migrated, message)
}

pub(super) fn migrated_not_trimmed(complete: &CompleteSweep) -> Finding {
    let message = format!("{}; storedVersions is left as it was, as asked", all_stored(complete));
    Finding::new(Reason::MigratedNotTrimmed, message)
}

pub(super) fn conversion_changed(spec: &StorageMigrationSpec) -> Finding {
    let message = format!(
        "the conversion of {} changed during the run, so writing objects could corrupt them: restore it, or change this StorageMigration's spec to accept it",
        spec.resource
    );
    Finding::new(Reason::ConversionChanged, message)
}

pub(super) fn undone(spec: &StorageMigrationSpec) -> Finding {
    let message = format!(
        "somebody put an old version back into storedVersions of {} just after it was trimmed: it is migrated again in a minute; find out who writes it",
        spec.resource
    );
    Finding::new(Reason::Waiting, message)
}

pub(super) fn rival(spec: &StorageMigrationSpec, rival: &str) -> Finding {
    let message = format!(
        "the older StorageMigration {rival} is in charge of {}: delete one of the two",
        spec.resource
    );
    Finding::new(Reason::AnotherMigrator, message)
}

pub(super) fn waiting_for_servers(names: &[&str]) -> Finding {
    let message = format!(
        "not heard of since the storage version moved, or silent now: API server {}",
        names.join(", ")
    );
    Finding::new(Reason::WaitingForAPIServer, message)
}

pub(super) fn deadline_exceeded(limit: SignedDuration) -> Finding {
    let message = format!("not done within activeDeadlineSeconds ({limit:#}): change the spec to try again");
    Finding::new(Reason::DeadlineExceeded, message)
}

fn all_stored(complete: &CompleteSweep) -> String {
    let progress = complete.tally().progress();
    format!(
        "all objects are stored in {}: {} rewritten, {} unchanged, {} gone",
        complete.target().version(),
        progress.rewritten,
        progress.unchanged,
        progress.gone
    )
}

/// A time as the API keeps it, in whole seconds: read back after a restart, it gives the same status.
fn as_stored(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

fn lasted(duration: SignedDuration) -> String {
    format!("{:#}", SignedDuration::from_secs(duration.as_secs().max(0)))
}

/// A wait in whole seconds, rounded up.
fn lasted_up(wait: Duration) -> String {
    let secs = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    format!("{:#}", SignedDuration::from_secs(i64::try_from(secs).unwrap_or(i64::MAX)))
}
