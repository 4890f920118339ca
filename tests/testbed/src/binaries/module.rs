//! The Go modules of the bench: what each pins, and where in the cache its programs are.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use super::{BinaryError, home};

/// The control plane.
pub(super) const CONTROL_PLANE: Module = Module {
    directory: "control-plane",
    requirements: include_str!("../../control-plane/go.mod"),
    sources: &[],
};

/// Helm, whose dependencies are other versions of the same modules.
pub(super) const HELM: Module =
    Module { directory: "helm", requirements: include_str!("../../helm/go.mod"), sources: &[] };

/// What tools make of an object.
pub(super) const JUDGE: Module = Module {
    directory: "judge",
    requirements: include_str!("../../judge/go.mod"),
    sources: &[include_str!("../../judge/main.go"), include_str!("../../judge/lua.go")],
};

/// promtool.
pub(super) const PROMTOOL: Module =
    Module { directory: "promtool", requirements: include_str!("../../promtool/go.mod"), sources: &[] };

/// A Go module of ours, which pins what it builds.
#[derive(Debug)]
pub(super) struct Module {
    /// Its directory beside `src`, and that of its programs in the cache.
    pub(super) directory: &'static str,
    /// Its go.mod.
    requirements: &'static str,
    /// Go files of ours, if it has any.
    sources: &'static [&'static str],
}

impl Module {
    /// The version of a module in go.mod's list of requirements.
    pub(super) fn required(&self, module: &str) -> &'static str {
        self.requirements
            .lines()
            .find_map(|line| {
                let requirement = line.trim();
                requirement
                    .strip_prefix("require ")
                    .unwrap_or(requirement)
                    .strip_prefix(module)?
                    .strip_prefix(' ')
            })
            .and_then(|rest| rest.split_whitespace().next())
            .expect("go.mod requires every program's module")
    }

    /// One directory for each set of versions, so that a newer checkout builds anew and an older one still finds its own.
    pub(super) fn cache(&self) -> Result<PathBuf, BinaryError> {
        let caches = home("XDG_CACHE_HOME").or_else(|| home("HOME").map(|home| home.join(".cache")));
        let key = match self.directory {
            "helm" => self.required("helm.sh/helm/v4").to_owned(),
            "promtool" => self.required("github.com/prometheus/prometheus").to_owned(),
            "judge" => {
                let mut hasher = DefaultHasher::new();
                (self.requirements, self.sources).hash(&mut hasher);
                format!("{:016x}", hasher.finish())
            }
            _ => format!(
                "kubernetes-{}-etcd-{}",
                self.required("k8s.io/kubernetes"),
                self.required("go.etcd.io/etcd/server/v3")
            ),
        };
        Ok(caches.ok_or(BinaryError::NoCache)?.join("restow").join(self.directory).join(key))
    }
}
