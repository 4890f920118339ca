//! What the product asked for in a whole run of the tests, against what its shipped roles grant: no more, no less.
//!
//! The requests are those of the API servers' audit logs, kept by [`audit::KEEP`]. Whoever the product ran as, it is told by
//! its user agent. A target's resource is any of a group that the core roles don't name, or the product's own kind.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use crate::access::{NAMESPACE, SERVICE_ACCOUNT};
#[cfg(doc)]
use crate::audit;
use crate::audit::{Entry, Object};

/// What the product calls itself.
const USER_AGENT: &str = "restow/";

/// The kind of the product, which can be a target like any other.
const OWN_KIND: [&str; 2] = ["restow.dev", "storagemigrations"];

/// What everybody may do (`system:basic-user`): to ask for one's own rights.
const OF_EVERYBODY: [[&str; 3]; 2] = [
    ["create", "authorization.k8s.io", "selfsubjectaccessreviews"],
    ["create", "authorization.k8s.io", "selfsubjectrulesreviews"],
];

/// One verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Right {
    verb: String,
    group: String,
    /// With its subresource, as RBAC writes it.
    resource: String,
    namespace: Option<String>,
    names: Vec<String>,
    used: bool,
}

/// What is granted and what of it was used.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    core: Vec<Right>,
    target: Vec<Right>,
    lacking: BTreeSet<String>,
    requests: usize,
}

impl Rights {
    /// The rights that the manifests bind to the product, and those that a grant of a target adds.
    #[must_use]
    pub fn new(manifests: &[Value], grant: &[Value]) -> Self {
        let mut rights = Self::default();
        for binding in manifests.iter().filter(|object| is_bound(object)) {
            let role = &binding["roleRef"];
            let same_place = |object: &Value| {
                role["kind"] == "ClusterRole"
                    || object["metadata"]["namespace"] == binding["metadata"]["namespace"]
            };
            let named = manifests.iter().filter(|object| {
                object["kind"] == role["kind"]
                    && object["metadata"]["name"] == role["name"]
                    && same_place(object)
            });
            let namespace = binding["metadata"]["namespace"].as_str();
            rights.core.extend(named.flat_map(rules).flat_map(|rule| split(&rule, namespace)));
        }
        for mut right in grant.iter().flat_map(rules).flat_map(|rule| split(&rule, None)) {
            // Another target has another name.
            right.names.clear();
            if rights.core.iter().all(|core| core.group != right.group) {
                right.group.clear();
                right.resource.clear();
            }
            rights.target.push(right);
        }
        rights
    }

    /// Takes in the audit log of one API server.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn read(&mut self, log: &Path) -> io::Result<()> {
        for line in BufReader::new(File::open(log)?).lines() {
            let line = line?;
            // Most requests are those of tests, and parsing them is most of the work.
            if line.contains(USER_AGENT)
                && let Ok(entry) = serde_json::from_str::<Entry>(&line)
                && entry.user_agent.starts_with(USER_AGENT)
            {
                self.take(&entry);
            }
        }
        Ok(())
    }

    fn take(&mut self, entry: &Entry) {
        self.requests += 1;
        let Some(object) = &entry.object else {
            self.lacking.insert(format!("{} {}", entry.verb, entry.uri));
            return;
        };
        let resource = match object.subresource.as_str() {
            "" => object.resource.clone(),
            subresource => format!("{}/{subresource}", object.resource),
        };
        if OF_EVERYBODY.contains(&[entry.verb.as_str(), &object.api_group, &resource]) {
            return;
        }
        let is_own_kind = OWN_KIND == [object.api_group.as_str(), resource.as_str()];
        let can_be_target = is_own_kind || self.core.iter().all(|core| core.group != object.api_group);
        let covers = |right: &&mut Right| {
            right.verb == entry.verb
                && (right.group == object.api_group && right.resource == resource
                    || right.resource.is_empty() && can_be_target && object.subresource.is_empty())
                && right.is_for(object)
        };
        if let Some(right) = self.core.iter_mut().chain(&mut self.target).find(covers) {
            right.used = true;
        } else {
            let Object { api_group, namespace, .. } = object;
            self.lacking.insert(format!("{} {resource}.{api_group} in {namespace:?}", entry.verb));
        }
    }

    /// How many requests of the product were found.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// What was asked for although no role grants it.
    #[must_use]
    pub fn lacking(&self) -> Vec<String> {
        self.lacking.iter().cloned().collect()
    }

    /// What is granted although nothing asked for it.
    #[must_use]
    pub fn unused(&self) -> Vec<String> {
        let unused = self.core.iter().chain(&self.target).filter(|right| !right.used);
        unused.map(Right::describe).collect()
    }
}

impl Right {
    fn is_for(&self, object: &Object) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| *namespace == object.namespace)
            && (self.names.is_empty() || self.names.contains(&object.name))
    }

    fn describe(&self) -> String {
        let Self { verb, group, resource, namespace, names, used: _ } = self;
        let resource = if resource.is_empty() { "the target" } else { resource };
        format!("{verb} {resource}.{group} in {namespace:?} {names:?}")
    }
}

/// Whether this binds a role to the product.
fn is_bound(object: &Value) -> bool {
    let is_product = |subject: &Value| {
        subject["kind"] == "ServiceAccount"
            && subject["name"] == SERVICE_ACCOUNT
            && subject["namespace"] == NAMESPACE
    };
    object["subjects"].as_array().is_some_and(|subjects| subjects.iter().any(is_product))
}

fn rules(role: &Value) -> Vec<PolicyRule> {
    serde_json::from_value(role["rules"].clone()).unwrap_or_default()
}

fn split(rule: &PolicyRule, namespace: Option<&str>) -> Vec<Right> {
    let mut rights = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            rights.extend(rule.verbs.iter().map(|verb| Right {
                verb: verb.clone(),
                group: group.clone(),
                resource: resource.clone(),
                namespace: namespace.map(str::to_owned),
                names: rule.resource_names.clone().unwrap_or_default(),
                used: false,
            }));
        }
    }
    rights
}

#[cfg(test)]
mod tests;
