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

/// The objects that were written, after a revision and up to another, in a version that `storedVersions` did not name then:
/// while it names one alone, that is what a trim must leave no way for. Nothing of that may have been compacted away.
pub(crate) async fn strays_between(etcd: Etcd, kind: &Kind, since: i64, until: i64) -> Vec<String> {
    let history = etcd.history(&crd_key(kind), since).await;
    let named: Vec<_> = history.iter().map(|stored| (stored.revision, stored_versions(stored))).collect();
    if named.iter().all(|(_, named)| named.len() > 1) {
        return Vec::new();
    }
    let mut strays = Vec::new();
    for object in etcd.values_at(&kind.group, kind.plural, until).await {
        if object.revision <= since {
            continue;
        }
        for written in etcd.history(&object.key, since).await {
            let then = named.iter().rev().find(|(revision, _)| *revision <= written.revision);
            let Some((_, named)) = then.filter(|_| written.revision > since) else { continue };
            strays.extend(forgotten(kind, &written, named).map(|it| format!("{it} at {}", written.revision)));
        }
    }
    strays
}

/// The trims of a kind's CRD since a revision. Nothing of that may have been compacted away.
pub(crate) async fn trims_since(etcd: Etcd, kind: &Kind, revision: i64) -> Vec<Trim> {
    let history = etcd.history(&crd_key(kind), revision).await;
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

fn crd_key(kind: &Kind) -> String {
    format!("/registry/apiextensions.k8s.io/customresourcedefinitions/{}", kind.crd_name())
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
