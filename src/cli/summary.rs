//! What the one-shot command prints at its end.

use std::io::{self, Write};

use serde::Serialize;

use super::Exit;
use crate::api::{Reason, RefusedObject, State, StorageMigrationStatus, TargetResource};
use crate::plan::Finding;

/// A migration that has come to its end.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) resource: TargetResource,
    pub(super) finding: Finding,
    pub(super) status: StorageMigrationStatus,
    /// It was given up.
    pub(super) failed: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    resource: String,
    result: &'static str,
    message: &'a str,
    storage_version: &'a str,
    total: u64,
    rewritten: u64,
    unchanged: u64,
    gone: u64,
    refused: u64,
    stored_versions_before: &'a [String],
    stored_versions_after: &'a [String],
    duration: Option<&'a str>,
    refusals: &'a [RefusedObject],
}

impl Ended {
    pub(super) fn failed(resource: TargetResource, message: String, status: StorageMigrationStatus) -> Self {
        Self { resource, finding: Finding::new(Reason::DeadlineExceeded, message), status, failed: true }
    }

    pub(super) fn exit(&self, ignore_missing: bool) -> Exit {
        let visited = self.status.progress.as_ref().map_or(0, |p| p.visited);
        match self.finding.reason.state() {
            _ if self.failed => Exit::Failed,
            _ if ignore_missing && self.finding.reason == Reason::TargetNotFound => Exit::Done,
            State::Done => Exit::Done,
            State::Stalled if self.finding.reason == Reason::ObjectsRefused => Exit::Refused,
            State::Stalled | State::Working if visited == 0 => Exit::Blocked,
            State::Stalled | State::Working => Exit::Failed,
        }
    }

    fn result(&self) -> &'static str {
        if self.failed { "Failed" } else { self.finding.reason.as_str() }
    }

    fn row(&self) -> Row<'_> {
        let target = self.status.target.as_ref();
        let progress = self.status.progress.as_ref();
        let count = |pick: fn(&crate::api::Progress) -> u64| progress.map_or(0, pick);
        Row {
            resource: self.resource.to_string(),
            result: self.result(),
            message: &self.finding.message,
            storage_version: target.map_or("", |t| &t.storage_version),
            total: count(|p| p.total),
            rewritten: count(|p| p.rewritten),
            unchanged: count(|p| p.unchanged),
            gone: count(|p| p.gone),
            refused: count(|p| p.refused),
            stored_versions_before: target.map_or(&[], |t| &t.stored_versions_before),
            stored_versions_after: target.map_or(&[], |t| &t.stored_versions_after),
            duration: self.status.duration.as_deref(),
            refusals: &self.status.refusals,
        }
    }
}

/// Prints a table, and below it what somebody has to know.
pub(super) fn text(ended: &[Ended]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let width = ended.iter().map(|e| e.resource.to_string().len()).max().unwrap_or_default().max(8);
    writeln!(
        out,
        "{:width$}  {:18}  {:>8}  {:>9}  {:>9}  {:>6}  {:>7}  STOREDVERSIONS",
        "RESOURCE", "RESULT", "TOTAL", "REWRITTEN", "UNCHANGED", "GONE", "REFUSED"
    )?;
    for row in ended.iter().map(Ended::row) {
        let (before, after) = (row.stored_versions_before.join(","), row.stored_versions_after.join(","));
        let stored = if before == after { before } else { format!("{before} -> {after}") };
        writeln!(
            out,
            "{:width$}  {:18}  {:>8}  {:>9}  {:>9}  {:>6}  {:>7}  {stored}",
            row.resource, row.result, row.total, row.rewritten, row.unchanged, row.gone, row.refused
        )?;
    }
    for ended in ended {
        writeln!(out, "{}: {}", ended.resource, ended.finding.message)?;
        for refusal in &ended.status.refusals {
            let namespace = refusal.namespace.as_ref().map(|n| format!("{n}/")).unwrap_or_default();
            let RefusedObject { name, code, reason, message, attempts, namespace: _ } = refusal;
            writeln!(out, "  {namespace}{name}: {code} {reason} ({attempts} attempts): {message}")?;
        }
    }
    out.flush()
}

/// All of it in one line, what went well at the end: it may be cut.
pub(super) fn line(ended: &[Ended], ignore_missing: bool) -> String {
    let mut ended: Vec<_> = ended.iter().collect();
    ended.sort_by_key(|ended| ended.exit(ignore_missing) == Exit::Done);
    let parts: Vec<_> = ended
        .into_iter()
        .map(|ended| format!("{}: {}: {}", ended.resource, ended.result(), ended.finding.message))
        .collect();
    parts.join("; ")
}

/// Prints one JSON document.
pub(super) fn json(ended: &[Ended]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let rows: Vec<Row<'_>> = ended.iter().map(Ended::row).collect();
    serde_json::to_writer_pretty(&mut out, &serde_json::json!({ "migrations": rows }))?;
    writeln!(out)?;
    out.flush()
}
