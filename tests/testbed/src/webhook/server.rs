//! HTTPS on a free port of loopback, until dropped. What is served is the caller's.

use super::{Error, Identity};
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// A listener and its connections; all of them end when it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    pub(super) async fn start(identity: &Identity, router: Router) -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(Error::Listen)?;
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
