//! The status and its sentences: a function from what is known to what users read. It is compared whole before it is sent.

#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::{
    Checkpoint, Conditions, Reason, RefusedObject, State, StorageMigrationStatus, TargetStatus,
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
    if swept.is_none() && gave_up(before) && finding.reason != Reason::DeadlineExceeded {
        // A new generation has its time anew, whatever it begins with.
        status.start_time = None;
    }
    match finding.reason.state() {
        State::Done => {
            status.checkpoint = None;
            status.completion_time.get_or_insert(Time(now));
            if let (Some(target), Some(record)) = (&mut status.target, seen.crd) {
                target.crd_generation = Some(record.crd().generation);
            }
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
    if !resumed || gave_up(before) || status.start_time.is_none() {
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
        crd_generation: None,
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
                    crd_generation: None,
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

fn gave_up(status: &StorageMigrationStatus) -> bool {
    finding_of(status).is_some_and(|f| f.reason == Reason::DeadlineExceeded)
}

pub(super) fn is_done(reason: Reason) -> bool {
    reason.state() == State::Done
}

/// A time as the API keeps it, in whole seconds: read back after a restart, it gives the same status.
fn as_stored(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

fn lasted(duration: SignedDuration) -> String {
    format!("{:#}", SignedDuration::from_secs(duration.as_secs().max(0)))
}
