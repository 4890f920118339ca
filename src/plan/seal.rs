//! Seals on checkpoints: what tells one that restow made from one that somebody else wrote into the status.
//!
//! A checkpoint of a confirm says that some objects need no further look, so a forged one could bring about a wrong trim. A
//! sealed one stays true: it is bound to the StorageMigration, the CRD and its generation, so it can be replayed only
//! where what it says still holds. Where the key comes from is `cluster`'s business.

#[cfg(test)]
mod tests;

use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::api::Checkpoint;

/// The key of one StorageMigration's seals.
#[derive(Clone)]
pub struct Seal {
    mac: Hmac<Sha256>,
}

impl Seal {
    /// The seal of the StorageMigration with this uid, made from the key of the installation.
    #[must_use]
    pub fn new(key: &[u8; 64], migration_uid: &str) -> Self {
        let mut mac = Hmac::<Sha256>::new(&(*key).into());
        mac.update(migration_uid.as_bytes());
        mac.update(&[0]);
        Self { mac }
    }

    /// The checkpoint with a seal on it.
    pub(super) fn put_on(&self, checkpoint: Checkpoint) -> Checkpoint {
        let bytes = self.with(&checkpoint).finalize().into_bytes();
        let seal = bytes.iter().fold(String::new(), |mut hex, byte| {
            // Writing into a String can't fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        Checkpoint { seal: Some(seal), ..checkpoint }
    }

    /// Whether the checkpoint carries its seal unbroken.
    pub(super) fn is_on(&self, checkpoint: &Checkpoint) -> bool {
        let bytes = checkpoint.seal.as_deref().and_then(unhex);
        bytes.is_some_and(|bytes| self.with(checkpoint).verify_slice(&bytes).is_ok())
    }

    fn with(&self, checkpoint: &Checkpoint) -> Hmac<Sha256> {
        let bare = Checkpoint { seal: None, ..checkpoint.clone() };
        let mut mac = self.mac.clone();
        // Strings, numbers and a fieldless enum: there is nothing in it that can't be written as JSON.
        mac.update(&serde_json::to_vec(&bare).unwrap_or_default());
        mac
    }
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seal").finish_non_exhaustive()
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
