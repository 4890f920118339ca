//! The rights that restow has on a target, and what is said where they don't suffice.

use super::Finding;
use crate::api::{Reason, TargetResource};

/// What restow may do with a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// What it lacks, each as `verb resource`.
    pub missing: Vec<String>,
    /// Whether it may read or write some objects alone, those that a rule names.
    pub by_name: bool,
}

impl Rights {
    /// What is said where one is missing.
    pub(super) fn lacking(&self, resource: &TargetResource) -> Option<Finding> {
        let message = format!(
            "restow lacks these rights: {}; to a controller `restow rbac {} | kubectl apply -f -` grants them",
            self.missing.join(", "),
            resource.crd_name(),
        );
        (!self.missing.is_empty()).then(|| Finding::new(Reason::AccessDenied, message))
    }
}
