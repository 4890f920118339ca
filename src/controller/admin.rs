//! Health for the kubelet: `/livez` and `/readyz`. Neither asks an API server or any target.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Router, serve};
use tokio::net::TcpListener;

/// Why health isn't served.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address can't be listened on.
    #[error("listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What is wrong with it.
        source: std::io::Error,
    },
    /// The server ended.
    #[error("accept connections")]
    Serve(#[source] std::io::Error),
}

/// Whether all CRDs are known.
#[derive(Clone, Debug, Default)]
pub(super) struct Ready(Arc<AtomicBool>);

/// The server of health.
pub(super) struct Admin {
    listener: TcpListener,
    ready: Ready,
}

impl Ready {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Admin {
    pub(super) async fn bind(address: SocketAddr) -> Result<Self, AdminError> {
        let listener = match TcpListener::bind(address).await {
            // A node without IPv6: the default address means all addresses there are.
            Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
            }
            bound => bound,
        };
        let listener = listener.map_err(|source| AdminError::Bind { address, source })?;
        Ok(Self { listener, ready: Ready::default() })
    }

    pub(super) fn ready(&self) -> Ready {
        self.ready.clone()
    }

    /// Serves until it fails.
    pub(super) async fn serve(self) -> AdminError {
        let routes = Router::new()
            .route("/livez", get(async || "ok"))
            .route("/readyz", get(readyz))
            .with_state(self.ready);
        match serve(self.listener, routes).await {
            Ok(()) => AdminError::Serve(std::io::ErrorKind::UnexpectedEof.into()),
            Err(error) => AdminError::Serve(error),
        }
    }
}

async fn readyz(State(ready): State<Ready>) -> (StatusCode, &'static str) {
    if ready.is_set() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "CustomResourceDefinitions are not known yet")
    }
}
