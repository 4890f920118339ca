//! Reads etcd's history behind every trim, for all seeds at once, and forgets of it only what it has read.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use testbed::crd::Kind;
use testbed::etcd::Etcd;
use tokio::sync::{RwLock, RwLockWriteGuard, watch};

use super::journal::Journal;
use crate::history::{strays_between, trims_since};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// How long two looks take at most, whatever else the machine does.
const LOOKED_WITHIN: Duration = Duration::from_mins(2);

/// One for the control plane.
#[derive(Debug)]
pub(super) struct Historian {
    etcd: Etcd,
    watched: Mutex<Vec<Watched>>,
    /// How often history was to be forgotten, and how many looks were over.
    compactions: watch::Sender<u64>,
    looks: watch::Sender<u64>,
    /// Held while etcd is not there.
    etcd_is_there: RwLock<()>,
}

#[derive(Clone, Debug)]
struct Watched {
    kind: Kind,
    journal: Journal,
    /// Trims up to this revision are known.
    until: i64,
    trims: usize,
}

impl Historian {
    pub(super) fn new(etcd: Etcd) -> Self {
        let (compactions, looks) = (watch::Sender::new(0), watch::Sender::new(0));
        Self { etcd, watched: Mutex::default(), compactions, looks, etcd_is_there: RwLock::default() }
    }

    /// Looks until it is dropped.
    pub(super) async fn run(&self) {
        let mut compacted = 0;
        loop {
            let there = self.etcd_is_there.read().await;
            let asked = *self.compactions.borrow();
            let revision = self.look().await;
            if asked > compacted {
                self.etcd.compact_before(revision).await;
                compacted = asked;
            }
            drop(there);
            self.looks.send_modify(|looks| *looks += 1);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// From now on the trims of a kind's CRD are looked into; wrong ones go into the journal.
    pub(super) async fn watch(&self, kind: &Kind, journal: &Journal) {
        let until = self.etcd.revision().await;
        self.watched().push(Watched { kind: kind.clone(), journal: journal.clone(), until, trims: 0 });
    }

    /// Keeps from looking while etcd is stopped.
    pub(super) async fn rest(&self) -> RwLockWriteGuard<'_, ()> {
        self.etcd_is_there.write().await
    }

    /// Has all history forgotten that was looked into.
    pub(super) fn compact(&self) {
        self.compactions.send_modify(|asked| *asked += 1);
    }

    /// Waits until everything so far was looked into, says how many trims a kind had, and looks no more.
    pub(super) async fn leave(&self, kind: &Kind) -> usize {
        let mut looks = self.looks.subscribe();
        // One may be under way that began before the latest writes.
        let enough = *looks.borrow_and_update() + 2;
        let looked = looks.wait_for(|looks| *looks >= enough);
        let looked = tokio::time::timeout(LOOKED_WITHIN, looked).await;
        drop(looked.expect("etcd's history can be read"));
        let mut watched = self.watched();
        let at = watched.iter().position(|it| it.kind == *kind).expect("a kind that is watched");
        watched.swap_remove(at).trims
    }

    /// Looks into everything up to now, and says up to which revision that is.
    async fn look(&self) -> i64 {
        let revision = self.etcd.revision().await;
        let watched = self.watched().clone();
        for Watched { kind, journal, until, .. } in watched {
            let trims = trims_since(self.etcd, &kind, until).await;
            for trim in &trims {
                journal.note(&format!("trimmed to {:?} at revision {}", trim.left, trim.revision));
                if !trim.forgotten.is_empty() {
                    journal.wrong(&format!("trimmed to {:?} with {:?}", trim.left, trim.forgotten));
                }
            }
            let latest = trims.last().map_or(revision, |trim| trim.revision.max(revision));
            for stray in strays_between(self.etcd, &kind, until, latest).await {
                journal.wrong(&format!("written after the trim: {stray}"));
            }
            if let Some(own) = self.watched().iter_mut().find(|own| own.kind == kind) {
                own.until = latest;
                own.trims += trims.len();
            }
        }
        revision
    }

    fn watched(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
