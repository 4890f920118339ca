//! What was seen of each CRD, by watch and by live reads.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cluster::LiveCrd;
use crate::plan::{Crd, CrdRecord, Moment};

/// CRDs by name.
#[derive(Debug, Default)]
pub struct CrdRecords {
    records: Mutex<HashMap<String, CrdRecord>>,
}

impl CrdRecords {
    /// What is known of the CRD called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<CrdRecord> {
        self.lock().get(name).cloned()
    }

    /// All CRDs that are known, one after another, in no order.
    pub fn each(&self, mut look: impl FnMut(&Crd)) {
        self.lock().values().for_each(|record| look(record.crd()));
    }

    /// Takes in a sight of a CRD.
    pub fn observe(&self, crd: Crd, now: Moment) {
        let mut records = self.lock();
        match records.get_mut(&crd.name) {
            Some(record) => record.observe(crd, now),
            None => {
                records.insert(crd.name.clone(), CrdRecord::new(crd, now));
            }
        }
    }

    /// Takes in a CRD that was read just now, with its age by the server's clock.
    pub fn observe_live(&self, live: LiveCrd, now: Moment) {
        let LiveCrd { crd, age } = live;
        let name = crd.name.clone();
        let generation = crd.generation;
        self.observe(crd, now);
        if let (Some(age), Some(record)) = (age, self.lock().get_mut(&name))
            && record.crd().generation == generation
        {
            record.observe_age(age, now);
        }
    }

    /// Takes in that the CRD called `name` is gone.
    pub fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    /// Takes in that `names` are all CRDs that there are, or that the one called `only` is or is not there. Returns the
    /// names of those that are gone.
    pub fn retain(&self, names: &HashSet<String>, only: Option<&str>) -> Vec<String> {
        let mut records = self.lock();
        let is_gone = |name: &&String| !names.contains(*name) && only.is_none_or(|only| only == *name);
        let gone: Vec<String> = records.keys().filter(is_gone).cloned().collect();
        records.retain(|name, _| !gone.contains(name));
        gone
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CrdRecord>> {
        // Each change is one assignment, so a panic elsewhere leaves nothing half done.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
