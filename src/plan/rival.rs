//! Which of several StorageMigrations for one resource is in charge of it: the oldest that is not done with it.

#[cfg(test)]
mod tests;

use jiff::Timestamp;

use crate::api::{Conditions, Reason, State, StorageMigration};

use super::Crd;

/// The name of the StorageMigration that is in charge before `own` is, among all that there are for the same resource.
#[must_use]
pub fn rival<'a>(
    own: &StorageMigration,
    all: impl IntoIterator<Item = &'a StorageMigration>,
    crd: Option<&Crd>,
) -> Option<&'a str> {
    all.into_iter()
        .filter(|other| other.spec.resource == own.spec.resource && seniority(other) < seniority(own))
        .filter(|other| !is_done_with(other, crd))
        .min_by(|a, b| seniority(a).cmp(&seniority(b)))
        .and_then(|other| other.metadata.name.as_deref())
}

fn seniority(migration: &StorageMigration) -> (Option<Timestamp>, Option<&str>) {
    let metadata = &migration.metadata;
    (metadata.creation_timestamp.as_ref().map(|t| t.0), metadata.uid.as_deref())
}

/// Whether it has nothing left to do while the CRD stays as it is.
fn is_done_with(migration: &StorageMigration, crd: Option<&Crd>) -> bool {
    let (Some(status), Some(crd)) = (&migration.status, crd) else { return false };
    let Some(reason) = Conditions::reason(&status.conditions) else { return false };
    let same_generation = status.observed_generation == migration.metadata.generation;
    let same_target = status.target.as_ref().is_some_and(|target| {
        target.crd_uid == crd.uid && crd.storage_version().is_some_and(|v| v.name == target.storage_version)
    });
    match reason.state() {
        State::Done => same_generation && same_target,
        State::Stalled => same_generation && reason == Reason::DeadlineExceeded,
        State::Working => false,
    }
}
