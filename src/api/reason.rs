//! Every reason that a condition, an event or a metric can carry. The rules that pick one live in `plan`.

#[cfg(test)]
mod tests;

use std::fmt;

/// Why a migration is where it is. The same word stands in conditions, events and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Every object is stored in the storage version, and `storedVersions` names nothing else.
    Migrated,
    /// `storedVersions` named nothing but the storage version: no object was read.
    NothingToMigrate,
    /// Every object is stored in the storage version; `storedVersions` was left alone, as asked.
    MigratedNotTrimmed,
    /// The CRD isn't ready yet, or doesn't store the expected version yet.
    Waiting,
    /// The storage version moved a moment ago: API servers may still write the old one.
    Settling,
    /// The first sweep: every object gets its no-op write.
    Sweeping,
    /// The second sweep: whatever changed since its visit is visited again.
    Confirming,
    /// Old versions are being dropped from `storedVersions`.
    Trimming,
    /// The API server or a webhook doesn't answer or asks for patience. It goes on by itself.
    BackingOff,
    /// An API server has not been heard of since the storage version moved, so that it may still write the old one.
    WaitingForAPIServer,
    /// Paused by `spec.suspend`.
    Suspended,
    /// There is no such CRD.
    TargetNotFound,
    /// The CRD is being deleted.
    TargetTerminating,
    /// The CRD's storage version is not served, so objects can't be written in it.
    StorageVersionNotServed,
    /// restow lacks a right on the resource or its CRD.
    AccessDenied,
    /// Some objects were refused by the API server. All others are migrated; `storedVersions` is as it was.
    ObjectsRefused,
    /// Another migrator, or an older StorageMigration, is at work on the same resource.
    AnotherMigrator,
    /// The CRD's conversion changed during the run: a rewrite could corrupt objects.
    ConversionChanged,
    /// `spec.activeDeadlineSeconds` has passed.
    DeadlineExceeded,
    /// This StorageMigration can't be understood.
    InvalidSpec,
}

/// What a reason means for the three conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The migration is done: `Succeeded` is True.
    Done,
    /// It goes on by itself: `Reconciling` is True.
    Working,
    /// Somebody has to act: `Stalled` is True and `Succeeded` is False.
    Stalled,
}

impl Reason {
    /// All reasons, in the order of the documentation.
    pub const ALL: [Self; 20] = [
        Self::Migrated,
        Self::NothingToMigrate,
        Self::MigratedNotTrimmed,
        Self::Waiting,
        Self::Settling,
        Self::Sweeping,
        Self::Confirming,
        Self::Trimming,
        Self::BackingOff,
        Self::WaitingForAPIServer,
        Self::Suspended,
        Self::TargetNotFound,
        Self::TargetTerminating,
        Self::StorageVersionNotServed,
        Self::AccessDenied,
        Self::ObjectsRefused,
        Self::AnotherMigrator,
        Self::ConversionChanged,
        Self::DeadlineExceeded,
        Self::InvalidSpec,
    ];

    /// The word itself.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Migrated => "Migrated",
            Self::NothingToMigrate => "NothingToMigrate",
            Self::MigratedNotTrimmed => "MigratedNotTrimmed",
            Self::Waiting => "Waiting",
            Self::Settling => "Settling",
            Self::Sweeping => "Sweeping",
            Self::Confirming => "Confirming",
            Self::Trimming => "Trimming",
            Self::BackingOff => "BackingOff",
            Self::WaitingForAPIServer => "WaitingForAPIServer",
            Self::Suspended => "Suspended",
            Self::TargetNotFound => "TargetNotFound",
            Self::TargetTerminating => "TargetTerminating",
            Self::StorageVersionNotServed => "StorageVersionNotServed",
            Self::AccessDenied => "AccessDenied",
            Self::ObjectsRefused => "ObjectsRefused",
            Self::AnotherMigrator => "AnotherMigrator",
            Self::ConversionChanged => "ConversionChanged",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::InvalidSpec => "InvalidSpec",
        }
    }

    /// What this reason means for the conditions.
    #[must_use]
    pub const fn state(self) -> State {
        match self {
            Self::Migrated | Self::NothingToMigrate | Self::MigratedNotTrimmed => State::Done,
            Self::Waiting
            | Self::Settling
            | Self::Sweeping
            | Self::Confirming
            | Self::Trimming
            | Self::BackingOff
            | Self::WaitingForAPIServer
            | Self::Suspended => State::Working,
            Self::TargetNotFound
            | Self::TargetTerminating
            | Self::StorageVersionNotServed
            | Self::AccessDenied
            | Self::ObjectsRefused
            | Self::AnotherMigrator
            | Self::ConversionChanged
            | Self::DeadlineExceeded
            | Self::InvalidSpec => State::Stalled,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
