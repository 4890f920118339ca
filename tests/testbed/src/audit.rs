//! What was asked of the API server, read from its audit log: who did what to which resource, how often, and when.
//!
//! The log is the server's own (level Metadata), so it also shows requests that a client does not admit to. An entry is
//! written when its request has ended, which can be an instant after the client has the answer: poll for what must be
//! there. Requests about core resources are logged only if they are the product's, the server's own to itself never.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;

/// The policy the API server is started with. Its first matching rule counts.
pub(crate) const POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
  "rules": [
    {"level": "Metadata", "users": ["system:serviceaccount:restow-system:restow"]},
    {"level": "None", "users": ["system:apiserver"]},
    {"level": "None", "nonResourceURLs": ["*"]},
    {"level": "None", "resources": [{"group": ""}, {"group": "flowcontrol.apiserver.k8s.io"}]},
    {"level": "Metadata"}
  ]
}"#;

/// Names a directory where the audit logs of all API servers are kept, for [`rights`](crate::rights).
pub const KEEP: &str = "TESTBED_AUDIT_DIR";

/// The audit log of one API server.
#[derive(Clone, Debug)]
pub struct AuditLog {
    path: PathBuf,
    from: u64,
}

/// Which requests are meant. What is not set does not matter.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    group: Option<String>,
    resource: Option<String>,
    subresource: Option<String>,
    verb: Option<String>,
    user_agent: Option<String>,
    user: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

/// One request that the API server has answered (or, for a watch, begun to answer).
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    stage: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// Path and query.
    #[serde(rename = "requestURI")]
    pub uri: String,
    /// Who asked.
    pub user: User,
    /// What the client calls itself.
    #[serde(default)]
    pub user_agent: String,
    /// What it was about.
    #[serde(rename = "objectRef")]
    pub object: Option<Object>,
    /// How it was answered.
    #[serde(rename = "responseStatus")]
    pub response: Option<Response>,
    /// When it came in.
    #[serde(rename = "requestReceivedTimestamp")]
    pub received: Timestamp,
    /// When it was answered.
    #[serde(rename = "stageTimestamp")]
    pub answered: Timestamp,
}

/// Who asked.
#[derive(Clone, Debug, Deserialize)]
pub struct User {
    /// As RBAC knows it.
    pub username: String,
}

/// What a request was about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Object {
    /// API group, empty for the core one.
    pub api_group: String,
    /// API version.
    pub api_version: String,
    /// Plural.
    pub resource: String,
    /// `status` and the like, empty for the object itself.
    pub subresource: String,
    /// Empty for a cluster-scoped object and for all namespaces.
    pub namespace: String,
    /// Empty for a list.
    pub name: String,
}

/// How a request was answered.
#[derive(Clone, Debug, Deserialize)]
pub struct Response {
    /// HTTP status.
    #[serde(default)]
    pub code: u16,
    /// What the server said about a refusal.
    #[serde(default)]
    pub message: String,
}

impl AuditLog {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, from: 0 }
    }

    /// Where the API server that works in `directory` is to write it.
    pub(crate) fn path_for(directory: &Path) -> PathBuf {
        match (std::env::var_os(KEEP), directory.file_name()) {
            (Some(kept), Some(name)) => Path::new(&kept).join(name).with_extension("log"),
            (None, _) | (_, None) => directory.join("audit.log"),
        }
    }

    /// The same log from now on: what is there already is left out.
    #[must_use]
    pub fn from_now(&self) -> Self {
        let from = std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len());
        Self { path: self.path.clone(), from }
    }

    /// The requests that match, in the order in which they were answered.
    #[must_use]
    pub fn entries(&self, filter: &Filter) -> Vec<Entry> {
        let mut text = Vec::new();
        if let Ok(mut file) = File::open(&self.path) {
            file.seek(SeekFrom::Start(self.from)).expect("the audit log can be read from the middle");
            file.read_to_end(&mut text).expect("the audit log can be read");
        }
        text.split_inclusive(|byte| *byte == b'\n')
            .filter(|line| line.ends_with(b"\n"))
            .filter_map(|line| serde_json::from_slice::<Entry>(line).ok())
            .filter(|entry| entry.counts() && filter.matches(entry))
            .collect()
    }

    /// How many requests match.
    #[must_use]
    pub fn count(&self, filter: &Filter) -> usize {
        self.entries(filter).len()
    }
}

impl Filter {
    /// All requests about one resource.
    #[must_use]
    pub fn resource(group: &str, plural: &str) -> Self {
        Self { group: Some(group.to_owned()), resource: Some(plural.to_owned()), ..Self::default() }
    }

    /// All requests about the objects of one group.
    #[must_use]
    pub fn group(group: &str) -> Self {
        Self { group: Some(group.to_owned()), ..Self::default() }
    }

    /// All requests about CustomResourceDefinitions.
    #[must_use]
    pub fn crds() -> Self {
        Self::resource("apiextensions.k8s.io", "customresourcedefinitions")
    }

    /// Only those with this verb, in the server's words (`list` and `get` are two).
    #[must_use]
    pub fn verb(self, verb: &str) -> Self {
        Self { verb: Some(verb.to_owned()), ..self }
    }

    /// Only those about this subresource; an empty one means the object itself.
    #[must_use]
    pub fn subresource(self, subresource: &str) -> Self {
        Self { subresource: Some(subresource.to_owned()), ..self }
    }

    /// Only those of clients whose user agent begins like this.
    #[must_use]
    pub fn user_agent(self, prefix: &str) -> Self {
        Self { user_agent: Some(prefix.to_owned()), ..self }
    }

    /// Only those of this user, as RBAC knows it.
    #[must_use]
    pub fn user(self, name: &str) -> Self {
        Self { user: Some(name.to_owned()), ..self }
    }

    /// Only those about objects in this namespace.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..self }
    }

    /// Only those about objects of this name.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    fn matches(&self, entry: &Entry) -> bool {
        let none = Object::default();
        let object = entry.object.as_ref().unwrap_or(&none);
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        is(&self.group, &object.api_group)
            && is(&self.resource, &object.resource)
            && is(&self.subresource, &object.subresource)
            && is(&self.namespace, &object.namespace)
            && is(&self.name, &object.name)
            && is(&self.verb, &entry.verb)
            && is(&self.user, &entry.user.username)
            && self.user_agent.as_ref().is_none_or(|prefix| entry.user_agent.starts_with(prefix))
    }
}

impl Entry {
    /// HTTP status of the answer, 0 if there was none.
    #[must_use]
    pub fn code(&self) -> u16 {
        self.response.as_ref().map_or(0, |response| response.code)
    }

    /// A watch is logged when it begins and when it ends, everything else once: count each request once.
    fn counts(&self) -> bool {
        if self.verb == "watch" { self.stage == "ResponseStarted" } else { self.stage != "ResponseStarted" }
    }
}
