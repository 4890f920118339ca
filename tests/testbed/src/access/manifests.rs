//! Applying the shipped YAML as `kubectl apply --server-side` would, as far as the bench has a use for them.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, TypeMeta};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;

use super::{AccessError, FIELD_MANAGER, POLL, POLLS_MAX};

/// The kinds that are applied, in the order in which they need each other. There is no node for a Deployment to run on.
const KINDS: [&str; 7] = [
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
];

/// Applies the objects of a YAML file.
pub(super) async fn apply(client: &Client, file: &Path) -> Result<(), AccessError> {
    let mut objects = read(file)?;
    objects.sort_by_key(|(rank, _)| *rank);
    for (_, object) in &objects {
        apply_one(client, object).await?;
    }
    for (_, object) in &objects {
        if object.types.as_ref().is_some_and(|types| types.kind == "CustomResourceDefinition") {
            wait_until_established(client, &object.name_any()).await?;
        }
    }
    Ok(())
}

/// The objects of a file that are to be applied, each with its place in [`KINDS`].
fn read(path: &Path) -> Result<Vec<(usize, DynamicObject)>, AccessError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| AccessError::Read { path: path.to_owned(), source })?;
    let parse = |problem: String| AccessError::Parse { path: path.to_owned(), problem };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).map_err(|error| parse(error.to_string()))?;
    let mut objects = Vec::new();
    for document in documents {
        let kind = document.get("kind").and_then(Value::as_str);
        if let Some(rank) = KINDS.iter().position(|known| kind == Some(known)) {
            let object = serde_json::from_value(document).map_err(|error| parse(error.to_string()))?;
            objects.push((rank, object));
        }
    }
    Ok(objects)
}

async fn apply_one(client: &Client, object: &DynamicObject) -> Result<(), AccessError> {
    let types = object.types.clone().unwrap_or_default();
    let name = object.name_any();
    let resource = resource(&types);
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let applied = api.patch(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(object)).await;
    applied.map(|_| ()).map_err(AccessError::refused("apply", format!("{} {name}", types.kind)))
}

fn resource(types: &TypeMeta) -> ApiResource {
    let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
    ApiResource::from_gvk(&kube::api::GroupVersionKind::gvk(group, version, &types.kind))
}

async fn wait_until_established(client: &Client, name: &str) -> Result<(), AccessError> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for _ in 0..POLLS_MAX {
        let crd = crds.get(name).await.map_err(AccessError::refused("read", name))?;
        let conditions = crd.status.and_then(|status| status.conditions).unwrap_or_default();
        if conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True") {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    Err(AccessError::NotInEffect(format!("CustomResourceDefinition {name} to be established")))
}
