//! A whole control plane on loopback: one etcd, one kube-apiserver (or more, if asked), ready in a few seconds.
//!
//! There is no controller manager, so nothing happens here that a test does not do: no garbage collection, no namespace
//! deletion, no role aggregation, no built-in migrator. Its data is thrown away with it.

mod api_server;
mod certificates;
mod etcd_server;
mod host;
mod kubeconfig;
mod server;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client, Config};
use tokio::sync::OnceCell;

pub use self::api_server::ApiServer;
use self::certificates::Certificates;
pub use self::etcd_server::EtcdServer;
use crate::audit::AuditLog;
use crate::binaries::{BinaryError, Program};
use crate::etcd::Etcd;
use crate::process::ProcessError;
use crate::workdir::WorkDir;

/// How often a start is tried: another process may take a port between our finding it free and our use of it.
const START_ATTEMPTS: usize = 3;
/// How long a ServiceAccount's token is good for: longer than any run.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

/// What may differ between control planes.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Let etcd wait for the disk, as a real one does: for benchmarks. Tests are faster without.
    pub fsync: bool,
    /// Further flags of kube-apiserver, after (and so over) those of the bench.
    pub api_server_flags: Vec<String>,
    /// Further flags of etcd, such as `--quota-backend-bytes=…`.
    pub etcd_flags: Vec<String>,
    /// Further names and addresses that the API server's certificate is for.
    pub server_names: Vec<String>,
    /// Who may log in besides the admin.
    pub users: Vec<User>,
}

/// A user of the API server, with a token of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name; RBAC says what it may do.
    pub name: &'static str,
    /// A group that it is in.
    pub group: &'static str,
}

impl User {
    /// What it shows to be let in. It is no secret: the server is reached from the test alone.
    #[must_use]
    pub fn token(self) -> String {
        format!("testbed-{}", self.name.replace(':', "-"))
    }
}

/// A running control plane. Dropping it stops it and removes its data.
#[derive(Debug)]
pub struct ControlPlane {
    // In the order of dropping: the server before its store, the store before its files.
    api_server: ApiServer,
    etcd: EtcdServer,
    workdir: WorkDir,
    certificates: Certificates,
    files: AtomicUsize,
    pub(crate) access: crate::access::State,
}

/// Why a control plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A program can't be had.
    #[error("get the control plane's programs")]
    Binary(#[from] BinaryError),
    /// A file or a port can't be had.
    #[error("{action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The certificates could not be made.
    #[error("make the control plane's certificates")]
    Certificates(#[source] rcgen::Error),
    /// A process could not be started.
    #[error("start the control plane")]
    Process(#[from] ProcessError),
    /// A program ended, or was not ready in time.
    #[error("wait for {program} to be ready: {problem}; the end of its log:\n{log}")]
    NotReady {
        /// The program.
        program: &'static str,
        /// Ended, or too late.
        problem: String,
        /// The last lines it wrote.
        log: String,
    },
    /// A process can't be given a host of its own, as a further API server needs.
    #[error(
        "give an API server the host {host}: `unshare` must be allowed new UTS namespaces, as root or with user namespaces: {said}"
    )]
    Host {
        /// The name of the host.
        host: String,
        /// What the system said.
        said: String,
    },
    /// No client could be made for it.
    #[error("make a client of the API server")]
    Client(#[source] Box<kube::Error>),
}

impl StartError {
    fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }

    fn is_port_taken(&self) -> bool {
        matches!(self, Self::NotReady { log, .. } if log.contains("address already in use"))
    }
}

impl ControlPlane {
    /// Starts a control plane of one's own and waits until it is ready. The first ever start builds the programs.
    ///
    /// # Errors
    /// If a program can't be had or is not ready in time; the error has the end of its log.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let mut attempt = 1;
        loop {
            match Self::try_start(options.clone()).await {
                Err(error) if error.is_port_taken() && attempt < START_ATTEMPTS => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    /// The control plane that all tests of this process share, started by the first that asks.
    ///
    /// # Panics
    /// If it can't be started.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        match SHARED.get_or_try_init(|| Self::start(Options::default())).await {
            Ok(plane) => plane,
            Err(error) => panic!("start the shared control plane: {}", chain(&error)),
        }
    }

    async fn try_start(options: Options) -> Result<Self, StartError> {
        let [etcd_program, api_server_program] = programs().await?;
        let workdir =
            WorkDir::create().map_err(StartError::system("create a directory for the control plane"))?;
        let certificates = Certificates::create(workdir.path(), options.server_names)?;
        let etcd = EtcdServer::new(etcd_program, workdir.path(), options.fsync, options.etcd_flags)?;
        etcd.start().await?;
        let (users, flags) = (&options.users, options.api_server_flags);
        let (program, address) = (api_server_program, etcd.address());
        let api_server = ApiServer::new(program, None, workdir.path(), address, &certificates, users, flags)?;
        api_server.start().await?;
        let access = crate::access::State::default();
        Ok(Self { api_server, etcd, workdir, certificates, files: AtomicUsize::new(0), access })
    }

    /// Starts a further API server on the same etcd, as if on a host of that name, and waits until it is ready. The
    /// tokens of the admin and of ServiceAccounts are good at all of them.
    ///
    /// # Errors
    /// If it is not ready in time, or a host can't be had: for that one has to be root, or user namespaces be allowed.
    pub async fn start_another(&self, host: &str) -> Result<ApiServer, StartError> {
        host::check(host)?;
        let [_, program] = programs().await?;
        // Named so that its log is nobody else's where all logs are kept.
        let own = self.workdir.path().file_name().unwrap_or_default().to_string_lossy();
        let directory = self.new_path(&format!("{own}-{host}"));
        std::fs::create_dir(&directory)
            .map_err(StartError::system("create a directory for an API server"))?;
        let mut attempt = 1;
        loop {
            let etcd = self.etcd.address();
            let server = ApiServer::new(
                program.clone(),
                Some(host),
                &directory,
                etcd,
                &self.certificates,
                &[],
                vec![],
            )?;
            match server.start().await {
                Err(error) if error.is_port_taken() && attempt < START_ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
                Ok(()) => return Ok(server),
            }
        }
    }

    /// A client with all rights. It belongs to the async runtime it was made in, so make one in each test.
    ///
    /// # Panics
    /// If called outside an async runtime.
    #[must_use]
    pub fn admin(&self) -> Client {
        Client::try_from(self.admin_config()).expect("a client of the control plane")
    }

    /// The configuration of a client with all rights.
    #[must_use]
    pub fn admin_config(&self) -> Config {
        self.config_for_token(kubeconfig::ADMIN_TOKEN)
    }

    /// The configuration of a client that shows this token. kube's own retries are off, so that tests see each answer.
    #[must_use]
    pub fn config_for_token(&self, token: &str) -> Config {
        kubeconfig::config(&self.server_url(), &self.certificates, token)
    }

    /// A token of a ServiceAccount, from the TokenRequest API. The account must exist.
    ///
    /// # Panics
    /// If the API server refuses.
    pub async fn service_account_token(&self, namespace: &str, name: &str) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin(), namespace);
        let spec =
            TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() };
        let wanted = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let granted = accounts.create_token_request(name, &PostParams::default(), &wanted).await;
        let status = granted.expect("the API server grants a token").status;
        status.and_then(|status| status.token).expect("a granted request holds its token")
    }

    /// The text of a kubeconfig for this token, for kubectl and the product.
    #[must_use]
    pub fn kubeconfig(&self, token: &str) -> String {
        self.kubeconfig_through(&self.server_url(), token)
    }

    /// The text of a kubeconfig whose server is something in front of the API server. The certificate is verified
    /// against the control plane's own authority, so what stands in front must show one of its certificates.
    #[must_use]
    pub fn kubeconfig_through(&self, server_url: &str, token: &str) -> String {
        kubeconfig::text(server_url, &self.certificates, token)
    }

    /// A file with [`ControlPlane::kubeconfig`], gone with the control plane.
    #[must_use]
    pub fn kubeconfig_file(&self, token: &str) -> PathBuf {
        self.write_file("kubeconfig", &self.kubeconfig(token))
    }

    /// A file with an admin's kubeconfig.
    #[must_use]
    pub fn admin_kubeconfig_file(&self) -> PathBuf {
        self.kubeconfig_file(kubeconfig::ADMIN_TOKEN)
    }

    /// Runs kubectl as admin to its end.
    ///
    /// # Errors
    /// If kubectl can't be had (the first use builds it) or not be run. That it failed is in the output.
    pub async fn kubectl(&self, args: &[&str]) -> Result<Output, StartError> {
        let kubectl = blocking(|| Program::Kubectl.path()).await?;
        let mut command = tokio::process::Command::new(kubectl);
        command.arg("--kubeconfig").arg(self.admin_kubeconfig_file()).args(args).kill_on_drop(true);
        command.env("KUBECACHEDIR", self.workdir.path().join("kubectl")).stdin(std::process::Stdio::null());
        command.output().await.map_err(StartError::system("run kubectl"))
    }

    /// The certificate of the authority that vouches for the API server, PEM.
    #[must_use]
    pub fn authority(&self) -> &Path {
        &self.certificates.authority
    }

    /// The key that ServiceAccount tokens are signed with, PEM.
    #[must_use]
    pub fn token_key(&self) -> &Path {
        &self.certificates.token_key
    }

    /// Where the API server is, as `https://127.0.0.1:port`.
    #[must_use]
    pub fn server_url(&self) -> String {
        self.api_server.url()
    }

    /// The API server, to stop, pause and restart it.
    #[must_use]
    pub fn api_server(&self) -> &ApiServer {
        &self.api_server
    }

    /// The etcd server, to stop, pause and restart it.
    #[must_use]
    pub fn etcd_server(&self) -> &EtcdServer {
        &self.etcd
    }

    /// What etcd holds.
    #[must_use]
    pub fn etcd(&self) -> Etcd {
        Etcd::new(self.etcd.address())
    }

    /// What the API server was asked.
    #[must_use]
    pub fn audit(&self) -> AuditLog {
        self.api_server.audit()
    }

    /// A directory for files that may go with the control plane.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.workdir.path()
    }

    /// A path in [`ControlPlane::directory`] that nobody else is given.
    #[must_use]
    pub fn new_path(&self, name: &str) -> PathBuf {
        self.workdir.path().join(format!("{name}-{}", self.files.fetch_add(1, Ordering::Relaxed)))
    }

    fn write_file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.new_path(name);
        std::fs::write(&path, text).expect("the control plane's directory can be written");
        path
    }
}

async fn programs() -> Result<[PathBuf; 2], BinaryError> {
    blocking(|| Ok([Program::Etcd.path()?, Program::ApiServer.path()?])).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("looking for a program does not panic")
}

/// A port that was free a moment ago.
fn free_port() -> Result<SocketAddr, StartError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(StartError::system("find a free port"))
}

/// An error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |cause| cause.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
