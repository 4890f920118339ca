//! StorageMigrations in the cluster: watching them, writing their status, deleting one whose time is over.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, GetParams, Patch, PatchParams, Preconditions, ValidationDirective};
use kube::core::{DeserializeGuard, Request};
use kube::{Client, Resource};
use serde::Deserialize;
use serde_json::json;

use super::call::Answer;
use super::{Cluster, FIELD_MANAGER};
use crate::api::{StorageMigration, StorageMigrationStatus};
use crate::plan::Failure;

/// What came of writing a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusWritten {
    /// It is stored.
    Done,
    /// The StorageMigration is gone, or another one has its name.
    Gone,
    /// It failed.
    Failed(Failure),
}

#[derive(Deserialize)]
struct Stored {
    metadata: ObjectMeta,
    status: Option<StorageMigrationStatus>,
}

impl Cluster {
    /// StorageMigrations, each of which may turn out to be unreadable by itself.
    ///
    /// # Access
    /// `list` and `watch` on `storagemigrations`.
    #[must_use]
    pub fn migrations(&self) -> Api<DeserializeGuard<StorageMigration>> {
        Api::all(self.client.clone())
    }

    /// Reads from etcd the generation and the status of the StorageMigration with this uid. `Ok(None)` if it is gone.
    ///
    /// # Errors
    /// If the server could not answer.
    ///
    /// # Access
    /// `get` on `storagemigrations`.
    pub async fn read_status(
        &self,
        name: &str,
        uid: &str,
    ) -> Result<Option<(i64, StorageMigrationStatus)>, Failure> {
        let path = Request::new(StorageMigration::url_path(&(), None));
        match self.call::<Stored>(path.get(name, &GetParams::default())).await {
            Ok(Answer { body, date: _ }) if body.metadata.uid.as_deref() == Some(uid) => {
                let generation = body.metadata.generation.unwrap_or_default();
                Ok(Some((generation, body.status.unwrap_or_default())))
            }
            Ok(_) => Ok(None),
            Err(failure) if failure.code == Some(404) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Stores a status as a whole, for the StorageMigration with this uid only.
    ///
    /// # Access
    /// `patch` on `storagemigrations/status`.
    pub async fn write_status(
        &self,
        name: &str,
        uid: &str,
        status: &StorageMigrationStatus,
    ) -> StatusWritten {
        // A JSON patch, since its test of the uid is made together with the write: server-side apply and merge patches take
        // the uid of another object for nothing. What the server's CRD doesn't know of the status is pruned.
        let patch = json!([
            { "op": "test", "path": "/metadata/uid", "value": uid },
            { "op": "add", "path": "/status", "value": status },
        ]);
        let written = match serde_json::from_value(patch) {
            Ok(patch) => self.patch_status(name, &Patch::Json::<()>(patch)).await,
            Err(error) => Err(Failure { message: format!("write a status: {error}"), ..Failure::default() }),
        };
        match written {
            Ok(()) => StatusWritten::Done,
            Err(failure) if failure.code == Some(404) || is_failed_test(&failure) => StatusWritten::Gone,
            Err(failure) => StatusWritten::Failed(failure),
        }
    }

    async fn patch_status(&self, name: &str, patch: &Patch<()>) -> Result<(), Failure> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            field_validation: Some(ValidationDirective::Ignore),
            ..PatchParams::default()
        };
        let collection = Request::new(StorageMigration::url_path(&(), None));
        let request = collection.patch_subresource("status", name, &params, patch);
        self.call::<serde::de::IgnoredAny>(request).await.map(|_| ())
    }

    /// Deletes the StorageMigration with this uid.
    ///
    /// # Errors
    /// If the server could not answer. One that is gone already is no error.
    ///
    /// # Access
    /// `delete` on `storagemigrations`.
    pub async fn delete_migration(&self, name: &str, uid: &str) -> Result<(), Failure> {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        let request = Request::new(StorageMigration::url_path(&(), None)).delete(name, &params);
        match self.call::<serde::de::IgnoredAny>(request).await {
            Ok(_) => Ok(()),
            Err(failure) if matches!(failure.code, Some(404 | 409)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }
}

/// Whether a test in a JSON patch failed: such an answer speaks of nothing, one of an invalid status of its fields.
fn is_failed_test(failure: &Failure) -> bool {
    failure.code == Some(422) && failure.details.as_ref().is_none_or(|details| details.name.is_empty())
}
