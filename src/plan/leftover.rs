//! Names of old versions in an object's metadata: no rewrite takes them away, and they do harm once the version is gone.

#[cfg(test)]
mod tests;

use std::fmt;

/// A custom resource's kind, and the version that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastingVersion {
    /// The API group.
    pub group: String,
    /// The kind, as owners are named by it.
    pub kind: String,
    /// The storage version.
    pub version: String,
}

/// The parts of an object's metadata that name versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mentions {
    /// `metadata.ownerReferences`.
    pub owners: Vec<Owner>,
    /// `metadata.managedFields`.
    pub managers: Vec<Manager>,
}

/// An owner, as an object names it. The garbage collector looks it up at this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `<group>/<version>`.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name.
    pub name: String,
}

/// A field manager and the version that it wrote in. Server-side apply converts its fields from this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager {
    /// `<group>/<version>`.
    pub api_version: String,
    /// The manager's name.
    pub name: String,
}

/// A name of a version that may be about to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// In `ownerReferences`.
    Owner(Owner),
    /// In `managedFields`.
    Manager(Manager),
}

impl LastingVersion {
    /// What of an object's metadata names another version of the resource than the one that stays, each thing once. The
    /// managers are those of the resource's own objects: other kinds of the group have versions of their own.
    #[must_use]
    pub fn leftovers(&self, mentions: Mentions, is_own: bool) -> Vec<Leftover> {
        let Mentions { owners, managers } = mentions;
        let owners = owners.into_iter().filter(|o| o.kind == self.kind && self.may_leave(&o.api_version));
        let managers = managers.into_iter().filter(|m| is_own && self.may_leave(&m.api_version));
        let mut found = Vec::new();
        for leftover in owners.map(Leftover::Owner).chain(managers.map(Leftover::Manager)) {
            if !found.contains(&leftover) {
                found.push(leftover);
            }
        }
        found
    }

    fn may_leave(&self, api_version: &str) -> bool {
        let parts = api_version.split_once('/');
        parts.is_some_and(|(group, version)| group == self.group && version != self.version)
    }
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(Owner { api_version, kind, name }) => {
                write!(f, "ownerReferences has {kind} {name} at {api_version}")
            }
            Self::Manager(Manager { api_version, name }) => {
                write!(f, "managedFields has {name} at {api_version}")
            }
        }
    }
}
