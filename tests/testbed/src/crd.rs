//! The CustomResourceDefinitions that tests migrate: which versions they have, and how each is shaped.
//!
//! Everything here is data; what talks to a server is in `edit`, whose functions are re-exported.
//! Objects of these kinds are made in [`crate::objects`], not here.

mod crontab;
mod edit;
mod widget;

use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Map, Value, json};

pub use edit::{
    Error, Removal, apply, describe, move_storage, remove_version, set_conversion, stored_versions,
};

/// What a client must know to address objects of a fixture, whatever their version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group; each test has its own.
    pub group: String,
    /// Kind, as in manifests.
    pub kind: &'static str,
    /// Plural, as in URLs.
    pub plural: &'static str,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
}

impl Kind {
    /// Name of the CustomResourceDefinition.
    #[must_use]
    pub fn crd_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// `apiVersion` of objects at a version.
    #[must_use]
    pub fn api_version(&self, version: &str) -> String {
        format!("{}/{version}", self.group)
    }

    /// The resource at a version, for kube's dynamic API.
    #[must_use]
    pub fn resource(&self, version: &str) -> ApiResource {
        let gvk = GroupVersionKind::gvk(&self.group, version, self.kind);
        ApiResource::from_gvk_with_plural(&gvk, self.plural)
    }

    /// Access to the objects at a version, in one namespace or, with `None`, at cluster level.
    #[must_use]
    pub fn api(&self, client: &Client, version: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = self.resource(version);
        match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        }
    }
}

/// How objects are turned from one version into another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Only `apiVersion` is changed.
    None,
    /// By a webhook.
    Webhook {
        /// Where it listens.
        url: String,
        /// The CA its certificate is checked against, PEM in base64.
        ca_bundle: String,
    },
    /// By a webhook behind a Service, at `/convert` on port 443.
    Service {
        /// Namespace of the Service.
        namespace: String,
        /// Name of the Service.
        name: String,
        /// The CA its certificate is checked against, PEM in base64.
        ca_bundle: String,
    },
}

impl Conversion {
    fn to_json(&self) -> Value {
        match self {
            Self::None => json!({ "strategy": "None" }),
            Self::Webhook { url, ca_bundle } => Self::webhook(&json!({ "url": url, "caBundle": ca_bundle })),
            Self::Service { namespace, name, ca_bundle } => Self::webhook(&json!({
                "service": { "namespace": namespace, "name": name, "path": "/convert" },
                "caBundle": ca_bundle,
            })),
        }
    }

    fn webhook(client_config: &Value) -> Value {
        json!({
            "strategy": "Webhook",
            "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": client_config },
        })
    }
}

/// One version of a fixture: a name, and the properties of its `spec`.
#[derive(Clone, Debug)]
struct Version {
    name: String,
    served: bool,
    spec: Map<String, Value>,
}

/// A CustomResourceDefinition in the making.
///
/// The constructors give what most tests want; the other methods change one thing each. A method that is given a
/// version that the fixture doesn't have changes nothing.
#[derive(Clone, Debug)]
pub struct Fixture {
    kind: Kind,
    versions: Vec<Version>,
    storage: String,
    status: bool,
    conversion: Conversion,
}

impl Fixture {
    /// Without the status subresource.
    #[must_use]
    pub fn without_status(mut self) -> Self {
        self.status = false;
        self
    }

    /// With `version` as the storage version.
    #[must_use]
    pub fn stored_in(mut self, version: &str) -> Self {
        version.clone_into(&mut self.storage);
        self
    }

    /// With `version` defined but not served.
    #[must_use]
    pub fn not_served(mut self, version: &str) -> Self {
        self.edit_version(version, |it| it.served = false);
        self
    }

    /// With one more version, shaped like the newest so far.
    #[must_use]
    pub fn with_version(mut self, version: &str) -> Self {
        let spec = self.versions.last().map(|newest| newest.spec.clone()).unwrap_or_default();
        self.versions.push(Version { name: version.to_owned(), served: true, spec });
        self
    }

    /// Without the version `version`.
    #[must_use]
    pub fn without_version(mut self, version: &str) -> Self {
        self.versions.retain(|it| it.name != version);
        self
    }

    /// Without `spec.<field>` in one version.
    #[must_use]
    pub fn without_field(mut self, version: &str, field: &str) -> Self {
        self.edit_version(version, |it| {
            it.spec.remove(field);
        });
        self
    }

    /// With `spec.<field>` of the given schema in one version, added or replaced.
    #[must_use]
    pub fn with_field(mut self, version: &str, field: &str, schema: &Value) -> Self {
        self.edit_version(version, |it| {
            it.spec.insert(field.to_owned(), schema.clone());
        });
        self
    }

    /// With another conversion.
    #[must_use]
    pub fn converted_by(mut self, conversion: Conversion) -> Self {
        self.conversion = conversion;
        self
    }

    /// How to address its objects.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The manifest.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let versions: Vec<Value> = self.versions.iter().map(|version| self.version_json(version)).collect();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": self.kind.crd_name() },
            "spec": {
                "group": self.kind.group,
                "scope": if self.kind.namespaced { "Namespaced" } else { "Cluster" },
                "names": {
                    "kind": self.kind.kind,
                    "listKind": format!("{}List", self.kind.kind),
                    "plural": self.kind.plural,
                    "singular": self.kind.kind.to_lowercase(),
                },
                "conversion": self.conversion.to_json(),
                "versions": versions,
            },
        })
    }

    fn version_json(&self, version: &Version) -> Value {
        let mut properties = json!({ "spec": { "type": "object", "properties": version.spec } });
        let mut subresources = json!({});
        if self.status {
            properties["status"] =
                json!({ "type": "object", "properties": { "phase": { "type": "string" } } });
            subresources["status"] = json!({});
        }
        json!({
            "name": version.name,
            "served": version.served,
            "storage": version.name == self.storage,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": properties } },
            "subresources": subresources,
        })
    }

    fn edit_version(&mut self, version: &str, edit: impl Fn(&mut Version)) {
        self.versions.iter_mut().filter(|it| it.name == version).for_each(edit);
    }
}
