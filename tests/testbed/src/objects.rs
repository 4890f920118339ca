//! Objects of the fixtures: made in numbers, changed, deleted, and compared before and after.
//!
//! Everything goes through the API with ordinary requests; what etcd holds is looked at in [`crate::etcd`].

mod batch;
pub mod content;
mod hot;
mod retry;
mod snapshot;

use crate::crd::Kind;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, Error as KubeError, core::DynamicObject};
use retry::answered;
use serde_json::{Value, json};
use std::fmt;

pub use batch::{Batch, create};
pub use hot::Hot;
pub use snapshot::{Snapshot, snapshot};

/// Who makes the objects, in `managedFields`.
pub const CREATOR: &str = "creator";
/// Who owns a label and a field of `hard` objects, in `managedFields`.
pub const CO_OWNER: &str = "co-owner";

/// Which object of a kind is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// None for objects of a cluster-scoped kind.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
}

impl Key {
    fn api(&self, client: &Client, kind: &Kind, version: &str) -> Api<DynamicObject> {
        kind.api(client, version, self.namespace.as_deref())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

/// A request about an object that was not answered as hoped.
#[derive(Debug, thiserror::Error)]
#[error("{verb} {what}")]
pub struct Error {
    verb: &'static str,
    what: String,
    source: Box<KubeError>,
}

impl Error {
    fn new(verb: &'static str, what: impl fmt::Display, source: KubeError) -> Self {
        Self { verb, what: what.to_string(), source: source.into() }
    }

    /// What the server said, if it was the server.
    #[must_use]
    pub fn status(&self) -> Option<&kube::core::Status> {
        let KubeError::Api(status) = &*self.source else { return None };
        Some(status)
    }
}

/// Writes an object without changing it, so that the server encodes it anew.
///
/// # Errors
/// If the server refuses.
pub async fn touch(client: &Client, kind: &Kind, version: &str, key: &Key) -> Result<(), Error> {
    patch(client, kind, version, key, &json!({})).await
}

/// Sends a JSON merge patch.
///
/// # Errors
/// If the server refuses.
pub async fn patch(
    client: &Client,
    kind: &Kind,
    version: &str,
    key: &Key,
    change: &Value,
) -> Result<(), Error> {
    let params = PatchParams { field_manager: Some(CREATOR.to_owned()), ..PatchParams::default() };
    let (api, change) = (key.api(client, kind, version), Patch::Merge(change));
    let answer = answered(|| api.patch_metadata(&key.name, &params, &change)).await;
    answer.map(drop).map_err(|source| Error::new("patch", key, source))
}

/// Deletes an object; one that is gone already is fine.
///
/// # Errors
/// If the server refuses.
pub async fn delete(client: &Client, kind: &Kind, version: &str, key: &Key) -> Result<(), Error> {
    let (api, params) = (key.api(client, kind, version), DeleteParams::default());
    match answered(|| api.delete(&key.name, &params)).await {
        Ok(_) => Ok(()),
        Err(KubeError::Api(status)) if status.code == 404 => Ok(()),
        Err(source) => Err(Error::new("delete", key, source)),
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn keys_read_as_people_write_them() {
        let key = |namespace: Option<&str>| Key {
            namespace: namespace.map(str::to_owned),
            name: "w000".to_owned(),
        };
        assert_eq!(key(Some("blue")).to_string(), "blue/w000");
        assert_eq!(key(None).to_string(), "w000");
    }
}
