//! The rights of the product as a cluster would give them: the shipped manifests, and a grant for each target.
//!
//! A bench without controller manager has nobody who aggregates ClusterRoles, so that is done here. Everything may be
//! called by many tests at once; what they share is done once or retried on conflict.

mod manifests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use backon::{ConstantBuilder, Retryable as _};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::{Mutex, OnceCell};

use crate::control_plane::ControlPlane;

/// The namespace that the product is installed in.
pub const NAMESPACE: &str = "restow-system";
/// The ServiceAccount that the product runs as.
pub const SERVICE_ACCOUNT: &str = "restow";
/// The label of ClusterRoles that grant the product a target.
const TARGET_LABEL: &str = "rbac.restow.dev/aggregate-to-targets";
/// Who applies objects here.
const FIELD_MANAGER: &str = "testbed";
/// Looks at a thing that the server takes a moment for, and how long between two.
const POLLS_MAX: usize = 400;
const POLL: Duration = Duration::from_millis(50);

/// What the tests that share a control plane share of its access.
#[derive(Debug, Default)]
pub(crate) struct State {
    installed: OnceCell<()>,
    token: OnceCell<String>,
    /// One aggregation at a time: they would only conflict.
    aggregation: Mutex<()>,
}

/// Why the product could not be given its rights.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A manifest can't be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A manifest is no YAML, or no object.
    #[error("parse {}: {problem}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The API server refused.
    #[error("{action} {object}")]
    Refused {
        /// What was tried.
        action: &'static str,
        /// On what.
        object: String,
        /// What the server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// It was accepted but never came into effect.
    #[error("wait for {0}: not after {wait:?}", wait = POLL * u32::try_from(POLLS_MAX).unwrap_or(u32::MAX))]
    NotInEffect(String),
}

impl AccessError {
    fn refused(action: &'static str, object: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let object = object.into();
        move |source| Self::Refused { action, object, source: Box::new(source) }
    }
}

/// Applies what the product ships: the objects of a YAML file, as far as they are namespaces, CRDs, ServiceAccounts and
/// RBAC. Waits until the CRDs are established. On one control plane it is done once.
///
/// # Errors
/// If the file can't be read or the server refuses an object.
pub async fn install(plane: &ControlPlane, file: &Path) -> Result<(), AccessError> {
    let once = plane.access.installed.get_or_try_init(|| async {
        manifests::apply(&plane.admin(), file).await?;
        aggregate_cluster_roles(plane).await
    });
    once.await.copied()
}

/// A token of the product's ServiceAccount. [`install`] comes first.
///
/// # Panics
/// If there is no such ServiceAccount.
pub async fn token(plane: &ControlPlane) -> String {
    let once = plane.access.token.get_or_init(|| plane.service_account_token(NAMESPACE, SERVICE_ACCOUNT));
    once.await.clone()
}

/// Lets the product migrate one resource, as a user would: by a labelled ClusterRole. Waits until the right is there.
///
/// # Errors
/// If the server refuses, or the shipped roles don't take the grant up.
pub async fn grant_target(plane: &ControlPlane, group: &str, plural: &str) -> Result<(), AccessError> {
    let rule = json!({ "apiGroups": [group], "resources": [plural], "verbs": ["get", "list", "patch"] });
    grant(plane, group, plural, &[rule]).await?;
    wait_for_target(plane, group, plural, true).await
}

/// Lets the product list all objects of a resource, and migrate those of these names alone, in place of what it was granted
/// before. Waits until that is so.
///
/// # Errors
/// As [`grant_target`].
pub async fn grant_names(
    plane: &ControlPlane,
    group: &str,
    plural: &str,
    names: &[String],
) -> Result<(), AccessError> {
    let rules = [
        json!({ "apiGroups": [group], "resources": [plural], "verbs": ["list"] }),
        json!({
            "apiGroups": [group], "resources": [plural], "verbs": ["get", "patch"], "resourceNames": names,
        }),
    ];
    grant(plane, group, plural, &rules).await?;
    wait_for_patch(plane, [(group, plural, None, None)], false).await
}

async fn grant(
    plane: &ControlPlane,
    group: &str,
    plural: &str,
    on_objects: &[Value],
) -> Result<(), AccessError> {
    let crd = format!("{plural}.{group}");
    let name = format!("testbed:target:{crd}");
    let mut rules = on_objects.to_vec();
    rules.push(json!({
        "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions/status"],
        "resourceNames": [crd], "verbs": ["patch"],
    }));
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": name, "labels": { TARGET_LABEL: "true" } },
        "rules": rules,
    });
    let api: Api<ClusterRole> = Api::all(plane.admin());
    let applied = api.patch(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&role)).await;
    applied.map_err(AccessError::refused("grant", &name))?;
    aggregate_cluster_roles(plane).await
}

/// Takes back what [`grant_target`] gave. Waits until the right is gone.
///
/// # Errors
/// If the server refuses, or something else grants it too.
pub async fn revoke_target(plane: &ControlPlane, group: &str, plural: &str) -> Result<(), AccessError> {
    let name = format!("testbed:target:{plural}.{group}");
    let roles: Api<ClusterRole> = Api::all(plane.admin());
    let deleted = roles.delete(&name, &kube::api::DeleteParams::default()).await;
    deleted.map_err(AccessError::refused("revoke", &name))?;
    aggregate_cluster_roles(plane).await?;
    wait_for_target(plane, group, plural, false).await
}

/// Gives each aggregated ClusterRole the rules of those it selects, as the controller manager would. The roles that
/// come with Kubernetes are left out.
///
/// # Errors
/// If the server refuses.
pub async fn aggregate_cluster_roles(plane: &ControlPlane) -> Result<(), AccessError> {
    let _one_at_a_time = plane.access.aggregation.lock().await;
    let roles: Api<ClusterRole> = Api::all(plane.admin());
    (|| aggregate_once(&roles))
        .retry(ConstantBuilder::new().with_delay(POLL).with_max_times(POLLS_MAX))
        .when(is_conflict)
        .await
        .map_err(AccessError::refused("aggregate", "the ClusterRoles"))
}

async fn aggregate_once(roles: &Api<ClusterRole>) -> kube::Result<()> {
    let ours = ListParams::default().labels("kubernetes.io/bootstrapping!=rbac-defaults");
    let found = roles.list(&ours).await?.items;
    for role in &found {
        let Some(selectors) =
            role.aggregation_rule.as_ref().and_then(|rule| rule.cluster_role_selectors.as_ref())
        else {
            continue;
        };
        let mut union: Vec<PolicyRule> = Vec::new();
        let selected = found.iter().filter(|other| other.name_any() != role.name_any());
        for other in selected.filter(|other| selectors.iter().any(|selector| selects(selector, other))) {
            for rule in other.rules.iter().flatten() {
                if !union.contains(rule) {
                    union.push(rule.clone());
                }
            }
        }
        if role.rules.as_ref().is_none_or(|present| *present != union) {
            let role = ClusterRole { rules: Some(union), ..role.clone() };
            roles.replace(&role.name_any(), &PostParams::default(), &role).await?;
        }
    }
    Ok(())
}

/// Whether a label selector takes this role, by the rules of Kubernetes.
fn selects(selector: &LabelSelector, role: &ClusterRole) -> bool {
    let labels = role.labels();
    let equal = selector.match_labels.iter().flatten().all(|(name, value)| labels.get(name) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|requirement| {
            let LabelSelectorRequirement { key, operator, values } = requirement;
            let value = labels.get(key);
            let listed = value.is_some_and(|value| values.iter().flatten().any(|listed| listed == value));
            match operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                _ => value.is_none(),
            }
        })
}

/// Waits until the product may patch a resource, or no longer may: roles come into effect a moment after they are written.
///
/// # Errors
/// If that isn't so after a while.
pub async fn wait_for_target(
    plane: &ControlPlane,
    group: &str,
    plural: &str,
    granted: bool,
) -> Result<(), AccessError> {
    let crd = format!("{plural}.{group}");
    let status = ("apiextensions.k8s.io", "customresourcedefinitions", Some("status"), Some(crd.as_str()));
    wait_for_patch(plane, [(group, plural, None, None), status], granted).await
}

/// Waits until the product may (or may not) patch each of these: group, plural, subresource, name.
async fn wait_for_patch(
    plane: &ControlPlane,
    wanted: impl IntoIterator<Item = (&str, &str, Option<&str>, Option<&str>)>,
    granted: bool,
) -> Result<(), AccessError> {
    let token = token(plane).await;
    let client = Client::try_from(plane.config_for_token(&token))
        .map_err(AccessError::refused("make a client for", SERVICE_ACCOUNT))?;
    for (group, resource, subresource, name) in wanted {
        let attributes = ResourceAttributes {
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource: subresource.map(str::to_owned),
            name: name.map(str::to_owned),
            verb: Some("patch".to_owned()),
            ..ResourceAttributes::default()
        };
        wait_for_right(&client, attributes, granted).await?;
    }
    Ok(())
}

/// Polls until the client's own user has (or no longer has) a right: the authorizer learns of roles by watching.
async fn wait_for_right(
    client: &Client,
    attributes: ResourceAttributes,
    granted: bool,
) -> Result<(), AccessError> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes.clone()),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    for _ in 0..POLLS_MAX {
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(AccessError::refused("review the access of", SERVICE_ACCOUNT))?;
        if answer.status.is_some_and(|status| status.allowed == granted) {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    let what = [attributes.group, attributes.resource, attributes.subresource, attributes.name];
    let what = what.into_iter().flatten().collect::<Vec<_>>().join("/");
    let sense = if granted { "to be allowed" } else { "to be forbidden" };
    Err(AccessError::NotInEffect(format!("patch on {what} {sense} for {SERVICE_ACCOUNT}")))
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}
