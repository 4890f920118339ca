//! What a user asks for: the spec of a `StorageMigration`. What restow answers lives in `status`.

use std::fmt;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StorageMigrationStatus;

/// Objects asked for with one list request where nobody says otherwise.
// 500 is what kubectl and client-go's pager ask for (k8s.io/client-go/tools/pager, `defaultPageSize`).
pub const PAGE_SIZE_DEFAULT: u32 = 500;

/// The most objects that may be asked for with one list request.
// Bounds what one page costs in memory: about 300 bytes an object are kept while a page is visited.
pub const PAGE_SIZE_MAX: u32 = 2000;

/// The annotation of a StorageMigration that asks for another try of its refused objects: each new value asks once.
pub const RETRY_ANNOTATION: &str = "restow.dev/retry";

/// The annotation of a StorageMigration that names API servers that are gone for good, by the names of their identity Leases,
/// separated by commas: they aren't waited for.
pub const IGNORE_SERVER_ANNOTATION: &str = "restow.dev/ignore-api-server";

/// What is to be migrated, when, and how fast.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "restow.dev",
    version = "v1alpha1",
    kind = "StorageMigration",
    plural = "storagemigrations",
    singular = "storagemigration",
    shortname = "smig",
    category = "restow",
    status = "StorageMigrationStatus",
    doc = "StorageMigration asks restow to store every object of one custom resource in the current storage version of its CustomResourceDefinition, to prove that all are, and then to drop the old versions from status.storedVersions. It is a standing order: when the storage version moves again, restow migrates again.",
    derive = "PartialEq",
    printcolumn(
        name = "Resource",
        json_path = ".spec.resource.resource",
        type_ = "string",
        description = "The resource whose stored objects are migrated"
    ),
    printcolumn(
        name = "Status",
        json_path = r#".status.conditions[?(@.type=="Succeeded")].reason"#,
        type_ = "string",
        description = "What restow is doing, how it ended, or why it can't go on"
    ),
    printcolumn(
        name = "Progress",
        json_path = ".status.progress.summary",
        type_ = "string",
        description = "Objects visited of all objects"
    ),
    printcolumn(
        name = "Refused",
        json_path = ".status.progress.refused",
        type_ = "integer",
        description = "Objects that the API server refused to store"
    ),
    printcolumn(name = "Age", json_path = ".metadata.creationTimestamp", type_ = "date"),
    printcolumn(
        name = "Version",
        json_path = ".status.target.storageVersion",
        type_ = "string",
        priority = 1,
        description = "The storage version that objects are migrated to"
    ),
    printcolumn(name = "Started", json_path = ".status.startTime", type_ = "date", priority = 1),
    printcolumn(
        name = "Duration",
        json_path = ".status.duration",
        type_ = "string",
        priority = 1,
        description = "How long the latest run has taken"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct StorageMigrationSpec {
    /// The custom resource whose objects are migrated. It can't be changed later: create another StorageMigration.
    #[x_kube(validation = Rule::new("self == oldSelf").message("resource is immutable: create another StorageMigration"))]
    pub resource: TargetResource,

    /// The version that the CustomResourceDefinition is expected to store. Until it does, nothing is written. This lets a
    /// StorageMigration and the CustomResourceDefinition that it waits for be applied together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub expected_storage_version: Option<String>,

    /// `IfStale` (the default) runs only while `status.storedVersions` names another version than the storage version.
    /// `Always` makes one full run for each generation of this object, whatever `storedVersions` says: for a rotated
    /// encryption key, or a `storedVersions` that somebody edited by hand.
    #[serde(default)]
    pub mode: Mode,

    /// Pauses the migration after the objects in flight. Set it back to false to go on from the same place.
    #[serde(default)]
    pub suspend: bool,

    /// `Trim` (the default) drops the old versions from `status.storedVersions` once every object is proved to be
    /// migrated. `Keep` leaves `storedVersions` alone.
    #[serde(default)]
    pub stored_versions: StoredVersions,

    /// Accepts that fields are lost for good. With conversion `None` the API server changes `apiVersion` alone and drops each
    /// field that the storage version's schema doesn't have. restow doesn't write an object that would lose something,
    /// names the fields in `refusals`, and leaves `storedVersions` as it is; with true it writes them all the same. So it does
    /// with a value that is not of the type that the storage version gives its field. There is no way back.
    #[serde(default)]
    pub accept_field_loss: bool,

    /// A pace slower than the controller's own limits. It may be changed while the migration runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,

    /// How many objects to ask for with one list request, 1 to 2000. Unset means what the controller's `--page-size` says,
    /// which is 500 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2000))]
    pub page_size: Option<u32>,

    /// How many seconds a run may take, from its start, before it is given up. Waiting and back-off count; time spent
    /// suspended does too. Unset means that there is no limit. A new generation of this object starts over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub active_deadline_seconds: Option<i64>,

    /// Deletes this object so many seconds after it succeeded, 60 or more. Unset keeps it. A StorageMigration that has not
    /// succeeded is always kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60))]
    pub ttl_seconds_after_finished: Option<i64>,
}

/// A resource by its API group and its plural name, as in `kubectl get <resource>.<group>`.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetResource {
    /// The API group, for example `example.com`. It has a dot: built-in groups, such as `apps`, have no custom resources.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$')").message("group is that of a custom resource, a domain in lower case with a dot, for example example.com; built-in resources are not migrated"))]
    pub group: String,

    /// The plural name in lower case, for example `crontabs`, without a subresource.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')").message("resource is the plural name alone in lower case, without group or subresource, for example crontabs"))]
    pub resource: String,
}

impl TargetResource {
    /// The name of the CustomResourceDefinition that defines this resource.
    #[must_use]
    pub fn crd_name(&self) -> String {
        format!("{}.{}", self.resource, self.group)
    }
}

impl fmt::Display for TargetResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.resource, self.group)
    }
}

/// When a migration runs.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Only while `status.storedVersions` names another version than the storage version.
    #[default]
    IfStale,
    /// Once for each generation of the StorageMigration, whatever `status.storedVersions` says.
    Always,
}

/// What becomes of `status.storedVersions` once every object is migrated.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredVersions {
    /// The old versions are dropped from it.
    #[default]
    Trim,
    /// It is left as it is.
    Keep,
}

/// A pace within the controller's own limits.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// The most writes a second, 1 to 10000. The controller's own limit holds as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub writes_per_second: Option<u32>,

    /// The most writes under way at once, 1 to 256. The controller's own limit holds as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 256))]
    pub max_in_flight: Option<u32>,
}

impl StorageMigrationSpec {
    /// A spec for `resource` in which everything else has its default.
    #[must_use]
    pub fn for_resource(resource: TargetResource) -> Self {
        Self {
            resource,
            expected_storage_version: None,
            mode: Mode::default(),
            suspend: false,
            stored_versions: StoredVersions::default(),
            accept_field_loss: false,
            pace: None,
            page_size: None,
            active_deadline_seconds: None,
            ttl_seconds_after_finished: None,
        }
    }
}
