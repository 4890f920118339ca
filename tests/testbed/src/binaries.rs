//! Where the control plane's programs come from: the directory named by `KUBEBUILDER_ASSETS`, else the user's cache,
//! else a build from the Go module in `control-plane/`, once, into that cache.
//!
//! A build takes minutes, so it says on standard error what it does. Two processes never build at the same time, and a
//! program appears in the cache whole or not at all. Nothing is started here.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Environment variable naming a directory that has the programs already, as for envtest.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// The Go module that pins the versions.
const MODULE: &str = include_str!("../control-plane/go.mod");

/// A program of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// The command line client.
    Kubectl,
    /// The controller manager, home of the built-in migrator: only the benchmark wants it.
    ControllerManager,
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

impl Program {
    /// The name of its file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::Kubectl => "kubectl",
            Self::ControllerManager => "kube-controller-manager",
        }
    }

    /// The Go package it is built from.
    fn package(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::ApiServer => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::ControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
        }
    }

    /// The version that is built.
    fn version(self) -> &'static str {
        match self {
            Self::Etcd => required("go.etcd.io/etcd/server/v3"),
            Self::ApiServer | Self::Kubectl | Self::ControllerManager => required("k8s.io/kubernetes"),
        }
    }

    /// The path of the program, building it first if it has to be. Blocks, for minutes if it builds.
    ///
    /// # Errors
    /// If it is nowhere and can't be built. It is never skipped in silence.
    pub fn path(self) -> Result<PathBuf, BinaryError> {
        if let Some(directory) = std::env::var_os(ASSETS).filter(|value| !value.is_empty()) {
            let directory = PathBuf::from(directory);
            let path = directory.join(self.name());
            return if path.is_file() {
                Ok(path)
            } else {
                Err(BinaryError::NotInAssets { program: self.name(), directory })
            };
        }
        let directory = cache()?;
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
                say(&format!(
                    "another process builds the control plane in {}, waiting for it",
                    directory.display()
                ));
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
             to 8, kubectl 1)",
            self.version(),
            output.display()
        ));
        let begun = Instant::now();
        let status = Command::new("go")
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("control-plane"))
            .env("CGO_ENABLED", "0")
            // A workspace or flags of the machine's own are not for this module.
            .env("GOWORK", "off")
            .env_remove("GOFLAGS")
            .args([
                "build",
                "-mod=readonly",
                "-trimpath",
                "-buildvcs=false",
                "-ldflags",
                &linker_flags(),
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

/// The Kubernetes version that is built, with its `v`.
#[must_use]
pub fn kubernetes_version() -> &'static str {
    Program::ApiServer.version()
}

/// The version of a module in go.mod's list of requirements.
fn required(module: &str) -> &'static str {
    MODULE
        .lines()
        .find_map(|line| line.trim().strip_prefix(module)?.strip_prefix(' '))
        .and_then(|rest| rest.split_whitespace().next())
        .expect("go.mod requires every program's module")
}

/// One directory for each pair of versions, so that a newer checkout builds anew and an older one still finds its own.
fn cache() -> Result<PathBuf, BinaryError> {
    let home = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = home("XDG_CACHE_HOME").or_else(|| home("HOME").map(|home| home.join(".cache")));
    let key = format!("kubernetes-{}-etcd-{}", kubernetes_version(), Program::Etcd.version());
    Ok(caches.ok_or(BinaryError::NoCache)?.join("restow/control-plane").join(key))
}

/// Without these the server calls itself `v0.0.0-master`, and clients that look at its version go wrong.
fn linker_flags() -> String {
    let version = kubernetes_version();
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let set = |name: &str, value: &str| format!(" -X k8s.io/component-base/version.{name}={value}");
    [
        ("gitVersion", version),
        ("gitMajor", major),
        ("gitMinor", minor),
        ("gitTreeState", "clean"),
        ("gitCommit", "none"),
    ]
    .iter()
    .fold(String::from("-s -w"), |flags, (name, value)| flags + &set(name, value))
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
        assert!(linker_flags().contains("gitMajor=1 "), "{}", linker_flags());
    }
}
