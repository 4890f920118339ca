//! Objects that somebody writes all the time.

use super::{Key, patch};
use crate::crd::Kind;
use futures::future::join_all;
use kube::Client;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

/// A client that changes `spec.size` of some objects again and again, until it is dropped.
///
/// A write that fails is counted and not repeated: the next one is due anyway.
#[derive(Debug)]
pub struct Hot {
    written: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Hot {
    /// Starts to write each of the objects at the given version, once every `period`.
    #[must_use]
    pub fn start(client: Client, kind: Kind, version: &str, objects: Vec<Key>, period: Duration) -> Self {
        let (written, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (version, counts) = (version.to_owned(), (Arc::clone(&written), Arc::clone(&failed)));
        let task = tokio::spawn(async move {
            let mut ticks = interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for size in 0_u64.. {
                ticks.tick().await;
                let change = json!({ "spec": { "size": size } });
                let writes = objects.iter().map(|object| patch(&client, &kind, &version, object, &change));
                for result in join_all(writes).await {
                    let count = if result.is_ok() { &counts.0 } else { &counts.1 };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { written, failed, task }
    }

    /// Writes that the server accepted so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Writes that it didn't.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

impl Drop for Hot {
    fn drop(&mut self) {
        self.task.abort();
    }
}
