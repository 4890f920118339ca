//! Which of the rights that a migration needs are missing.

use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Resource;
use kube::api::PostParams;
use kube::core::Request;

use super::Cluster;
use crate::api::{StorageMigrationSpec, StoredVersions};
use crate::plan::Failure;

impl Cluster {
    /// The rights that `spec` needs and restow lacks, each as `verb resource`.
    ///
    /// # Errors
    /// If the server could not answer.
    ///
    /// # Access
    /// `create` on `selfsubjectaccessreviews`, which everybody has (`system:basic-user`).
    pub async fn missing_rights(&self, spec: &StorageMigrationSpec) -> Result<Vec<String>, Failure> {
        let needed = needed_rights(spec);
        let allowed = try_join_all(needed.iter().map(|right| self.may(right))).await?;
        let missing = needed.iter().zip(allowed).filter(|(_, allowed)| !allowed);
        Ok(missing.map(|(right, _)| describe(right)).collect())
    }

    async fn may(&self, right: &ResourceAttributes) -> Result<bool, Failure> {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(right.clone()),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let body = serde_json::to_vec(&review).map_err(|error| Failure {
            message: format!("write an access review: {error}"),
            ..Failure::default()
        })?;
        let path = Request::new(SelfSubjectAccessReview::url_path(&(), None));
        let answer = self.call::<SelfSubjectAccessReview>(path.create(&PostParams::default(), body)).await?;
        Ok(answer.body.status.is_some_and(|status| status.allowed))
    }
}

fn needed_rights(spec: &StorageMigrationSpec) -> Vec<ResourceAttributes> {
    let on_objects = |verb: &str| ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(spec.resource.group.clone()),
        resource: Some(spec.resource.resource.clone()),
        ..ResourceAttributes::default()
    };
    let mut rights: Vec<_> = ["get", "list", "patch"].into_iter().map(on_objects).collect();
    if spec.stored_versions == StoredVersions::Trim {
        rights.push(ResourceAttributes {
            verb: Some("patch".to_owned()),
            group: Some("apiextensions.k8s.io".to_owned()),
            resource: Some("customresourcedefinitions".to_owned()),
            subresource: Some("status".to_owned()),
            name: Some(spec.resource.crd_name()),
            ..ResourceAttributes::default()
        });
    }
    rights
}

fn describe(right: &ResourceAttributes) -> String {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let subresource = right.subresource.as_ref().map(|s| format!("/{s}")).unwrap_or_default();
    let name = right.name.as_ref().map(|n| format!(" {n}")).unwrap_or_default();
    format!("{} {}.{}{subresource}{name}", part(&right.verb), part(&right.resource), part(&right.group))
}
