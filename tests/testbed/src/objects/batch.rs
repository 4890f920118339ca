//! Many objects at once.

use super::retry::answered;
use super::{CO_OWNER, CREATOR, Error, Key, content};
use crate::crd::Kind;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, ObjectMeta};
use kube::{Api, Client, Error as KubeError};
use serde_json::{Value, json};

/// Requests on their way at a time: more makes a server on two cores no faster.
const IN_FLIGHT_MAX: usize = 32;

/// How many objects, where, and of what content.
#[derive(Clone, Debug)]
pub struct Batch {
    count: usize,
    namespaces: Vec<String>,
    prefix: String,
    content: fn(usize) -> Value,
    co_owned: bool,
}

impl Batch {
    /// `count` small objects w000, w001 … in namespace `default` (or none, for a cluster-scoped kind).
    #[must_use]
    pub fn plain(count: usize) -> Self {
        Self::of(count, content::plain)
    }

    /// `count` objects of [`content::hard`], each with two owners in `managedFields`.
    #[must_use]
    pub fn hard(count: usize) -> Self {
        Self { co_owned: true, ..Self::of(count, content::hard) }
    }

    /// `count` objects of the given content.
    #[must_use]
    pub fn of(count: usize, content: fn(usize) -> Value) -> Self {
        let namespaces = vec!["default".to_owned()];
        Self { count, namespaces, prefix: "w".to_owned(), content, co_owned: false }
    }

    /// Dealt out over these namespaces, in turn. Those that don't exist are created.
    ///
    /// None at all is the same as not calling this.
    #[must_use]
    pub fn across(mut self, namespaces: &[&str]) -> Self {
        if !namespaces.is_empty() {
            self.namespaces = namespaces.iter().map(|&name| name.to_owned()).collect();
        }
        self
    }

    /// Named `<prefix>000`, `<prefix>001` …
    #[must_use]
    pub fn named(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    fn key(&self, kind: &Kind, number: usize) -> Key {
        let namespace = &self.namespaces[number % self.namespaces.len()];
        Key {
            namespace: kind.namespaced.then(|| namespace.clone()),
            name: format!("{}{number:03}", self.prefix),
        }
    }
}

/// Creates a batch at a version, and says under which keys, in the order of their numbers.
///
/// # Errors
/// If one object is refused; others may have been created by then.
pub async fn create(client: &Client, kind: &Kind, version: &str, batch: &Batch) -> Result<Vec<Key>, Error> {
    if kind.namespaced {
        for namespace in &batch.namespaces {
            create_namespace(client, namespace).await?;
        }
    }
    stream::iter(0..batch.count)
        .map(|number| create_one(client, kind, version, batch, number))
        .buffered(IN_FLIGHT_MAX)
        .try_collect()
        .await
}

async fn create_one(
    client: &Client,
    kind: &Kind,
    version: &str,
    batch: &Batch,
    number: usize,
) -> Result<Key, Error> {
    let key = batch.key(kind, number);
    let api = key.api(client, kind, version);
    let params = PostParams { field_manager: Some(CREATOR.to_owned()), ..PostParams::default() };
    let object = object(kind, version, &key, (batch.content)(number))
        .map_err(|source| Error::new("create", &key, KubeError::SerdeError(source)))?;
    answered(|| api.create(&params, &object)).await.map_err(|source| Error::new("create", &key, source))?;
    if batch.co_owned {
        let theirs = json!({
            "apiVersion": kind.api_version(version),
            "kind": kind.kind,
            "metadata": { "labels": { "co-owned": "yes" } },
            "spec": { "raw": { "coOwned": [1, 2, 3] } },
        });
        api.patch_metadata(&key.name, &PatchParams::apply(CO_OWNER), &Patch::Apply(theirs))
            .await
            .map_err(|source| Error::new("apply", &key, source))?;
    }
    Ok(key)
}

fn object(
    kind: &Kind,
    version: &str,
    key: &Key,
    mut content: Value,
) -> Result<DynamicObject, serde_json::Error> {
    content["apiVersion"] = json!(kind.api_version(version));
    content["kind"] = json!(kind.kind);
    content["metadata"]["name"] = json!(key.name);
    serde_json::from_value(content)
}

async fn create_namespace(client: &Client, name: &str) -> Result<(), Error> {
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    match Api::all(client.clone()).create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        Err(KubeError::Api(status)) if status.code == 409 => Ok(()),
        Err(source) => Err(Error::new("create namespace", name, source)),
    }
}

#[cfg(test)]
mod tests {
    use super::Batch;
    use crate::crd::Fixture;

    #[test]
    fn objects_are_dealt_out_over_namespaces_under_names_of_their_own() {
        let batch = Batch::plain(4).across(&["blue", "red"]);
        let kind = Fixture::widgets("a.example.com").kind().clone();
        let keys: Vec<_> = (0..4).map(|number| batch.key(&kind, number).to_string()).collect();
        assert_eq!(keys, ["blue/w000", "red/w001", "blue/w002", "red/w003"]);
    }

    #[test]
    fn cluster_scoped_objects_have_no_namespace() {
        let kind = Fixture::gadgets("a.example.com").kind().clone();
        assert_eq!(Batch::plain(1).key(&kind, 0).to_string(), "w000");
    }
}
