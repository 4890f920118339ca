//! The migrator built into kube-controller-manager: whether it has work on a resource.

use kube::api::ListParams;
use kube::core::Request;
use serde::Deserialize;

use super::Cluster;
use crate::api::TargetResource;
use crate::plan::{Crd, Failure};

/// The versions in which StorageVersionMigration was or is served.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

#[derive(Deserialize)]
struct Migrations {
    items: Option<Vec<Migration>>,
}

#[derive(Deserialize)]
struct Migration {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    resource: Resource,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resource {
    group: String,
    resource: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl Cluster {
    /// The StorageVersionMigration that is at work on `resource`, if its CRD says that one is.
    ///
    /// A condition left over from a StorageVersionMigration that was deleted or has ended doesn't count.
    ///
    /// # Errors
    /// If the server could not answer, or restow may not list StorageVersionMigrations.
    ///
    /// # Access
    /// `list` on `storageversionmigrations` of `storagemigration.k8s.io`.
    pub async fn other_migrator(
        &self,
        resource: &TargetResource,
        crd: &Crd,
    ) -> Result<Option<String>, Failure> {
        if !crd.migrating {
            return Ok(None);
        }
        for version in VERSIONS {
            let path = format!("/apis/storagemigration.k8s.io/{version}/storageversionmigrations");
            match self.call::<Migrations>(Request::new(path).list(&ListParams::default())).await {
                Ok(answer) => {
                    let at_work =
                        answer.body.items.unwrap_or_default().into_iter().find(|m| m.is_at_work_on(resource));
                    return Ok(at_work.map(|m| format!("the StorageVersionMigration {}", m.metadata.name)));
                }
                Err(failure) if failure.code == Some(404) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(None)
    }
}

impl Migration {
    fn is_at_work_on(&self, target: &TargetResource) -> bool {
        let Resource { group, resource } = &self.spec.resource;
        let ended = |c: &Condition| matches!(c.type_.as_str(), "Succeeded" | "Failed") && c.status == "True";
        *group == target.group
            && *resource == target.resource
            && !self.status.conditions.as_deref().unwrap_or_default().iter().any(ended)
    }
}
