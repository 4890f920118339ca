//! What restow answers: the status of a `StorageMigration`. It is small and bounded whatever the number of objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many refused objects are listed. Their total is always exact.
// 10 objects with a message of at most 1,024 bytes each keep the status under 16 KiB.
pub const REFUSALS_LISTED_MAX: usize = 10;

/// What restow found and did.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageMigrationStatus {
    /// The generation of this object that the status speaks of; -1 until restow has seen it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Succeeded`, `Reconciling` and `Stalled`. Wait for `Succeeded`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// The CustomResourceDefinition as it was accepted for this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetStatus>,

    /// When the latest run started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,

    /// When the latest run succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,

    /// How long the latest run has taken, for example `3m 20s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,

    /// Counts of objects in the latest run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,

    /// Where to go on after a restart of the controller. Not for other readers: it may change with any release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,

    /// Objects that the API server refused to store, 10 at most; `progress.refused` has their number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub refusals: Vec<RefusedObject>,
}

/// The CustomResourceDefinition that was accepted for migration.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetStatus {
    /// Its storage version: what the objects are migrated to.
    pub storage_version: String,

    /// Its uid.
    #[serde(rename = "crdUID")]
    pub crd_uid: String,

    /// Once the run is done: its latest generation that is known to store objects as the run left them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crd_generation: Option<i64>,

    /// Its `status.storedVersions` when the run started.
    #[serde(default)]
    pub stored_versions_before: Vec<String>,

    /// Its `status.storedVersions` as restow last saw it.
    #[serde(default)]
    pub stored_versions_after: Vec<String>,
}

/// Counts of objects.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// All objects: an estimate by the server until the first sweep has ended.
    pub total: u64,
    /// Objects whose visit has an outcome.
    pub visited: u64,
    /// Objects that were stored anew.
    pub rewritten: u64,
    /// Objects that were stored in the storage version already.
    pub unchanged: u64,
    /// Objects that were deleted before their visit.
    pub gone: u64,
    /// Objects that the API server refused to store.
    pub refused: u64,
    /// Visited objects in percent of the total, 0 to 100.
    pub percent: u8,
    /// `visited/total percent%`, for the PROGRESS column.
    pub summary: String,
}

/// Where to go on after a restart.
// Untrusted input: it is used only when it fits the CRD as read live (`plan::checkpoint`).
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The uid of the CustomResourceDefinition it belongs to.
    #[serde(rename = "crdUID")]
    pub crd_uid: String,
    /// The storage version it belongs to.
    pub storage_version: String,
    /// The generation of the CustomResourceDefinition when this sweep started.
    pub crd_generation: i64,
    /// The conversion of the CustomResourceDefinition when the run started, without its CA bundle.
    pub conversion: String,
    /// The sweep it belongs to.
    pub phase: CheckpointPhase,
    /// The server's token for the next page of the list; absent at the start of a sweep.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
    /// Counts of objects up to this place.
    pub rewritten: u64,
    /// Counts of objects up to this place.
    pub unchanged: u64,
    /// Counts of objects up to this place.
    pub gone: u64,
    /// Counts of objects up to this place.
    pub refused: u64,
    /// Every API server was seen to have caught up with the CustomResourceDefinition.
    #[serde(default)]
    pub api_servers_heard: bool,
    /// Shows that restow made this checkpoint itself: one for the second sweep counts only with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<String>,
}

/// The sweep that a checkpoint belongs to.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointPhase {
    /// The first sweep.
    Sweeping,
    /// The second sweep.
    Confirming,
}

/// An object that the API server refused to store.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedObject {
    /// Its namespace; absent for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The HTTP status code of the refusal.
    pub code: u16,
    /// The reason that the server gave, for example `Invalid` or `Forbidden`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What the server said, cut at 1,024 bytes. It names the policy or the webhook, if one was at work.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// How often the object was tried.
    pub attempts: u32,
}
