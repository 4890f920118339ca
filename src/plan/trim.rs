//! The guard before the one irreversible write. The server does not check what is written to `storedVersions`, so nothing
//! but this stands between a wrong trim and unreadable data.

#[cfg(test)]
mod tests;

use super::{ApiServer, ApiServers, CompleteSweep, CrdRecord, Drift};

/// The right to trim: made from a [`CompleteSweep`], once, against one resourceVersion of the CRD.
///
/// The proof is used up in it, and it can't be made without:
///
/// ```compile_fail,E0451
/// fn forge(complete: restow::plan::CompleteSweep) -> restow::plan::Trim {
///     restow::plan::Trim { complete, crd_name: String::new(), resource_version: String::new() }
/// }
/// ```
#[derive(Debug)]
pub struct Trim {
    complete: CompleteSweep,
    crd_name: String,
    resource_version: String,
}

/// Whether to trim.
#[derive(Debug)]
pub enum TrimVerdict {
    /// Yes.
    Trim(Trim),
    /// It is done already.
    Trimmed(CompleteSweep),
    /// Not before these API servers have been heard of.
    Wait(CompleteSweep, Vec<ApiServer>),
    /// The CRD is not the one that was swept, or was not seen to be all the time: the proof is worth nothing.
    Drifted,
}

impl Trim {
    /// The CRD to patch.
    #[must_use]
    pub fn crd_name(&self) -> &str {
        &self.crd_name
    }

    /// The resourceVersion that the CRD must still have.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// What `storedVersions` is to be.
    #[must_use]
    pub fn stored_versions(&self) -> [&str; 1] {
        [self.complete.target().version()]
    }

    /// Gives the right back unused.
    #[must_use]
    pub fn give_back(self) -> CompleteSweep {
        self.complete
    }
}

/// Judges the CRD, which must have been read live after the confirm's last answer, and the API servers.
#[must_use]
pub fn judge_trim(complete: CompleteSweep, live: &CrdRecord, servers: &ApiServers) -> TrimVerdict {
    let crd = live.crd();
    match complete.target().drift(live) {
        Drift::None => {}
        Drift::Terminating | Drift::Moved | Drift::Conversion => return TrimVerdict::Drifted,
    }
    if crd.is_trimmed() {
        return TrimVerdict::Trimmed(complete);
    }
    let asleep: Vec<ApiServer> = servers.asleep().into_iter().cloned().collect();
    if !asleep.is_empty() {
        return TrimVerdict::Wait(complete, asleep);
    }
    TrimVerdict::Trim(Trim {
        crd_name: crd.name.clone(),
        resource_version: crd.resource_version.clone(),
        complete,
    })
}
