//! The control plane's kube-apiserver: its flags and when it is ready. Also further ones, each on a host of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use http::Request;
use kube::{Client, Config};

use super::certificates::Certificates;
use super::server::Server;
use super::{StartError, User, free_port, host, kubeconfig};
use crate::audit::{self, AuditLog};
use crate::binaries;
use crate::process::{Exit, ProcessError, Signal};

/// One API server, with a port that outlasts its process.
#[derive(Debug)]
pub struct ApiServer {
    server: Server,
    address: SocketAddr,
    audit_log: PathBuf,
    config: Config,
}

impl ApiServer {
    /// A server that keeps its files in `directory`. With a host it runs as if on that host: its identity, and so its
    /// Lease, is made from the host's name.
    pub(super) fn new(
        program: PathBuf,
        host: Option<&str>,
        directory: &Path,
        etcd: SocketAddr,
        certificates: &Certificates,
        users: &[User],
        flags: Vec<String>,
    ) -> Result<Self, StartError> {
        let address = free_port()?;
        let write = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text)
                .map(|()| path)
                .map_err(StartError::system("write the API server's files"))
        };
        let audit_log = AuditLog::path_for(directory);
        let files = Files {
            certificates,
            tokens: write("tokens.csv", &kubeconfig::token_file(users))?,
            audit_policy: write("audit-policy.json", audit::POLICY)?,
            audit_log: audit_log.clone(),
        };
        let mut args = arguments(address, etcd, &files);
        args.extend(binaries::api_server_flags().into_iter().chain(flags));
        let log = directory.join("kube-apiserver.log");
        let config = kubeconfig::config(&url(address), certificates, kubeconfig::ADMIN_TOKEN);
        let (program, args) = match host {
            Some(host) => host::command(host, program, args),
            None => (program, args.into_iter().map(Into::into).collect()),
        };
        Ok(Self { server: Server::new("kube-apiserver", program, args, log), address, audit_log, config })
    }

    /// The configuration of a client with all rights that talks to this server.
    #[must_use]
    pub fn admin_config(&self) -> Config {
        self.config.clone()
    }

    /// A client with all rights that talks to this server. It belongs to the async runtime it was made in.
    ///
    /// # Panics
    /// If called outside an async runtime.
    #[must_use]
    pub fn admin(&self) -> Client {
        Client::try_from(self.admin_config()).expect("a client of the API server")
    }

    /// Starts it, unless it runs, and waits until it says that it is ready.
    ///
    /// # Errors
    /// If it ends or is not ready in time.
    pub async fn start(&self) -> Result<(), StartError> {
        let client =
            Client::try_from(self.config.clone()).map_err(|error| StartError::Client(Box::new(error)))?;
        self.server
            .start(|| async {
                let request = Request::get("/readyz").body(vec![]);
                match request {
                    Ok(request) => client.request_text(request).await.is_ok(),
                    Err(_) => false,
                }
            })
            .await
    }

    /// Sends it a signal, such as [`Signal::Stop`] and [`Signal::Continue`].
    pub fn signal(&self, signal: Signal) {
        self.server.signal(signal);
    }

    /// Ends it with a signal and waits until it is gone. After [`Signal::Term`] it finishes the requests it has.
    ///
    /// # Errors
    /// If it does not end; it is killed then.
    pub async fn stop(&self, signal: Signal) -> Result<Exit, ProcessError> {
        self.server.stop(signal).await
    }

    /// Whether its process runs, paused or not.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.server.is_running()
    }

    /// Its process, if it was started and not stopped.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.server.pid()
    }

    /// Where it is, as `https://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> String {
        url(self.address)
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.server.log()
    }

    /// What it was asked.
    #[must_use]
    pub fn audit(&self) -> AuditLog {
        AuditLog::new(self.audit_log.clone())
    }
}

struct Files<'a> {
    certificates: &'a Certificates,
    tokens: PathBuf,
    audit_policy: PathBuf,
    audit_log: PathBuf,
}

fn url(address: SocketAddr) -> String {
    format!("https://{address}")
}

fn arguments(address: SocketAddr, etcd: SocketAddr, files: &Files<'_>) -> Vec<String> {
    let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let Files { certificates, tokens, audit_policy, audit_log } = files;
    vec![
        format!("--etcd-servers=http://{etcd}"),
        format!("--bind-address={}", address.ip()),
        // Without it the server looks for an interface that is not loopback, and there may be none.
        format!("--advertise-address={}", address.ip()),
        format!("--secure-port={}", address.port()),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        // Nobody connects to the Service `kubernetes` here.
        "--endpoint-reconciler-type=none".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--profiling=false".to_owned(),
        flag("tls-cert-file", &certificates.server_certificate),
        flag("tls-private-key-file", &certificates.server_key),
        flag("service-account-key-file", &certificates.token_public_key),
        flag("service-account-signing-key-file", &certificates.token_key),
        flag("token-auth-file", tokens),
        flag("audit-policy-file", audit_policy),
        flag("audit-log-path", audit_log),
    ]
}
