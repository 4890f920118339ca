//! What the owner of a CustomResourceDefinition grants, so that restow may migrate its objects.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::TargetResource;

/// The label of ClusterRoles whose rules restow's own `restow-targets` takes up.
const GRANT_LABEL: &str = "rbac.restow.dev/aggregate-to-targets";

/// Why a grant can't be printed.
#[derive(Debug, thiserror::Error)]
#[error("print the ClusterRole for {resource} as YAML")]
pub struct GrantError {
    resource: TargetResource,
    source: serde_saphyr::ser::Error,
}

/// The ClusterRole that lets restow migrate `resource`: nothing but what a migration of it needs.
fn grant(resource: &TargetResource) -> ClusterRole {
    let crd = resource.crd_name();
    let rule = |group: &str, resource: &str, verbs: &[&str], names: Option<Vec<String>>| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        resource_names: names,
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..PolicyRule::default()
    };
    ClusterRole {
        metadata: ObjectMeta {
            name: Some(format!("restow-targets-{crd}")),
            labels: Some(BTreeMap::from([(GRANT_LABEL.to_owned(), "true".to_owned())])),
            ..ObjectMeta::default()
        },
        rules: Some(vec![
            rule(&resource.group, &resource.resource, &["get", "list", "patch"], None),
            rule("apiextensions.k8s.io", "customresourcedefinitions/status", &["patch"], Some(vec![crd])),
        ]),
        ..ClusterRole::default()
    }
}

/// The same for several, as YAML ready for `kubectl apply -f -`.
///
/// # Errors
/// If the YAML writer fails, which no input can make it do.
pub fn grants_yaml<'a>(
    resources: impl IntoIterator<Item = &'a TargetResource>,
) -> Result<String, GrantError> {
    let print = |resource: &TargetResource| {
        serde_saphyr::to_string(&grant(resource))
            .map_err(|source| GrantError { resource: resource.clone(), source })
    };
    let documents: Vec<String> = resources.into_iter().map(print).collect::<Result<_, _>>()?;
    Ok(documents.join("---\n"))
}
