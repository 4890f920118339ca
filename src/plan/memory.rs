//! Which objects a visit left behind as they should be: a bounded set of hashes. Nothing else is kept of an object.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use super::Object;

/// The most objects that are remembered; those past it are simply visited again.
// A table of 2^21 slots at its highest load (7/8), 9 bytes a slot: 19 MB.
const OBJECTS_MAX: usize = 1_835_008;

/// Remembers (uid, resourceVersion) pairs as 64-bit hashes.
///
/// A pair that was never remembered is taken for one that was with a chance of one in 2^64 for each pair remembered: less
/// than 10^-12 for an object among a million. The hash is seeded at random, so nobody can choose such a pair.
#[derive(Debug, Default)]
pub struct Memory {
    seed: RandomState,
    hashes: HashSet<u64, BuildHasherDefault<AsItIs>>,
}

impl Memory {
    /// Remembers that the object `uid` is as it should be at `resource_version`.
    pub fn remember(&mut self, uid: &str, resource_version: &str) {
        if self.hashes.len() < OBJECTS_MAX {
            self.hashes.insert(self.seed.hash_one((uid, resource_version)));
        }
    }

    /// Whether the object as listed is the one that a visit left behind.
    #[must_use]
    pub fn knows(&self, object: &Object) -> bool {
        self.hashes.contains(&self.seed.hash_one((object.uid.as_str(), object.resource_version.as_str())))
    }
}

/// Passes a hash through.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
