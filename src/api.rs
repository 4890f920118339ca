//! The kind `StorageMigration` and its vocabulary, as users meet them.
//!
//! Here live the types that are stored in the cluster and the names that conditions, events and metrics share. Their doc
//! comments ship as the descriptions of the CRD, so they speak to users; notes for implementers are plain comments.
//! Nothing in here talks to a cluster or decides anything.

mod condition;
mod definition;
mod grant;
#[expect(unreachable_pub, reason = "`KubeSchema` repeats the struct it is derived for, with its `pub`")]
#[expect(clippy::duplicated_attributes, reason = "each printer column has a type")]
mod migration;
mod reason;
mod status;

pub use condition::{ConditionType, Conditions};
pub use definition::{DefinitionError, definition, definition_yaml};
pub use grant::{GrantError, grants_yaml};
pub use migration::{
    IGNORE_SERVER_ANNOTATION, Mode, PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, Pace, RETRY_ANNOTATION,
    StorageMigration, StorageMigrationSpec, StoredVersions, TargetResource,
};
pub use reason::{Reason, State};
pub use status::{
    Checkpoint, CheckpointPhase, Progress, REFUSALS_LISTED_MAX, RefusedObject, StorageMigrationStatus,
    TargetStatus,
};
