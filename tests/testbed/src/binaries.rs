//! Where the programs of the bench come from. Those of the control plane: from the directory named by
//! `KUBEBUILDER_ASSETS`, else from the user's cache, else a build from the Go module in `control-plane/`, once, into that
//! cache. `RESTOW_KUBERNETES` asks for an older API server, of a module in `control-plane/older/`. The others: from the cache or a build from the Go modules in `helm/`, `promtool/` and `judge/`.
//!
//! A build takes minutes, so it says on standard error what it does. Two processes never build at the same time, and a
//! program appears in the cache whole or not at all. Nothing is started here.

mod module;

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use self::module::{CONTROL_PLANE, HELM, JUDGE, Module, PROMTOOL};

/// Environment variable naming a directory that has the programs already, as for envtest.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// A program of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// The command line client.
    Kubectl,
    /// The controller manager, home of the built-in migrator: only the benchmark and the node want it.
    ControllerManager,
    /// What gives pods a node: only the node wants it.
    Scheduler,
    /// What runs pods: only the node wants it.
    Kubelet,
    /// What makes Services reachable: only the node wants it.
    Proxy,
    /// The package manager: only tests of the chart want it.
    Helm,
    /// What checks metrics and alerts: only their tests want it.
    Promtool,
    /// What says what other tools make of an object ([`crate::judge`]).
    Judge,
}

/// Why a program can't be had.
#[derive(Debug, thiserror::Error)]
pub enum BinaryError {
    /// The directory that was named lacks it.
    #[error("find {program} in {}, which {ASSETS} names: there is no such file", directory.display())]
    NotInAssets {
        /// The file's name.
        program: &'static str,
        /// The directory.
        directory: PathBuf,
    },
    /// Neither `XDG_CACHE_HOME` nor `HOME` is set.
    #[error("find a cache directory for the control plane: set HOME, XDG_CACHE_HOME or {ASSETS}")]
    NoCache,
    /// There is no Go to build it with.
    #[error(
        "build {program}: there is no `go` on PATH. Install Go 1.26 or later, or set {ASSETS} to a directory that has \
         etcd, kube-apiserver and kubectl (`setup-envtest use -p path` prints one)"
    )]
    NoGo {
        /// The program.
        program: &'static str,
    },
    /// Go failed; what it said is on standard error.
    #[error("build {program}: go build ended with {status}, see above for what it said")]
    Build {
        /// The program.
        program: &'static str,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// Go can't get at it.
    #[error("download {module}: {said}")]
    Download {
        /// The module.
        module: &'static str,
        /// What Go said.
        said: String,
    },
    /// The cache can't be used.
    #[error("{action} {}", path.display())]
    Cache {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Flags without which the API server that was asked for lacks a kind that the newest one has.
pub(crate) fn api_server_flags() -> Vec<String> {
    module::api_server_flags()
}

impl Program {
    /// The name of its file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::Kubectl => "kubectl",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubelet => "kubelet",
            Self::Proxy => "kube-proxy",
            Self::Helm => "helm",
            Self::Promtool => "promtool",
            Self::Judge => "judge",
        }
    }

    /// The Go package it is built from.
    fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::ApiServer => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::ControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::Scheduler => "k8s.io/kubernetes/cmd/kube-scheduler",
            Self::Kubelet => "k8s.io/kubernetes/cmd/kubelet",
            Self::Proxy => "k8s.io/kubernetes/cmd/kube-proxy",
            Self::Helm => "helm.sh/helm/v4/cmd/helm",
            Self::Promtool => "github.com/prometheus/prometheus/cmd/promtool",
            Self::Judge => "restow.dev/testbed/judge",
        }
    }

    /// The version that is built.
    fn version(self) -> &'static str {
        match self {
            Self::Etcd => CONTROL_PLANE.required("go.etcd.io/etcd/server/v3"),
            Self::ApiServer
            | Self::Kubectl
            | Self::ControllerManager
            | Self::Scheduler
            | Self::Kubelet
            | Self::Proxy => self.module().required("k8s.io/kubernetes"),
            Self::Helm => HELM.required("helm.sh/helm/v4"),
            Self::Promtool => PROMTOOL.required("github.com/prometheus/prometheus"),
            Self::Judge => JUDGE.required("sigs.k8s.io/cli-utils"),
        }
    }

    /// The Go module that builds it.
    fn module(self) -> &'static Module {
        match self {
            Self::ApiServer => module::api_server(),
            Self::Etcd
            | Self::Kubectl
            | Self::ControllerManager
            | Self::Scheduler
            | Self::Kubelet
            | Self::Proxy => &CONTROL_PLANE,
            Self::Helm => &HELM,
            Self::Promtool => &PROMTOOL,
            Self::Judge => &JUDGE,
        }
    }

    /// The directory that the user names for it, if one does.
    fn assets(self) -> Option<PathBuf> {
        if self.module().directory.starts_with(CONTROL_PLANE.directory) { home(ASSETS) } else { None }
    }

    /// What the program is to be told at its build. Without it, the control plane calls itself `v0.0.0-master`, and clients
    /// that look at its version go wrong.
    fn linker_flags(self) -> String {
        let version = self.version();
        let set = |flags: String, (name, value): (&str, &str)| flags + &format!(" -X {name}={value}");
        let stripped = String::from("-s -w");
        if matches!(self, Self::Promtool | Self::Judge) {
            return stripped;
        }
        if self == Self::Helm {
            return set(stripped, ("helm.sh/helm/v4/internal/version.version", version));
        }
        let mut numbers = version.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        [
            ("k8s.io/component-base/version.gitVersion", version),
            ("k8s.io/component-base/version.gitMajor", major),
            ("k8s.io/component-base/version.gitMinor", minor),
            ("k8s.io/component-base/version.gitTreeState", "clean"),
            ("k8s.io/component-base/version.gitCommit", "none"),
        ]
        .into_iter()
        .fold(stripped, set)
    }

    /// The path of the program, building it first if it has to be. Blocks, for minutes if it builds.
    ///
    /// # Errors
    /// If it is nowhere and can't be built. It is never skipped in silence.
    pub fn path(self) -> Result<PathBuf, BinaryError> {
        if let Some(directory) = self.assets() {
            let path = directory.join(self.name());
            return if path.is_file() {
                Ok(path)
            } else {
                Err(BinaryError::NotInAssets { program: self.name(), directory })
            };
        }
        let directory = self.module().cache()?;
        let path = directory.join(self.name());
        if !path.is_file() {
            self.build_once(&directory, &path)?;
        }
        Ok(path)
    }

    fn build_once(self, directory: &Path, path: &Path) -> Result<(), BinaryError> {
        let failed = |action| move |source| BinaryError::Cache { action, path: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(failed("create"))?;
        // The lock goes with the file handle, so a killed builder leaves none behind.
        let lock = File::create(directory.join("lock")).map_err(failed("open the lock in"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                say(&format!("another process builds programs in {}, waiting for it", directory.display()));
                lock.lock().map_err(failed("lock"))?;
            }
            Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
        }
        if path.is_file() {
            return Ok(());
        }
        let partial = directory.join(format!("{}.partial", self.name()));
        self.build(&partial)?;
        fs::rename(&partial, path).map_err(failed("move the built program into place in"))
    }

    fn build(self, output: &Path) -> Result<(), BinaryError> {
        let program = self.name();
        say(&format!(
            "building {program} {} from source, once, into {} (with two cores: etcd 1 to 2 minutes, kube-apiserver 4 \
             to 8, kubectl 1, Helm 2, promtool 2, judge 1, kubelet 3 to 5)",
            self.version(),
            output.display()
        ));
        let begun = Instant::now();
        let status = Command::new("go")
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(self.module().directory))
            .env("CGO_ENABLED", "0")
            // A workspace or flags of the machine's own are not for this module.
            .env("GOWORK", "off")
            .env_remove("GOFLAGS")
            .args([
                "build",
                "-mod=readonly",
                "-trimpath",
                "-buildvcs=false",
                // Without it promtool takes the clients of every cloud with it, and five times as long.
                "-tags=remove_all_sd",
                "-ldflags",
                &self.linker_flags(),
                "-o",
            ])
            .arg(output)
            .arg(self.package())
            .stdin(Stdio::null())
            .stdout(io::stderr())
            .status();
        match status {
            Ok(status) if status.success() => {
                say(&format!("built {program} in {} s", begun.elapsed().as_secs()));
                Ok(())
            }
            Ok(status) => Err(BinaryError::Build { program, status }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(BinaryError::NoGo { program }),
            Err(source) => Err(BinaryError::Cache { action: "run go for", path: output.to_owned(), source }),
        }
    }
}

/// The Kubernetes version of the API server that is built, with its `v`.
#[must_use]
pub fn kubernetes_version() -> &'static str {
    Program::ApiServer.version()
}

/// The files of a Go module, such as `example.com/name@v1.2.3`, downloaded if they have to be.
///
/// # Errors
/// If they can't be had.
pub fn downloaded(module: &'static str) -> Result<PathBuf, BinaryError> {
    let output = Command::new("go")
        .current_dir(std::env::temp_dir())
        .env("GOWORK", "off")
        .env_remove("GOFLAGS")
        .args(["mod", "download", "-json", module])
        .output()
        .map_err(|_| BinaryError::NoGo { program: module })?;
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match said["Dir"].as_str() {
        Some(directory) => Ok(directory.into()),
        None => Err(BinaryError::Download { module, said: said["Error"].to_string() }),
    }
}

/// A directory named by an environment variable.
fn home(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Writes to standard error itself: the test harness would keep a printed line back until the test has failed.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "testbed: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_are_those_of_the_go_module() {
        assert!(kubernetes_version().starts_with("v1."), "{}", kubernetes_version());
        let flags = Program::ApiServer.linker_flags();
        assert!(flags.contains("gitMajor=1 "), "{flags}");
        assert!(Program::Helm.linker_flags().ends_with("version.version=v4.3.1"));
    }
}
