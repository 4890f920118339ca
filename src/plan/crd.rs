//! The CRD as restow keeps it, and what was seen of it over time. Reading one from the cluster lives in `cluster`.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;

use super::Moment;

/// Both the times in managedFields and the `Date` header are cut to whole seconds, so an age made of the two may be too
/// high by one second each.
const AGE_UNSURE: Duration = Duration::from_secs(2);

/// The few fields of a CustomResourceDefinition that decide how its objects are stored. Schemas are left out: they run to
/// hundreds of kilobytes each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crd {
    /// `<plural>.<group>`.
    pub name: String,
    /// `metadata.uid`: another one under the same name is another CRD with other objects.
    pub uid: String,
    /// `metadata.resourceVersion`, compared for equality only.
    pub resource_version: String,
    /// `metadata.generation`: counts the changes of the spec.
    pub generation: i64,
    /// `spec.versions`, in their order.
    pub versions: Vec<CrdVersion>,
    /// `spec.conversion` as JSON, without the CA bundle, which may be rotated at any time.
    pub conversion: String,
    /// `status.storedVersions`.
    pub stored_versions: Vec<String>,
    /// The field managers other than restow that own it, by `metadata.managedFields`.
    pub stored_versions_owners: Vec<String>,
    /// Condition `Established` is True.
    pub established: bool,
    /// `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// Condition `StorageMigrating` is True: the migrator of kube-controller-manager is, or was, at work.
    pub migrating: bool,
    /// The newest time at which somebody changed the spec, by `metadata.managedFields`.
    pub spec_changed_at: Option<Timestamp>,
}

/// One of a CRD's versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdVersion {
    /// Its name, for example `v1beta1`.
    pub name: String,
    /// Whether clients can read and write it.
    pub served: bool,
    /// Whether objects are stored in it: true for exactly one.
    pub storage: bool,
}

impl Crd {
    /// The version that carries `storage: true`.
    #[must_use]
    pub fn storage_version(&self) -> Option<&CrdVersion> {
        self.versions.iter().find(|v| v.storage)
    }

    /// Whether `status.storedVersions` names the storage version and nothing else.
    #[must_use]
    pub fn is_trimmed(&self) -> bool {
        self.storage_version().is_some_and(|v| self.stored_versions == [v.name.as_str()])
    }

    /// Whether objects written under `self` and under `other` are encoded alike.
    #[must_use]
    pub fn encodes_like(&self, other: &Self) -> bool {
        self.uid == other.uid && self.versions == other.versions && self.conversion == other.conversion
    }
}

/// A CRD together with how long it has encoded objects as it does now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdRecord {
    crd: Crd,
    /// At this uptime …
    quiet_at: Duration,
    /// … it had encoded objects like this for so long at least.
    quiet_for: Duration,
    unbroken_since: i64,
}

impl CrdRecord {
    /// A CRD seen for the first time.
    #[must_use]
    pub fn new(crd: Crd, now: Moment) -> Self {
        let unbroken_since = crd.generation;
        Self { crd, quiet_at: now.uptime, quiet_for: Duration::ZERO, unbroken_since }
    }

    /// Takes in another sight of the CRD. One that is older than what is known is ignored.
    pub fn observe(&mut self, crd: Crd, now: Moment) {
        if crd.uid == self.crd.uid && crd.generation < self.crd.generation {
            return;
        }
        // Where a generation was never seen, the flag may have moved away and back.
        let unbroken = crd.generation <= self.crd.generation + 1;
        if unbroken && crd.encodes_like(&self.crd) {
            self.crd = crd;
        } else {
            *self = Self::new(crd, now);
        }
    }

    /// Takes in that the server dates the latest change of the spec `age` ago.
    pub fn observe_age(&mut self, age: Duration, now: Moment) {
        let age = age.saturating_sub(AGE_UNSURE);
        if age > self.quiet_for(now) {
            self.quiet_at = now.uptime;
            self.quiet_for = age;
        }
    }

    /// The CRD as last seen.
    #[must_use]
    pub fn crd(&self) -> &Crd {
        &self.crd
    }

    /// For how long at least the CRD has encoded objects as it does now.
    #[must_use]
    pub fn quiet_for(&self, now: Moment) -> Duration {
        now.uptime.saturating_sub(self.quiet_at) + self.quiet_for
    }

    /// Whether every generation since `generation` was seen and encoded objects as the present one does.
    #[must_use]
    pub fn is_unbroken_since(&self, generation: i64) -> bool {
        self.unbroken_since <= generation
    }
}
