//! What a decision is made from, and what it can come to.

use std::time::Duration;

use crate::api::StorageMigrationSpec;

use super::{CrdRecord, Finding, Limits, PageRequest};

/// Everything a decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// What the user asks for.
    pub spec: &'a StorageMigrationSpec,
    /// `metadata.generation` of the StorageMigration.
    pub generation: i64,
    /// What its annotation `restow.dev/retry` says: a new value asks for another try of refused objects.
    pub retry: Option<&'a str>,
    /// What its annotation `restow.dev/ignore-api-server` says: the API servers that are gone for good.
    pub ignored_servers: Option<&'a str>,
    /// The CRD as last seen; `None` if there is none.
    pub crd: Option<&'a CrdRecord>,
    /// An older StorageMigration for the same resource that is not done with it.
    pub rival: Option<&'a str>,
    /// What holds all migrations of this process, for how long still, and what the server said.
    pub outage: Option<(Duration, &'a str)>,
    /// How long after a move of the storage version API servers may still write the old one.
    pub settle: Duration,
    /// The limits of this process.
    pub limits: Limits,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing is to be sent before that uptime, or before something changes.
    Hold(Finding, Option<Duration>),
    /// Read the CRD live, and ask for rights and other migrators.
    Review,
    /// Ask for rights once more: objects are denied.
    AskRights,
    /// List a page of objects.
    List(PageRequest),
    /// Visit the objects that are due.
    Visit,
    /// Read the CRD and the API servers' Leases, to know whether a sweep may start.
    Inspect,
    /// Read the CRD and the API servers' Leases live, and trim if they allow it.
    Trim,
    /// Delete the StorageMigration: its time to live is over.
    Expire,
}
