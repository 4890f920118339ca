//! HTTPS on an address, until dropped. What is served is the caller's.

use super::{Error, Identity};
use axum::Router;
use backon::{ConstantBuilder, Retryable as _};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// Between two tries to have a port.
const BIND_PAUSE: Duration = Duration::from_millis(50);
/// How often a port is tried again.
const BIND_TRIES_MAX: usize = 100;

/// A listener and its connections; all of them end when it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens on this address; with port 0, on any free port.
    pub(super) async fn start(
        identity: &Identity,
        router: Router,
        address: SocketAddr,
    ) -> Result<Self, Error> {
        let bind = || TcpListener::bind(address);
        // A listener that was dropped a moment ago is closed when its task has ended.
        let pauses = ConstantBuilder::new().with_delay(BIND_PAUSE).with_max_times(BIND_TRIES_MAX);
        let listener = bind.retry(pauses).await.map_err(Error::Listen)?;
        let address = listener.local_addr().map_err(Error::Listen)?;
        let task = tokio::spawn(accept(listener, identity.tls().into(), router));
        Ok(Self { address, task })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Each connection has a task, in a set that is aborted as a whole when this one is.
async fn accept(listener: TcpListener, tls: TlsAcceptor, router: Router) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve(stream, tls.clone(), router.clone()));
            }
            Err(error) => tracing::warn!(%error, "accept a connection to the webhook"),
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, router: Router) {
    let stream = match tls.accept(stream).await {
        Ok(stream) => TokioIo::new(stream),
        Err(error) => return tracing::debug!(%error, "TLS handshake with the webhook"),
    };
    let service = TowerToHyperService::new(router);
    if let Err(error) = Builder::new(TokioExecutor::new()).serve_connection(stream, service).await {
        tracing::debug!(%error, "connection to the webhook");
    }
}
