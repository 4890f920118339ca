//! What a migration says of itself: one sentence for each thing that can be the matter, with what to do about it.

use std::time::Duration;

use jiff::SignedDuration;

use crate::api::{IGNORE_SERVER_ANNOTATION, RETRY_ANNOTATION, Reason, StorageMigrationSpec};

use super::{ApiServer, CompleteSweep, Finding, Sweep, Target};

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

pub(super) fn outage(wait: Duration, said: &str) -> Finding {
    let message =
        format!("no migration is getting on; one of them tries again in {}: {said}", lasted_up(wait));
    Finding::new(Reason::BackingOff, message)
}

pub(super) fn refused(sweep: &Sweep) -> Finding {
    let total = sweep.refusals().total();
    let first = sweep.refusals().listed().first().map(|r| {
        let place = r.namespace.as_ref().map(|n| format!("{n}/")).unwrap_or_default();
        format!("; the first is {place}{}: {} {}", r.name, r.code, r.message)
    });
    let message = format!(
        "{total} {} refused; all others that could be listed are migrated and storedVersions is left as it was; a new value of the annotation {RETRY_ANNOTATION} on the StorageMigration tries again at once{}",
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

pub(super) fn undone(spec: &StorageMigrationSpec, owners: &[String], wait: Duration) -> Finding {
    let (who, advice) = match owners {
        [] => ("somebody".to_owned(), "find out who writes it"),
        owners => (format!("field manager {}", owners.join(", ")), "stop it from writing the CRD's status"),
    };
    let message = format!(
        "{who} put an old version back into storedVersions of {} after it was trimmed: {advice}; it is migrated again {} after the trim, or when this StorageMigration's spec changes",
        spec.resource,
        lasted_up(wait)
    );
    Finding::new(Reason::Waiting, message)
}

pub(super) fn leases_unread(mut finding: Finding, why: &str) -> Finding {
    finding.message.push_str("; the API servers' Leases can't be read (");
    finding.message.push_str(why);
    finding.message.push_str("), so the time to settle alone was waited for");
    finding
}

pub(super) fn rival(spec: &StorageMigrationSpec, rival: &str) -> Finding {
    let message = format!(
        "the older StorageMigration {rival} is in charge of {}: delete one of the two",
        spec.resource
    );
    Finding::new(Reason::AnotherMigrator, message)
}

/// `silent` ones may be gone; those that are merely `unheard` of run, but not for long enough.
pub(super) fn waiting_for_servers(
    silent: &[&ApiServer],
    unheard: &[&ApiServer],
    settle: Duration,
) -> Finding {
    let mut message = String::new();
    if !silent.is_empty() {
        let identities: Vec<&str> = silent.iter().map(|server| server.identity.as_str()).collect();
        message = format!(
            "API server {} is silent and may write the old version when it wakes up: wake it, or, if it is gone for good, set the annotation {IGNORE_SERVER_ANNOTATION}={} (restow migrate: --ignore-api-server)",
            names(silent),
            identities.join(",")
        );
    }
    if !unheard.is_empty() {
        let start = if message.is_empty() { "" } else { "; " };
        let rest = format!(
            "{start}waiting until API server {} is seen to run for {} without a break, since it may write the old version until then",
            names(unheard),
            lasted_up(settle)
        );
        message.push_str(&rest);
    }
    Finding::new(Reason::WaitingForAPIServer, message)
}

fn names(servers: &[&ApiServer]) -> String {
    servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

pub(super) fn servers_ignored(mut finding: Finding, names: &[String]) -> Finding {
    if !names.is_empty() {
        finding.message.push_str("; ignored, as asked: API server ");
        finding.message.push_str(&names.join(", "));
    }
    finding
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

/// A wait in whole seconds, rounded up.
fn lasted_up(wait: Duration) -> String {
    let secs = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    format!("{:#}", SignedDuration::from_secs(i64::try_from(secs).unwrap_or(i64::MAX)))
}
