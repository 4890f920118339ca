//! The Lease that says which of several controllers is at work. Its requests pass the gate that hangs on it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Resource;
use kube::api::{GetParams, PostParams};
use kube::core::Request;

use super::Cluster;
use super::wire::Ungated;
use crate::plan::{Election, Failure, LeaseSight};

/// How long a Lease that was released holds: it can't be zero (client-go, `leaderelection.release`).
const RELEASED_SECS: i32 = 1;

/// The Lease as read or written last.
#[derive(Clone, Debug)]
pub struct OwnLease(Lease);

impl OwnLease {
    /// A Lease that is not there yet.
    #[must_use]
    pub fn absent(name: &str) -> Self {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        Self(Lease { metadata, spec: None })
    }

    /// What it says; `None` if it is not there.
    #[must_use]
    pub fn sight(&self) -> Option<LeaseSight> {
        let resource_version = self.0.metadata.resource_version.clone()?;
        let spec = self.0.spec.clone().unwrap_or_default();
        let secs = spec.lease_duration_seconds.and_then(|secs| u64::try_from(secs).ok());
        Some(LeaseSight {
            holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
            resource_version,
            holds_for: secs.map(Duration::from_secs),
        })
    }

    /// The same, held by the candidate.
    #[must_use]
    pub fn held(&self, election: &Election) -> Self {
        let before = self.0.spec.clone().unwrap_or_default();
        let now = MicroTime(Timestamp::now());
        let is_new = before.holder_identity.as_deref() != Some(election.identity());
        let transitions = before.lease_transitions.unwrap_or_default();
        let spec = LeaseSpec {
            holder_identity: Some(election.identity().to_owned()),
            lease_duration_seconds: i32::try_from(election.times().lease.as_secs()).ok(),
            acquire_time: if is_new { Some(now.clone()) } else { before.acquire_time.clone() },
            renew_time: Some(now),
            lease_transitions: Some(transitions + i32::from(is_new)),
            ..before
        };
        Self(Lease { metadata: self.0.metadata.clone(), spec: Some(spec) })
    }

    /// The same, held by nobody.
    #[must_use]
    pub fn released(&self) -> Self {
        let spec = LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(RELEASED_SECS),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..self.0.spec.clone().unwrap_or_default()
        };
        Self(Lease { metadata: self.0.metadata.clone(), spec: Some(spec) })
    }
}

impl Cluster {
    /// Reads a Lease; an absent one if there is none.
    ///
    /// # Errors
    /// If the server could not answer.
    ///
    /// # Access
    /// `get` on this one of `leases` in restow's own namespace.
    pub async fn read_lease(&self, namespace: &str, name: &str) -> Result<OwnLease, Failure> {
        let path = Request::new(Lease::url_path(&(), Some(namespace)));
        match self.call(path.get(name, &GetParams::default())).await {
            Ok(answer) => Ok(OwnLease(answer.body)),
            Err(failure) if failure.code == Some(404) => Ok(OwnLease::absent(name)),
            Err(failure) => Err(failure),
        }
    }

    /// Writes a Lease, provided that nobody has written it since it was read.
    ///
    /// # Errors
    /// If somebody has (409, or 404 if it is gone), or the server could not answer.
    ///
    /// # Access
    /// `create` on `leases` and `update` on this one of them, in restow's own namespace.
    pub async fn write_lease(&self, namespace: &str, lease: &OwnLease) -> Result<OwnLease, Failure> {
        let path = Request::new(Lease::url_path(&(), Some(namespace)));
        let body = serde_json::to_vec(&lease.0)
            .map_err(|error| Failure { message: format!("write a Lease: {error}"), ..Failure::default() })?;
        let metadata = &lease.0.metadata;
        let request = match &metadata.resource_version {
            Some(_) => {
                path.replace(metadata.name.as_deref().unwrap_or_default(), &PostParams::default(), body)
            }
            None => path.create(&PostParams::default(), body),
        };
        let ungated = request.map(|mut request| {
            request.extensions_mut().insert(Ungated);
            request
        });
        self.call(ungated).await.map(|answer| OwnLease(answer.body))
    }
}
