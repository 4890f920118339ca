//! StorageMigrations in the cluster: watching them, writing their status, deleting one whose time is over.

use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::{DeserializeGuard, Request};
use kube::{Client, Resource};
use serde_json::json;

use super::Cluster;
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

impl Cluster {
    /// StorageMigrations, each of which may turn out to be unreadable by itself.
    ///
    /// # Access
    /// `list` and `watch` on `storagemigrations`.
    #[must_use]
    pub fn migrations(&self) -> Api<DeserializeGuard<StorageMigration>> {
        Api::all(self.client.clone())
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
        let body = json!({
            "apiVersion": StorageMigration::api_version(&()),
            "kind": StorageMigration::kind(&()),
            "metadata": { "name": name, "uid": uid },
            "status": status,
        });
        let path = Request::new(StorageMigration::url_path(&(), None));
        // Server-side apply drops what the status no longer has. No field of it is anybody else's.
        let params = PatchParams::apply("restow").force();
        let request = path.patch_subresource("status", name, &params, &Patch::Apply(body));
        match self.call::<serde::de::IgnoredAny>(request).await {
            Ok(_) => StatusWritten::Done,
            Err(failure) if matches!(failure.code, Some(404 | 409)) => StatusWritten::Gone,
            Err(failure) => StatusWritten::Failed(failure),
        }
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
