//! What is served: `/livez` and `/readyz` to the kubelet, `/metrics` to Prometheus. None asks an API server or any target.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, serve};
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use super::health::{Check, Health};

/// The form that `OpenMetrics` defines, for those who ask for it.
const OPEN_METRICS: &str = "application/openmetrics-text";

/// Why nothing is served.
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

/// The server.
pub(super) struct Admin {
    listener: TcpListener,
    health: Health,
}

impl Admin {
    pub(super) async fn bind(address: SocketAddr, health: Health) -> Result<Self, AdminError> {
        let listener = match TcpListener::bind(address).await {
            // A node without IPv6: the default address means all addresses there are.
            Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
            }
            bound => bound,
        };
        let listener = listener.map_err(|source| AdminError::Bind { address, source })?;
        Ok(Self { listener, health })
    }

    /// Serves until it fails.
    pub(super) async fn serve(self, registry: Registry) -> AdminError {
        let livez = async |RawQuery(query), State(health): State<Health>| answer(&health.liveness(), query);
        let readyz = async |RawQuery(query), State(health): State<Health>| answer(&health.readiness(), query);
        let routes = Router::new()
            .route("/livez", get(livez))
            .route("/readyz", get(readyz))
            .with_state(self.health)
            .route("/metrics", get(metrics).with_state(Arc::new(registry)));
        match serve(self.listener, routes).await {
            Ok(()) => AdminError::Serve(std::io::ErrorKind::UnexpectedEof.into()),
            Err(error) => AdminError::Serve(error),
        }
    }
}

/// The answer of a probe: short if all is well, unless `?verbose` asks for each check.
fn answer(checks: &[Check], query: Option<String>) -> (StatusCode, String) {
    let failed = checks.iter().any(|(_, result)| result.is_err());
    let code = if failed { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let verbose = query.is_some_and(|query| query.split('&').any(|part| part.starts_with("verbose")));
    if !failed && !verbose {
        return (code, "ok".to_owned());
    }
    let mut text = String::new();
    for (name, result) in checks {
        // The form of the API server's own probes.
        let _ = match result {
            Ok(()) => writeln!(text, "[+]{name} ok"),
            Err(problem) => writeln!(text, "[-]{name} failed: {problem}"),
        };
    }
    (code, text)
}

async fn metrics(State(registry): State<Arc<Registry>>, headers: HeaderMap) -> Response {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut body = String::new();
    let (form, written) = if accepted.contains(OPEN_METRICS) {
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", text::encode(&mut body, &registry))
    } else {
        (prometheus_text::CONTENT_TYPE, prometheus_text::encode(&mut body, &registry))
    };
    match written {
        Ok(()) => ([(CONTENT_TYPE, form)], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
