//! The Go modules of the bench: what each pins, and where in the cache its programs are.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use super::{BinaryError, home};

/// The control plane.
pub(super) static CONTROL_PLANE: Module = Module {
    directory: "control-plane",
    requirements: include_str!("../../control-plane/go.mod"),
    sources: &[],
};

/// An older API server. All else is that of [`CONTROL_PLANE`].
struct Older {
    /// The version by which [`KUBERNETES`] asks for it.
    version: &'static str,
    /// The version in which it has the kind StorageVersionMigration, which is off there unless it is asked for.
    migrations: &'static str,
    module: Module,
}

static OLDER: [Older; 3] = [
    Older {
        version: "1.34.4",
        migrations: "v1alpha1",
        module: Module {
            directory: "control-plane/older/v1.34",
            requirements: include_str!("../../control-plane/older/v1.34/go.mod"),
            sources: &[],
        },
    },
    Older {
        version: "1.35.4",
        migrations: "v1beta1",
        module: Module {
            directory: "control-plane/older/v1.35",
            requirements: include_str!("../../control-plane/older/v1.35/go.mod"),
            sources: &[],
        },
    },
    Older {
        version: "1.36.3",
        migrations: "v1beta1",
        module: Module {
            directory: "control-plane/older/v1.36",
            requirements: include_str!("../../control-plane/older/v1.36/go.mod"),
            sources: &[],
        },
    },
];

/// Environment variable naming the Kubernetes version whose API server is wanted.
const KUBERNETES: &str = "RESTOW_KUBERNETES";

/// The module of the API server that was asked for.
///
/// # Panics
/// As [`older`].
pub(super) fn api_server() -> &'static Module {
    asked_for().map_or(&CONTROL_PLANE, |older| &older.module)
}

/// What an older API server has to be told to have all the kinds that the newest one has.
///
/// # Panics
/// As [`older`].
pub(super) fn api_server_flags() -> Vec<String> {
    asked_for().map_or(Vec::new(), |Older { migrations, .. }| {
        vec![
            "--feature-gates=StorageVersionMigrator=true".to_owned(),
            format!("--runtime-config=storagemigration.k8s.io/{migrations}=true"),
        ]
    })
}

fn asked_for() -> Option<&'static Older> {
    older(&std::env::var(KUBERNETES).unwrap_or_default())
}

/// The older API server of that version, unless the newest is wanted.
///
/// # Panics
/// If that version is not among those that are pinned: with another one the tests would prove something else.
fn older(wanted: &str) -> Option<&'static Older> {
    let newest = CONTROL_PLANE.required("k8s.io/kubernetes").trim_start_matches('v');
    if wanted.is_empty() || wanted == newest {
        return None;
    }
    let known = OLDER.iter().find(|older| wanted == older.version);
    assert!(
        known.is_some(),
        "{KUBERNETES} is {wanted}, but known are {:?} and {newest}",
        OLDER.iter().map(|older| older.version).collect::<Vec<_>>()
    );
    known
}

/// Helm, whose dependencies are other versions of the same modules.
pub(super) static HELM: Module =
    Module { directory: "helm", requirements: include_str!("../../helm/go.mod"), sources: &[] };

/// What tools make of an object.
pub(super) static JUDGE: Module = Module {
    directory: "judge",
    requirements: include_str!("../../judge/go.mod"),
    sources: &[include_str!("../../judge/main.go"), include_str!("../../judge/lua.go")],
};

/// promtool.
pub(super) static PROMTOOL: Module =
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
            older if older.starts_with("control-plane/older/") => {
                self.required("k8s.io/kubernetes").to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_older_api_server_is_of_the_version_by_which_it_is_asked_for() {
        for Older { version, module, .. } in &OLDER {
            assert_eq!(module.required("k8s.io/kubernetes"), format!("v{version}"));
            assert!(older(version).is_some_and(|found| found.module.directory == module.directory));
        }
        assert!(older("").is_none() && older("1.37.2").is_none());
    }

    #[test]
    #[should_panic(expected = "RESTOW_KUBERNETES is 1.33.1, but known are")]
    fn a_version_that_is_not_pinned_is_no_reason_to_take_another() {
        let _ = older("1.33.1");
    }
}
