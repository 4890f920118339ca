//! Which of the rights that a migration needs are missing.

use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, ResourceRule, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
    SelfSubjectRulesReview, SelfSubjectRulesReviewSpec,
};
use kube::Resource;
use kube::api::PostParams;
use kube::core::Request;

use super::Cluster;
use crate::api::{StorageMigrationSpec, StoredVersions};
use crate::plan::{Failure, Rights};

impl Cluster {
    /// The rights that `spec` needs and restow lacks.
    ///
    /// A rule that names objects gives a right on these alone: where there is one, the right on all is not missing, and
    /// other objects are refused one by one.
    ///
    /// # Errors
    /// If the server could not answer.
    ///
    /// # Access
    /// `create` on `selfsubjectaccessreviews` and `selfsubjectrulesreviews`, which everybody has (`system:basic-user`).
    pub async fn rights(&self, spec: &StorageMigrationSpec) -> Result<Rights, Failure> {
        let needed = needed_rights(spec);
        let allowed = try_join_all(needed.iter().map(|right| self.may(right))).await?;
        let mut missing: Vec<_> =
            needed.iter().zip(allowed).filter(|(_, allowed)| !allowed).map(|(right, _)| right).collect();
        let on_one = |right: &ResourceAttributes| matches!(right.verb.as_deref(), Some("get" | "patch"));
        let mut by_name = false;
        if missing.iter().any(|right| on_one(right) && right.name.is_none()) {
            let rules = self.rules().await?;
            let before = missing.len();
            missing.retain(|right| !rules.iter().any(|rule| names_objects_of(rule, right)));
            by_name = missing.len() < before;
        }
        Ok(Rights { missing: missing.into_iter().map(describe).collect(), by_name })
    }

    /// The rules that apply to restow in all namespaces.
    async fn rules(&self) -> Result<Vec<ResourceRule>, Failure> {
        let review = SelfSubjectRulesReview {
            // Rules for all namespaces show in any.
            spec: SelfSubjectRulesReviewSpec { namespace: Some("default".to_owned()) },
            ..SelfSubjectRulesReview::default()
        };
        let path = Request::new(SelfSubjectRulesReview::url_path(&(), None));
        let request = path.create(&PostParams::default(), body(&review)?);
        let answer = self.call::<SelfSubjectRulesReview>(request).await?;
        Ok(answer.body.status.map(|status| status.resource_rules).unwrap_or_default())
    }

    async fn may(&self, right: &ResourceAttributes) -> Result<bool, Failure> {
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(right.clone()),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let path = Request::new(SelfSubjectAccessReview::url_path(&(), None));
        let request = path.create(&PostParams::default(), body(&review)?);
        let answer = self.call::<SelfSubjectAccessReview>(request).await?;
        Ok(answer.body.status.is_some_and(|status| status.allowed))
    }
}

fn body(review: &impl serde::Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(review).map_err(|error| Failure {
        message: format!("write an access review: {error}"),
        ..Failure::default()
    })
}

/// Whether the rule gives the right on objects that it names.
fn names_objects_of(rule: &ResourceRule, right: &ResourceAttributes) -> bool {
    let has = |list: Option<&Vec<String>>, wanted: Option<&String>| {
        list.into_iter().flatten().any(|item| item == "*" || Some(item) == wanted)
    };
    right.subresource.is_none()
        && rule.resource_names.as_ref().is_some_and(|names| !names.is_empty())
        && has(Some(&rule.verbs), right.verb.as_ref())
        && has(rule.api_groups.as_ref(), right.group.as_ref())
        && has(rule.resources.as_ref(), right.resource.as_ref())
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
