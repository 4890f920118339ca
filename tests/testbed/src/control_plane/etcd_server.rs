//! The control plane's etcd: its flags and when it is ready.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::server::Server;
use super::{StartError, free_port};
use crate::process::{Exit, ProcessError, Signal};

/// One etcd, with a port and a data directory that outlast its process.
#[derive(Debug)]
pub struct EtcdServer {
    server: Server,
    address: SocketAddr,
}

impl EtcdServer {
    pub(super) fn new(
        program: PathBuf,
        directory: &Path,
        fsync: bool,
        flags: Vec<String>,
    ) -> Result<Self, StartError> {
        let address = free_port()?;
        let mut args = vec![
            format!("--data-dir={}", directory.join("etcd").display()),
            format!("--listen-client-urls=http://{address}"),
            format!("--advertise-client-urls=http://{address}"),
            // Any free port: it has no peers.
            "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        if !fsync {
            args.push("--unsafe-no-fsync".to_owned());
        }
        args.extend(flags);
        let args = args.into_iter().map(Into::into).collect();
        let server = Server::new("etcd", program, args, directory.join("etcd.log"));
        Ok(Self { server, address })
    }

    /// Starts it, unless it runs, and waits until it takes connections.
    ///
    /// # Errors
    /// If it ends or is not ready in time.
    pub async fn start(&self) -> Result<(), StartError> {
        self.server.start(|| async { tokio::net::TcpStream::connect(self.address).await.is_ok() }).await
    }

    /// Sends it a signal, such as [`Signal::Stop`] and [`Signal::Continue`].
    pub fn signal(&self, signal: Signal) {
        self.server.signal(signal);
    }

    /// Ends it with a signal and waits until it is gone.
    ///
    /// # Errors
    /// If it does not end; it is killed then.
    pub async fn stop(&self, signal: Signal) -> Result<Exit, ProcessError> {
        self.server.stop(signal).await
    }

    /// Its process, if it was started and not stopped.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.server.pid()
    }

    /// Where it serves clients.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.server.log()
    }
}
