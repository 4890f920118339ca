//! How restow connects: where the configuration comes from and what is changed in it.

use http::header::{HeaderValue, USER_AGENT};
use kube::config::{InferConfigError, KubeConfigOptions, KubeconfigError};
use kube::{Client, Config};

use super::gate::Gate;
use super::managed_fields::Stripped;
use super::wire;
use crate::metrics::Metrics;

/// What restow calls itself in the audit log.
const AGENT: &str = concat!("restow/", env!("CARGO_PKG_VERSION"));

/// A connection to a cluster.
#[derive(Clone)]
pub struct Cluster {
    pub(super) client: Client,
    pub(super) stripped: Stripped,
    gate: Gate,
    metrics: Metrics,
}

/// Why no connection can be made. The user must act: nothing was sent yet.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Neither a kubeconfig nor the service account of a pod was found.
    #[error("find a kubeconfig or the service account of a pod")]
    Infer(#[source] InferConfigError),
    /// The kubeconfig can't be used.
    #[error("read the kubeconfig with context {context:?}")]
    Kubeconfig {
        /// The context that was asked for.
        context: String,
        /// What is wrong.
        source: KubeconfigError,
    },
    /// The configuration asks for a proxy.
    #[error("connect through the proxy {url}: proxies are not supported")]
    Proxy {
        /// The proxy.
        url: String,
    },
    /// The configuration can't be turned into a client.
    #[error("set up the client")]
    Client(#[source] kube::Error),
}

impl Cluster {
    /// Connects with `KUBECONFIG`, `~/.kube/config` or the service account of the pod, in this order. No write leaves while
    /// `gate` is shut.
    ///
    /// # Errors
    /// If there is no usable configuration. No request is sent.
    pub async fn connect(context: Option<&str>, gate: Gate) -> Result<Self, ConnectError> {
        let config = match context {
            None => Config::infer().await.map_err(ConnectError::Infer)?,
            Some(context) => {
                let options =
                    KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
                Config::from_kubeconfig(&options)
                    .await
                    .map_err(|source| ConnectError::Kubeconfig { context: context.to_owned(), source })?
            }
        };
        Self::new(config, gate)
    }

    /// Connects with a configuration. No write leaves while `gate` is shut.
    ///
    /// # Errors
    /// If the configuration can't be turned into a client, for example because a certificate can't be parsed.
    pub fn new(mut config: Config, gate: Gate) -> Result<Self, ConnectError> {
        if let Some(url) = &config.proxy_url {
            return Err(ConnectError::Proxy { url: url.to_string() });
        }
        config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
        let metrics = Metrics::default();
        let client = wire::client(config, gate.clone(), &metrics).map_err(ConnectError::Client)?;
        Ok(Self { client, stripped: Stripped::default(), gate, metrics })
    }
}

impl Cluster {
    /// What each write passes.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The namespace of the pod, or of the kubeconfig's context.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.client.default_namespace()
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}
