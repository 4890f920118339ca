//! The CustomResourceDefinition of `StorageMigration`, generated from the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::CustomResourceExt;
use serde_json::json;

use super::StorageMigration;

/// Why the definition can't be printed.
#[derive(Debug, thiserror::Error)]
#[error("print the CustomResourceDefinition as YAML")]
pub struct DefinitionError(#[from] serde_saphyr::ser::Error);

/// The CustomResourceDefinition of `StorageMigration`.
///
/// A fresh object reads `status.observedGeneration: -1`, so that tools that compare it with `metadata.generation`
/// (kstatus, Flux, Argo CD) don't take the object for done before restow has seen it.
#[must_use]
pub fn definition() -> CustomResourceDefinition {
    let mut crd = StorageMigration::crd();
    crd.metadata.labels = Some([("app.kubernetes.io/name".to_owned(), "restow".to_owned())].into());
    let schemas = crd.spec.versions.iter_mut().filter_map(|v| v.schema.as_mut()?.open_api_v3_schema.as_mut());
    for schema in schemas {
        if let Some(status) = schema.properties.as_mut().and_then(|p| p.get_mut("status")) {
            status.default = Some(JSON(json!({ "observedGeneration": -1 })));
        }
        name_known_formats(schema);
    }
    crd
}

/// Names the integer formats that the API server knows: it warns of `uint8` to `uint64`, which schemars writes.
fn name_known_formats(schema: &mut JSONSchemaProps) {
    match schema.format.as_deref() {
        Some("uint64") => schema.format = Some("int64".to_owned()),
        Some("uint8" | "uint16" | "uint32") => schema.format = Some("int32".to_owned()),
        Some(_) | None => {}
    }
    schema.properties.iter_mut().flat_map(|p| p.values_mut()).for_each(name_known_formats);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        name_known_formats(items);
    }
}

/// The same as YAML, ready for `kubectl apply -f -`.
///
/// # Errors
/// If the YAML writer fails, which no input can make it do.
pub fn definition_yaml() -> Result<String, DefinitionError> {
    Ok(serde_saphyr::to_string(&definition())?)
}
