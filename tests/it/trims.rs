//! What etcd holds at each moment at which `storedVersions` comes to name one version alone.
//!
//! A trim that was too early is seen here even if a later run made up for it.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use tokio::task::JoinHandle;

use crate::scene::{Scene, counts, eventually};

/// One trim: the version that was left, and what was stored in etcd right after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenTrim {
    pub(crate) left: String,
    pub(crate) stored: BTreeMap<String, usize>,
}

/// Watches a scene's CRD from when it is made until it is dropped.
#[derive(Debug)]
pub(crate) struct Trims {
    seen: Arc<Mutex<Vec<SeenTrim>>>,
    task: JoinHandle<()>,
}

impl Trims {
    /// Starts when `storedVersions` names several versions already: the first trim to be seen is restow's.
    pub(crate) fn watch(scene: &Scene) -> Self {
        let crds: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
        let only = watcher::Config::default().fields(&format!("metadata.name={}", scene.kind.crd_name()));
        let (etcd, group, plural) = (scene.plane.etcd(), scene.kind.group.clone(), scene.kind.plural);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let found = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut changes = pin!(watcher(crds, only).default_backoff().applied_objects());
            let mut was_trimmed = false;
            while let Some(change) = changes.next().await {
                let Ok(crd) = change else { continue };
                let named = crd.status.and_then(|status| status.stored_versions).unwrap_or_default();
                let is_trimmed = named.len() == 1;
                if is_trimmed && !was_trimmed {
                    let mut stored = BTreeMap::new();
                    for (api_version, count) in etcd.stored_versions(&group, plural).await {
                        stored.insert(api_version.replace(&format!("{group}/"), ""), count);
                    }
                    found.lock().expect("no panic").push(SeenTrim { left: named[0].clone(), stored });
                }
                was_trimmed = is_trimmed;
            }
        });
        Self { seen, task }
    }

    pub(crate) fn seen(&self) -> Vec<SeenTrim> {
        self.seen.lock().expect("no panic").clone()
    }

    /// Asserts that there was one trim, and that etcd held `count` objects then, all of them in `version`.
    pub(crate) async fn assert_one(&self, version: &str, count: usize) {
        let seen =
            eventually("the trim to be seen", async || Some(self.seen()).filter(|seen| !seen.is_empty()));
        let only = SeenTrim { left: version.to_owned(), stored: counts([(version, count)]) };
        assert_eq!(seen.await, [only]);
    }
}

impl Drop for Trims {
    fn drop(&mut self) {
        self.task.abort();
    }
}
