//! What etcd held at each trim, read from its history: exact, and without a race.

use testbed::crd::Kind;
use testbed::etcd::{Etcd, Stored};

/// A moment at which `storedVersions` lost a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trim {
    pub(crate) revision: i64,
    /// What it names from then on.
    pub(crate) left: Vec<String>,
    /// The objects that were stored in none of these at that revision, with the version that they were stored in.
    pub(crate) forgotten: Vec<String>,
}

/// The trims of a kind's CRD since a revision. Nothing of that may have been compacted away.
pub(crate) async fn trims_since(etcd: Etcd, kind: &Kind, revision: i64) -> Vec<Trim> {
    let key = format!("/registry/apiextensions.k8s.io/customresourcedefinitions/{}", kind.crd_name());
    let history = etcd.history(&key, revision).await;
    let named: Vec<_> = history.iter().map(|stored| (stored.revision, stored_versions(stored))).collect();
    let mut trims = Vec::new();
    for moment in named.windows(2) {
        let [(_, before), (revision, left)] = moment else { continue };
        if before.iter().all(|version| left.contains(version)) {
            continue;
        }
        let objects = etcd.values_at(&kind.group, kind.plural, *revision).await;
        let forgotten = objects.iter().filter_map(|object| forgotten(kind, object, left)).collect();
        trims.push(Trim { revision: *revision, left: left.clone(), forgotten });
    }
    trims
}

fn stored_versions(crd: &Stored) -> Vec<String> {
    let crd = crd.object().expect("a CRD is stored as JSON");
    let named = crd["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    named.iter().filter_map(|version| version.as_str().map(str::to_owned)).collect()
}

fn forgotten(kind: &Kind, object: &Stored, left: &[String]) -> Option<String> {
    let stored_in = object.api_version().unwrap_or_else(|| "unreadable".to_owned());
    let is_named = left.iter().any(|version| kind.api_version(version) == stored_in);
    (!is_named).then(|| format!("{} in {stored_in}", object.key))
}
