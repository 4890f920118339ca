//! Reads what in the metadata of objects names versions. Nothing is written here.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, ListMeta, ObjectMeta};
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use serde::Deserialize;

use super::Cluster;
use crate::plan::{Failure, LastingVersion, Manager, Mentions, Owner};

/// Objects asked for at once.
const PAGE_SIZE: u32 = 500;

#[derive(Deserialize)]
struct Definition {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    group: String,
    names: Names,
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Names {
    kind: String,
}

#[derive(Deserialize)]
struct Version {
    name: String,
    #[serde(default)]
    storage: bool,
}

#[derive(Deserialize)]
struct List {
    metadata: ListMeta,
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Item {
    metadata: ObjectMeta,
}

/// Some objects and what they mention.
#[derive(Clone, Debug)]
pub struct MentionsPage {
    /// Each object by `<namespace>/<name>`, or its name alone.
    pub objects: Vec<(String, Mentions)>,
    /// Where the list goes on.
    pub continue_token: Option<String>,
}

impl Cluster {
    /// The kind of a CRD, and the version that it stores. `Ok(None)` if there is none.
    ///
    /// # Errors
    /// If the server could not answer.
    ///
    /// # Access
    /// `get` on `customresourcedefinitions`.
    pub async fn lasting_version(&self, crd_name: &str) -> Result<Option<LastingVersion>, Failure> {
        let Some(definition) = self.definition::<Definition>(crd_name).await? else { return Ok(None) };
        let Spec { group, names, versions } = definition.body.spec;
        let stored = versions.into_iter().find(|v| v.storage);
        Ok(stored.map(|v| LastingVersion { group, kind: names.kind, version: v.name }))
    }

    /// The path of a resource at the version that its group prefers; the group of built-in core resources is empty.
    ///
    /// # Errors
    /// If the server could not answer, or has no such group.
    pub async fn collection(&self, group: &str, plural: &str) -> Result<String, Failure> {
        if group.is_empty() {
            return Ok(format!("/api/v1/{plural}"));
        }
        let found =
            self.call::<APIGroup>(Request::new("/apis").get(group, &GetParams::default())).await?.body;
        let version = found.preferred_version.or_else(|| found.versions.into_iter().next());
        match version {
            Some(version) => Ok(format!("/apis/{}/{plural}", version.group_version)),
            None => Err(Failure { message: format!("group {group} has no version"), ..Failure::default() }),
        }
    }

    /// One page of what the objects at a path mention. A list that expired goes on where it was.
    ///
    /// # Errors
    /// If the server could not answer.
    ///
    /// # Access
    /// `list` on the resource.
    pub async fn mentions(&self, path: &str, token: Option<String>) -> Result<MentionsPage, Failure> {
        let params = ListParams { limit: Some(PAGE_SIZE), continue_token: token, ..ListParams::default() };
        match self.call::<List>(Request::new(path).list_metadata(&params)).await {
            Ok(answer) => {
                let List { metadata, items } = answer.body;
                let objects = items.into_iter().flatten().map(|item| read(item.metadata)).collect();
                let continue_token = metadata.continue_.filter(|token| !token.is_empty());
                Ok(MentionsPage { objects, continue_token })
            }
            Err(Failure { code: Some(410), continue_token: Some(token), .. }) => {
                Ok(MentionsPage { objects: Vec::new(), continue_token: Some(token) })
            }
            Err(failure) => Err(failure),
        }
    }
}

fn read(metadata: ObjectMeta) -> (String, Mentions) {
    let name = metadata.name.unwrap_or_default();
    let name = metadata.namespace.map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"));
    let owners = metadata.owner_references.into_iter().flatten();
    let managers = metadata.managed_fields.into_iter().flatten();
    let mentions = Mentions {
        owners: owners.map(|o| Owner { api_version: o.api_version, kind: o.kind, name: o.name }).collect(),
        managers: managers
            .map(|m| Manager {
                api_version: m.api_version.unwrap_or_default(),
                name: m.manager.unwrap_or_default(),
            })
            .collect(),
    };
    (name, mentions)
}
