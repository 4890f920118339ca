//! All objects of a kind as the API shows them, for a comparison of before and after.

use super::Error;
use super::retry::answered;
use crate::crd::Kind;
use kube::api::ListParams;
use kube::core::{DynamicObject, Request, Resource as _};
use kube::{Client, Error as KubeError};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Objects a page: large enough to be fast, small enough for a server to answer at once.
const PAGE_SIZE: u32 = 500;

/// The objects by `namespace/name` (`name` alone for a cluster-scoped kind), without their resourceVersion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot(BTreeMap<String, Value>);

impl Snapshot {
    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// The objects, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, object)| (key.as_str(), object))
    }

    /// Every difference to a later snapshot, a line each, as `default/w007 /spec/size: 7 became 8`.
    #[must_use]
    pub fn differences(&self, later: &Self) -> Vec<String> {
        let keys: BTreeSet<_> = self.0.keys().chain(later.0.keys()).collect();
        let mut found = Vec::new();
        for key in keys {
            compare(&format!("{key} "), self.0.get(key), later.0.get(key), &mut found);
        }
        found
    }

    fn insert(&mut self, mut object: Value) {
        let metadata = &mut object["metadata"];
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("resourceVersion");
        }
        let name = metadata["name"].as_str().unwrap_or_default();
        let key = match metadata["namespace"].as_str() {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        self.0.insert(key, object);
    }
}

/// Reads all objects of a kind at a version, number for number as the server wrote them.
///
/// # Errors
/// If a page can't be listed.
pub async fn snapshot(client: &Client, kind: &Kind, version: &str) -> Result<Snapshot, Error> {
    let path = Request::new(DynamicObject::url_path(&kind.resource(version), None));
    let mut snapshot = Snapshot::default();
    let mut params = ListParams::default().limit(PAGE_SIZE);
    loop {
        let page = answered(|| page(client, &path, &params))
            .await
            .map_err(|source| Error::new("list", kind.plural, source))?;
        let next = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if let Value::Array(items) = page["items"].clone() {
            for object in items {
                snapshot.insert(object);
            }
        }
        if next.is_empty() {
            return Ok(snapshot);
        }
        params = params.continue_token(&next);
    }
}

async fn page(client: &Client, path: &Request, params: &ListParams) -> Result<Value, KubeError> {
    client.request(path.list(params).map_err(KubeError::BuildRequest)?).await
}

fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<String>) {
    match (before, after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let fields: BTreeSet<_> = before.keys().chain(after.keys()).collect();
            for field in fields {
                compare(&format!("{path}/{field}"), before.get(field), after.get(field), found);
            }
        }
        (Some(before), Some(after)) if before == after => {}
        (Some(before), Some(after)) => found.push(format!("{path}: {before} became {after}")),
        (Some(before), None) => found.push(format!("{path}: {before} is gone")),
        (None, Some(after)) => found.push(format!("{path}: {after} is new")),
        (None, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::Snapshot;
    use serde_json::{Value, json};

    fn snapshot(objects: Vec<Value>) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for object in objects {
            snapshot.insert(object);
        }
        snapshot
    }

    fn widget(version: &str, spec: &Value) -> Value {
        json!({ "metadata": { "name": "a", "namespace": "n", "resourceVersion": version }, "spec": spec })
    }

    #[test]
    fn the_resource_version_is_no_difference() {
        assert_eq!(snapshot(vec![widget("1", &json!({}))]), snapshot(vec![widget("2", &json!({}))]));
    }

    #[test]
    fn differences_name_the_object_and_the_field() {
        let before = snapshot(vec![widget("1", &json!({ "same": [1], "n": null, "size": 7 }))]);
        let after = snapshot(vec![widget("1", &json!({ "same": [1], "size": 8, "x": {} }))]);
        assert_eq!(
            before.differences(&after),
            ["n/a /spec/n: null is gone", "n/a /spec/size: 7 became 8", "n/a /spec/x: {} is new"]
        );
        assert!(before.differences(&before).is_empty());
    }
}
