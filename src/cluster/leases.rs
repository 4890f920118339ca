//! The identity Leases of the API servers: when each was last known to be awake.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Resource;
use kube::api::ListParams;
use kube::core::{ObjectList, Request};

use super::Cluster;
use crate::plan::{ApiServer, ApiServers, Failure};

/// What marks the identity Leases of API servers (k8s.io/kubernetes `pkg/controlplane/apiserver`, `IdentityLeaseComponentLabelKey`).
const SELECTOR: &str = "apiserver.kubernetes.io/identity=kube-apiserver";

/// The namespace that they are in.
const NAMESPACE: &str = "kube-system";

/// The label that names the server's host.
const HOST_LABEL: &str = "kubernetes.io/hostname";

/// How long a Lease holds where it doesn't say so (`IdentityLeaseDurationSeconds`).
const HOLDS_FOR: Duration = Duration::from_hours(1);

impl Cluster {
    /// Reads the identity Leases of the API servers.
    ///
    /// Where they can't be had, because of a missing right or because none are kept, the answer says so.
    ///
    /// # Errors
    /// If the server could not answer.
    ///
    /// # Access
    /// `list` on `leases` in the namespace `kube-system`.
    pub async fn api_servers(&self) -> Result<ApiServers, Failure> {
        let params = ListParams::default().labels(SELECTOR);
        let request = Request::new(Lease::url_path(&(), Some(NAMESPACE))).list(&params);
        let answer = match self.call::<ObjectList<Lease>>(request).await {
            Ok(answer) => answer,
            Err(failure) if matches!(failure.code, Some(403 | 404)) => {
                return Ok(ApiServers::Unknown(failure.to_string()));
            }
            Err(failure) => return Err(failure),
        };
        let Some(read_at) = answer.date else {
            return Ok(ApiServers::Unknown("the server doesn't tell its time".to_owned()));
        };
        let servers: Vec<ApiServer> = answer.body.items.into_iter().filter_map(server).collect();
        if servers.is_empty() {
            return Ok(ApiServers::Unknown("the API servers keep no identity Leases".to_owned()));
        }
        Ok(ApiServers::Known { servers, read_at })
    }
}

fn server(lease: Lease) -> Option<ApiServer> {
    let spec = lease.spec?;
    let identity = lease.metadata.name?;
    let host = lease.metadata.labels.as_ref().and_then(|labels| labels.get(HOST_LABEL));
    let holds_for = spec.lease_duration_seconds.and_then(|secs| u64::try_from(secs).ok());
    Some(ApiServer {
        host: host.cloned(),
        identity,
        renewed_at: spec.renew_time?.0,
        holds_for: holds_for.map_or(HOLDS_FOR, Duration::from_secs),
    })
}
