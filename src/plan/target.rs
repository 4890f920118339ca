//! Whether a CRD can be migrated: the one place where a [`Target`] is made.

#[cfg(test)]
mod tests;

use crate::api::{Mode, Reason, StorageMigrationSpec, TargetResource};

use super::{Crd, CrdRecord, FieldRisks, Finding, Rights};

/// A CRD that was accepted for migration. Listing and visiting objects takes one, so neither can happen before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    resource: TargetResource,
    version: String,
    accepted: Crd,
    accepts_field_loss: bool,
    field_risks: FieldRisks,
}

/// What stands around a CRD and decides with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// What restow may do with its objects.
    pub rights: Rights,
    /// Another migrator that is at work on the same resource.
    pub other_migrator: Option<String>,
    /// What may become of fields.
    pub field_risks: FieldRisks,
}

/// What is to be done with a CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is to be migrated.
    Accepted(Box<Target>),
    /// It can't be, or need not be.
    Declined(Finding),
}

/// What a CRD as last seen has become for a target that was accepted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// It encodes objects as it did.
    None,
    /// It is being deleted.
    Terminating,
    /// It was deleted and created anew, stores or serves other versions, or may have done so for a while: the run starts
    /// over.
    Moved,
    /// Its conversion is another one.
    Conversion,
}

impl Target {
    /// The resource.
    #[must_use]
    pub fn resource(&self) -> &TargetResource {
        &self.resource
    }

    /// The storage version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The other versions that are served, in the order of the CRD.
    pub fn other_versions(&self) -> impl Iterator<Item = &str> {
        self.accepted.versions.iter().filter(|v| v.served && v.name != self.version).map(|v| v.name.as_str())
    }

    /// What an object is looked at for before it is written, so that no field is lost.
    #[must_use]
    pub fn field_risks(&self) -> &FieldRisks {
        &self.field_risks
    }

    /// Whether the spec, as it was when the CRD was accepted, accepts that fields are lost.
    #[must_use]
    pub fn accepts_field_loss(&self) -> bool {
        self.accepts_field_loss
    }

    /// The CRD as it was accepted.
    #[must_use]
    pub fn accepted(&self) -> &Crd {
        &self.accepted
    }

    /// What the CRD has become since it was accepted.
    ///
    /// A flag that moved away and back leaves everything as it was but the objects that were written meanwhile, and restow's
    /// own visits are among these: they left objects in the other version, and they are remembered as done. So what was
    /// not seen all the time counts as moved.
    #[must_use]
    pub fn drift(&self, record: &CrdRecord) -> Drift {
        let (accepted, crd) = (&self.accepted, record.crd());
        if crd.uid != accepted.uid {
            Drift::Moved
        } else if crd.terminating {
            Drift::Terminating
        } else if crd.versions != accepted.versions {
            Drift::Moved
        } else if crd.conversion != accepted.conversion {
            Drift::Conversion
        } else if !record.is_unbroken_since(accepted.generation) {
            Drift::Moved
        } else {
            Drift::None
        }
    }
}

/// Judges a CRD by itself: everything that can be told without asking the server anything else.
///
/// `None` means that nothing speaks against it. A run that has begun is brought to its end, whatever `storedVersions` says:
/// if nothing but the storage version is left in it, somebody else has trimmed it, perhaps too early.
#[must_use]
pub fn judge_crd(spec: &StorageMigrationSpec, crd: Option<&Crd>, begun: bool) -> Option<Finding> {
    let name = spec.resource.crd_name();
    let Some(crd) = crd else {
        let message = format!(
            "there is no CustomResourceDefinition {name}: check group and plural name, or install it, and a StorageMigration starts by itself; resources that are built in or come from an aggregated API server can't be migrated"
        );
        return Some(Finding::new(Reason::TargetNotFound, message));
    };
    if crd.terminating {
        let message = format!("the CustomResourceDefinition {name} is being deleted: nothing is written");
        return Some(Finding::new(Reason::TargetTerminating, message));
    }
    if !crd.established {
        let message = format!("the CustomResourceDefinition {name} is not Established yet");
        return Some(Finding::new(Reason::Waiting, message));
    }
    let Some(storage) = crd.storage_version() else {
        let message = format!("the CustomResourceDefinition {name} has no version with storage: true");
        return Some(Finding::new(Reason::Waiting, message));
    };
    if let Some(expected) = spec.expected_storage_version.as_ref().filter(|e| **e != storage.name) {
        let message = format!(
            "{name} stores {}, not {expected}: nothing is written until its storage flag has moved to {expected}",
            storage.name
        );
        return Some(Finding::new(Reason::Waiting, message));
    }
    if spec.mode == Mode::IfStale && !begun && crd.is_trimmed() {
        let message = format!("storedVersions of {name} is [{}] already: no object was read", storage.name);
        return Some(Finding::new(Reason::NothingToMigrate, message));
    }
    if !storage.served {
        let message = format!(
            "{name} stores {0} but doesn't serve it, so nothing can be written in it: set served: true for {0}",
            storage.name
        );
        return Some(Finding::new(Reason::StorageVersionNotServed, message));
    }
    None
}

/// Judges a CRD that was read live, and what stands around it.
#[must_use]
pub fn judge(spec: &StorageMigrationSpec, crd: Option<&Crd>, begun: bool, around: &Surroundings) -> Verdict {
    if let Some(finding) = judge_crd(spec, crd, begun) {
        return Verdict::Declined(finding);
    }
    let Surroundings { rights, other_migrator, field_risks } = around;
    if let Some(other) = other_migrator {
        let message = format!("{other} is at work on {}: restow waits until it is done", spec.resource);
        return Verdict::Declined(Finding::new(Reason::AnotherMigrator, message));
    }
    if let Some(finding) = rights.lacking(&spec.resource) {
        return Verdict::Declined(finding);
    }
    match crd.and_then(|crd| crd.storage_version().map(|v| (crd, v.name.clone()))) {
        Some((crd, version)) => Verdict::Accepted(Box::new(Target {
            resource: spec.resource.clone(),
            version,
            accepted: crd.clone(),
            accepts_field_loss: spec.accept_field_loss,
            field_risks: if spec.accept_field_loss { FieldRisks::default() } else { field_risks.clone() },
        })),
        None => Verdict::Declined(Finding::new(
            Reason::Waiting,
            "the storage version is not known yet".to_owned(),
        )),
    }
}
