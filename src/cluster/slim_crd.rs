//! A CustomResourceDefinition without its schemas: what is read of one, live and by watch.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::Resource as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;

use super::FIELD_MANAGER;
use crate::plan::{Crd, CrdVersion};

/// A CustomResourceDefinition as the server sends it, less what restow has no use for.
#[derive(Clone, Debug, Deserialize)]
pub struct SlimCrd {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    versions: Vec<Version>,
    conversion: Value,
}

#[derive(Clone, Debug, Deserialize)]
struct Version {
    name: String,
    #[serde(default)]
    served: bool,
    #[serde(default)]
    storage: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    // The server answers null for lists that are empty.
    stored_versions: Option<Vec<String>>,
    conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl From<SlimCrd> for Crd {
    fn from(slim: SlimCrd) -> Self {
        let SlimCrd { metadata, spec, status } = slim;
        let conditions = status.conditions.unwrap_or_default();
        let holds = |type_: &str| conditions.iter().any(|c| c.type_ == type_ && c.status == "True");
        Self {
            established: holds("Established"),
            migrating: holds("StorageMigrating"),
            terminating: metadata.deletion_timestamp.is_some(),
            spec_changed_at: spec_changed_at(&metadata),
            stored_versions_owners: stored_versions_owners(&metadata),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            versions: spec
                .versions
                .into_iter()
                .map(|Version { name, served, storage }| CrdVersion { name, served, storage })
                .collect(),
            conversion: without_ca_bundle(spec.conversion),
            stored_versions: status.stored_versions.unwrap_or_default(),
        }
    }
}

/// The newest change that was not one of a subresource.
fn spec_changed_at(metadata: &ObjectMeta) -> Option<Timestamp> {
    let entries = metadata.managed_fields.as_deref().unwrap_or_default();
    let of_spec = |e: &&ManagedFieldsEntry| e.subresource.as_deref().unwrap_or_default().is_empty();
    entries.iter().filter(of_spec).filter_map(|e| e.time.as_ref()).map(|t| t.0).max()
}

fn stored_versions_owners(metadata: &ObjectMeta) -> Vec<String> {
    let owns = |entry: &&ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|f| f.0.pointer("/f:status/f:storedVersions").is_some())
    };
    let entries = metadata.managed_fields.iter().flatten().filter(owns);
    entries.filter_map(|entry| entry.manager.clone()).filter(|manager| manager != FIELD_MANAGER).collect()
}

fn without_ca_bundle(mut conversion: Value) -> String {
    if let Some(client) = conversion.pointer_mut("/webhook/clientConfig").and_then(Value::as_object_mut) {
        client.remove("caBundle");
    }
    conversion.to_string()
}

impl SlimCrd {
    /// The name, `<plural>.<group>`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
}

impl Resource for SlimCrd {
    type DynamicType = ();
    type Scope = k8s_openapi::ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        CustomResourceDefinition::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        CustomResourceDefinition::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        CustomResourceDefinition::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        CustomResourceDefinition::URL_PATH_SEGMENT.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
