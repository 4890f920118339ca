//! Looks for what a rewrite would drop: the schemas of a CRD, and an object as two versions show it.
//!
//! This is the one place where bodies of objects are read. They are compared and dropped, and never sent back.

use kube::api::GetParams;
use kube::core::Request;
use serde::Deserialize;
use serde_json::Value;

use super::Cluster;
use crate::plan::{Failure, FieldRisks, Object, StoredBesides, Target, VersionSchema, lost_fields};

#[derive(Deserialize)]
struct Definition {
    spec: Spec,
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Spec {
    versions: Vec<Version>,
    conversion: Option<Conversion>,
}

#[derive(Deserialize)]
struct Version {
    name: String,
    #[serde(default)]
    storage: bool,
    schema: Option<Schema>,
}

#[derive(Deserialize)]
struct Schema {
    #[serde(rename = "openAPIV3Schema", default)]
    open_api: Value,
}

#[derive(Deserialize)]
struct Conversion {
    strategy: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    stored_versions: Option<Vec<String>>,
}

impl Cluster {
    /// What may become of fields when a CRD's objects, in the versions of `storedVersions` and `besides`, are stored in its
    /// storage version. Nothing where a webhook converts: it is trusted.
    ///
    /// # Errors
    /// If the server could not answer.
    ///
    /// # Access
    /// `get` on `customresourcedefinitions`.
    pub async fn field_risks(&self, crd_name: &str, besides: &StoredBesides) -> Result<FieldRisks, Failure> {
        let Some(definition) = self.definition::<Definition>(crd_name).await? else {
            return Ok(FieldRisks::default());
        };
        let Definition { spec, status } = definition.body;
        let storage = spec.versions.iter().find(|v| v.storage).map(|v| v.name.clone());
        let converts = spec.conversion.is_some_and(|c| c.strategy != "None");
        let stored = status.and_then(|s| s.stored_versions).unwrap_or_default();
        let Some(storage) = storage.filter(|_| !converts) else { return Ok(FieldRisks::default()) };
        let schemas: Vec<VersionSchema> = spec
            .versions
            .into_iter()
            .map(|v| VersionSchema { name: v.name, schema: v.schema.map(|s| s.open_api).unwrap_or_default() })
            .collect();
        Ok(FieldRisks::new(&schemas, &stored, besides, &storage))
    }

    /// Whether a visit would drop something of the object: then this is the refusal that is put in its place.
    ///
    /// # Errors
    /// If the server could not answer, or the object is gone.
    ///
    /// # Access
    /// `get` on the resource.
    pub(super) async fn loss(&self, target: &Target, object: &Object) -> Result<Option<Failure>, Failure> {
        let risks = target.field_risks();
        if risks.is_empty() {
            return Ok(None);
        }
        let after = self.read_in(target, object, target.version()).await?;
        let (paths, total) = risks.mistyped(&after);
        if total > 0 {
            return Ok(Some(mistyped(target, &paths, total)));
        }
        for version in &risks.dropped_from {
            if !target.other_versions().any(|served| served == version) {
                return Ok(Some(cant_compare(target, version)));
            }
            let before = self.read_in(target, object, version).await?;
            let (paths, total) = lost_fields(&before, &after);
            if total > 0 {
                return Ok(Some(would_lose(target, version, &paths, total)));
            }
        }
        Ok(None)
    }

    async fn read_in(&self, target: &Target, object: &Object, version: &str) -> Result<Value, Failure> {
        let path = Request::new(super::objects::url_path(target, version, object.namespace.as_deref()));
        Ok(self.call::<Value>(path.get(&object.name, &GetParams::default())).await?.body)
    }
}

fn cant_compare(target: &Target, version: &str) -> Failure {
    let message = format!(
        "{version} has fields that {} drops, and it isn't served, so whether the object has any can't be seen: serve {version}, or set spec.acceptFieldLoss",
        target.version()
    );
    Failure { reason: "FieldLoss".to_owned(), message, ..Failure::default() }
}

fn would_lose(target: &Target, version: &str, paths: &[String], total: usize) -> Failure {
    let message = format!(
        "storing it in {} would drop {}, which {version} has: move the values to fields of {}, or set spec.acceptFieldLoss",
        target.version(),
        listed(paths, total),
        target.version()
    );
    Failure { reason: "FieldLoss".to_owned(), message, ..Failure::default() }
}

fn mistyped(target: &Target, paths: &[String], total: usize) -> Failure {
    let message = format!(
        "{0} gives {1} another type, and nothing converts the value: restore the conversion webhook, repair the value, or set spec.acceptFieldLoss to store it in {0} as it is",
        target.version(),
        listed(paths, total)
    );
    Failure { reason: "FieldType".to_owned(), message, ..Failure::default() }
}

fn listed(paths: &[String], total: usize) -> String {
    let more = if total > paths.len() { format!(" and {} more", total - paths.len()) } else { String::new() };
    format!("{}{more}", paths.join(", "))
}
