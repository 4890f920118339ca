//! Data that the tests of `plan` share: one CRD that is half-way from v1beta1 to v1, and what stands around it.

use std::time::Duration;

use jiff::Timestamp;

use super::{ApiServer, ApiServers, Crd, CrdRecord, CrdVersion, Failure, Look, Moment, Object, Page};
use super::{Surroundings, Target, Verdict, judge};
use crate::api::{StorageMigrationSpec, TargetResource};

/// The wall clock when the process of the tests started.
const STARTED: i64 = 1_800_000_000;

pub(super) fn at(secs: u64) -> Moment {
    Moment { wall: clock(i64::try_from(secs).unwrap_or(i64::MAX)), uptime: Duration::from_secs(secs) }
}

/// The wall clock so many seconds after the process started.
pub(super) fn clock(secs: i64) -> Timestamp {
    Timestamp::from_second(STARTED + secs).unwrap_or(Timestamp::MAX)
}

pub(super) fn spec() -> StorageMigrationSpec {
    StorageMigrationSpec::for_resource(TargetResource {
        group: "example.com".to_owned(),
        resource: "widgets".to_owned(),
    })
}

pub(super) fn version(name: &str, storage: bool) -> CrdVersion {
    CrdVersion { name: name.to_owned(), served: true, storage }
}

pub(super) fn crd() -> Crd {
    Crd {
        name: "widgets.example.com".to_owned(),
        uid: "crd-1".to_owned(),
        resource_version: "100".to_owned(),
        generation: 7,
        versions: vec![version("v1beta1", false), version("v1", true)],
        conversion: r#"{"strategy":"None"}"#.to_owned(),
        stored_versions: vec!["v1beta1".to_owned(), "v1".to_owned()],
        stored_versions_owners: Vec::new(),
        established: true,
        terminating: false,
        migrating: false,
        spec_changed_at: None,
    }
}

/// The same CRD with the storage flag on the other version, one generation later.
pub(super) fn moved(crd: &Crd) -> Crd {
    let versions = crd.versions.iter().map(|v| CrdVersion { storage: !v.storage, ..v.clone() }).collect();
    Crd { versions, generation: crd.generation + 1, ..crd.clone() }
}

/// A CRD that has encoded objects as it does for two hours when the process starts: longer than any server sleeps.
pub(super) fn quiet(crd: Crd) -> CrdRecord {
    let mut record = CrdRecord::new(crd, at(0));
    record.observe_age(Duration::from_hours(2), at(0));
    record
}

pub(super) fn target() -> Option<Target> {
    target_of(&crd())
}

pub(super) fn target_of(crd: &Crd) -> Option<Target> {
    match judge(&spec(), Some(crd), false, &Surroundings::default()) {
        Verdict::Accepted(target) => Some(*target),
        Verdict::Declined(_) => None,
    }
}

pub(super) fn object(name: &str, resource_version: &str) -> Object {
    Object {
        namespace: Some("shop".to_owned()),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        resource_version: resource_version.to_owned(),
        is_managed: true,
    }
}

pub(super) fn page(names: &[&str], token: Option<&str>) -> Page {
    Page {
        objects: names.iter().map(|name| object(name, "1")).collect(),
        continue_token: token.map(str::to_owned),
        remaining: None,
    }
}

pub(super) fn failure(code: u16, message: &str) -> Failure {
    Failure { code: Some(code), message: message.to_owned(), ..Failure::default() }
}

pub(super) fn asks_to_wait(code: u16, secs: u64) -> Failure {
    Failure { retry_after: Some(Duration::from_secs(secs)), ..failure(code, "wait") }
}

/// One server, which renewed its Lease at that second.
pub(super) fn server(name: &str, renewed_at: i64) -> ApiServer {
    let (identity, renewed_at) = (name.to_owned(), clock(renewed_at));
    ApiServer { identity, host: None, renewed_at, holds_for: Duration::from_hours(1) }
}

/// Servers as read at that second.
pub(super) fn servers(servers: Vec<ApiServer>, read_at: i64) -> ApiServers {
    ApiServers::Known { servers, read_at: clock(read_at) }
}

/// A look that took no time.
pub(super) fn look(secs: u64) -> Look {
    Look { begun: Duration::from_secs(secs), ended: Duration::from_secs(secs) }
}

pub(super) fn no_leases() -> ApiServers {
    ApiServers::Unknown("none are kept".to_owned())
}
