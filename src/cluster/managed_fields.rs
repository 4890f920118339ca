//! `managedFields` that an API server took away in a write, and how they come back.
//!
//! Before Kubernetes 1.37 a server that can't convert an object to the version of one of its entries lets the write pass and
//! takes all entries away (<https://github.com/kubernetes/kubernetes/issues/136919>). A conversion webhook that is down for a
//! moment is enough, and nobody can work them out again. What the object was before is in etcd's history until that is
//! compacted, at the revision before the write's own. It is read at once, and kept here until the server takes it back, for
//! as long as the process runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::api::{ListParams, VersionMatch};
use kube::core::Request;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Cluster;
use super::objects::url_path;
use crate::plan::{Failure, Object, Target, Written};

/// So many objects may wait for their entries. A target is left alone when a few visits in a row have failed, so there are never
/// more than are under way at once, and a few.
const STRIPPED_MAX: usize = 1000;

/// The entries of objects, by uid, that the server has taken away and not taken back yet. Copies are the same.
#[derive(Clone, Default)]
pub(super) struct Stripped(Arc<Mutex<HashMap<String, Vec<Value>>>>);

#[derive(Deserialize)]
struct Managed {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    resource_version: String,
    managed_fields: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct List {
    // An empty list is answered as null.
    items: Option<Vec<Managed>>,
}

impl Cluster {
    /// Gives an object the entries that it had before a write that left it as `written` and without any. Answers what it is
    /// then. Where it had none, or the history doesn't go back so far, that is as before.
    ///
    /// # Errors
    /// If the server can't say what they were, or takes them away once more.
    ///
    /// # Access
    /// `list` and `patch` on the resource.
    pub(super) async fn restore_managers(
        &self,
        target: &Target,
        object: &Object,
        written: Written,
    ) -> Result<Written, Failure> {
        let entries = match self.stripped.of(&written.uid) {
            Some(entries) => entries,
            None => self.managers_before(target, object, &written).await?,
        };
        if entries.is_empty() {
            return Ok(written);
        }
        self.stripped.keep(&written.uid, &entries);
        // Only as long as nobody else has written: what others see to is theirs.
        let Written { uid, resource_version } = written;
        let metadata = json!({ "uid": uid, "resourceVersion": resource_version, "managedFields": entries });
        let answer: Managed = self.patch(target, object, json!({ "metadata": metadata })).await?;
        let Metadata { uid, resource_version, managed_fields } = answer.metadata;
        if managed_fields.is_none_or(|entries| entries.is_empty()) {
            return Err(self.why_stripped(target, object).await);
        }
        self.stripped.forget(&uid);
        Ok(Written { uid, resource_version })
    }

    /// The entries that an object had before the write that left it as `written`.
    async fn managers_before(
        &self,
        target: &Target,
        object: &Object,
        written: &Written,
    ) -> Result<Vec<Value>, Failure> {
        // It is a revision of etcd, of which each write has its own.
        let revision = written.resource_version.parse::<u64>().ok().and_then(|it| it.checked_sub(1));
        let Some(before) = revision else { return Ok(Vec::new()) };
        let params = ListParams::default()
            .fields(&format!("metadata.name={}", object.name))
            .at(&before.to_string())
            .matching(VersionMatch::Exact);
        let mut listed = self.list_managed(target, target.version(), object, &params).await;
        // In the version that it was stored in then it needs no conversion.
        for version in target.other_versions() {
            if listed.as_ref().err().is_none_or(|failure| failure.code == Some(410)) {
                break;
            }
            listed = self.list_managed(target, version, object, &params).await;
        }
        let items = match listed {
            Err(failure) if failure.code == Some(410) => {
                tracing::warn!(%object, "the API server took its managedFields away, and has no history of them");
                Vec::new()
            }
            listed => listed?,
        };
        let same = items.into_iter().map(|item| item.metadata).find(|it| it.uid == written.uid);
        Ok(same.and_then(|it| it.managed_fields).unwrap_or_default())
    }

    /// What the webhook's silence is in the server's own words, if that is why.
    async fn why_stripped(&self, target: &Target, object: &Object) -> Failure {
        for version in target.other_versions() {
            if let Some(failure) = self.silence(target, version, object).await {
                return failure;
            }
        }
        stripped()
    }

    async fn list_managed(
        &self,
        target: &Target,
        version: &str,
        object: &Object,
        params: &ListParams,
    ) -> Result<Vec<Managed>, Failure> {
        let path = Request::new(url_path(target, version, object.namespace.as_deref()));
        Ok(self.call::<List>(path.list_metadata(params)).await?.body.items.unwrap_or_default())
    }
}

impl Stripped {
    fn of(&self, uid: &str) -> Option<Vec<Value>> {
        self.entries().get(uid).cloned()
    }

    /// Whether entries of this object wait here.
    pub(super) fn has(&self, uid: &str) -> bool {
        self.entries().contains_key(uid)
    }

    fn keep(&self, uid: &str, entries: &[Value]) {
        let mut kept = self.entries();
        if kept.len() < STRIPPED_MAX {
            kept.insert(uid.to_owned(), entries.to_vec());
        }
    }

    /// The object has entries again.
    pub(super) fn forget(&self, uid: &str) {
        self.entries().remove(uid);
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<String, Vec<Value>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stripped() -> Failure {
    let message = "the API server took away its managedFields, since it could not convert the object to the versions that they name; they are put back as soon as it can";
    Failure {
        code: Some(500),
        reason: "ManagedFieldsLost".to_owned(),
        message: message.to_owned(),
        ..Failure::default()
    }
}
