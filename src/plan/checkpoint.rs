//! Where a run goes on after a restart: made here, and checked here before it is used.

use crate::api::{Checkpoint, CheckpointPhase};

use super::{Crd, Tally, Target};

/// A checkpoint at the start of a first sweep.
pub(super) fn fresh(target: &Target) -> Checkpoint {
    at(target, CheckpointPhase::Sweeping, target.accepted().generation, None, &Tally::default(), 0)
}

/// A checkpoint at the page that `token` stands for.
pub(super) fn at(
    target: &Target,
    phase: CheckpointPhase,
    crd_generation: i64,
    token: Option<String>,
    tally: &Tally,
    refused: u64,
) -> Checkpoint {
    let progress = tally.progress();
    Checkpoint {
        crd_uid: target.accepted().uid.clone(),
        storage_version: target.version().to_owned(),
        crd_generation,
        conversion: target.accepted().conversion.clone(),
        phase,
        continue_token: token,
        rewritten: progress.rewritten,
        unchanged: progress.unchanged,
        gone: progress.gone,
        refused,
        api_servers_heard: false,
        seal: None,
    }
}

/// Whether a checkpoint belongs to the target as it is now.
///
/// Whoever may write the status can forge one. A forged one of a first sweep skips visits that the confirm then makes; one
/// of a confirm counts only with a seal.
pub(super) fn fits(checkpoint: &Checkpoint, target: &Target) -> bool {
    checkpoint.crd_uid == target.accepted().uid
        && checkpoint.storage_version == target.version()
        && checkpoint.conversion == target.accepted().conversion
}

/// Whether the conversion is another one than at the checkpoint, for the same CRD and the same storage version.
pub(super) fn conversion_changed(checkpoint: &Checkpoint, crd: &Crd) -> bool {
    checkpoint.crd_uid == crd.uid
        && crd.storage_version().is_some_and(|v| v.name == checkpoint.storage_version)
        && checkpoint.conversion != crd.conversion
}
