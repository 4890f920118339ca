use std::collections::BTreeMap;
use std::num::NonZeroU32;

use kube::Config;
use kube::runtime::{reflector, watcher};
use prometheus_client::encoding::prometheus_text;

use super::*;
use crate::api::{Progress, StorageMigration, StorageMigrationSpec, TargetResource};
use crate::cluster::{Cluster, Gate, Pacer};
use crate::metrics::{TrimResult, Verb};
use crate::plan::{Crd, CrdVersion, Failure, Gear, Limits, Outcome};

const DOCS: &str = include_str!("../../../docs/metrics.md");

/// A process that has seen one CRD.
fn engine() -> Arc<Engine> {
    let cluster = Cluster::new(Config::new("http://127.0.0.1:1".parse().unwrap()), Gate::shut()).unwrap();
    let limits = Limits { writes_per_second: None, max_in_flight: NonZeroU32::MIN, page_size: 1 };
    let engine = Engine::new(cluster, Pacer::new(limits, Gear::Adaptive), Duration::ZERO, None);
    engine.observe_crd(crd("crontabs.example.com", &["v1alpha1", "v1"]));
    Arc::new(engine)
}

fn crd(name: &str, stored_versions: &[&str]) -> Crd {
    Crd {
        name: name.to_owned(),
        uid: "u".to_owned(),
        resource_version: "1".to_owned(),
        generation: 1,
        versions: vec![CrdVersion { name: "v1".to_owned(), served: true, storage: true }],
        conversion: String::new(),
        stored_versions: stored_versions.iter().map(|&version| version.to_owned()).collect(),
        established: true,
        terminating: false,
        migrating: false,
        stored_versions_owners: Vec::default(),
        spec_changed_at: None,
    }
}

/// A StorageMigration that is at this reason.
fn migration(name: &str, reason: Reason, visited: u64) -> Guarded {
    let resource = TargetResource { group: "example.com".to_owned(), resource: "crontabs".to_owned() };
    let mut migration = StorageMigration::new(name, StorageMigrationSpec::for_resource(resource));
    migration.metadata.uid = Some(name.to_owned());
    migration.status = Some(StorageMigrationStatus {
        conditions: Conditions::build(&[], reason, "", 1, Timestamp::now()),
        progress: Some(Progress { total: 100, visited, ..Progress::default() }),
        start_time: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            Timestamp::now() - jiff::SignedDuration::from_hours(1),
        )),
        ..StorageMigrationStatus::default()
    });
    kube::core::DeserializeGuard(Ok(migration))
}

fn text(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_text::encode(&mut text, registry).unwrap();
    text
}

/// Name, type and labels of each metric.
type Table = BTreeMap<String, (String, Vec<String>)>;

fn exported(text: &str) -> Table {
    let mut table = Table::new();
    for line in text.lines() {
        if let Some((name, type_)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            table.insert(name.to_owned(), (type_.to_owned(), Vec::new()));
        } else if !line.starts_with('#') {
            let (name, rest) = line.split_once(['{', ' ']).unwrap();
            let Some((_, labels)) = table.get_mut(name) else { continue };
            let written = line.contains('{').then(|| rest.split("\",").map(|l| l.split('=').next().unwrap()));
            *labels = written.into_iter().flatten().map(str::to_owned).collect();
        }
    }
    table
}

fn documented() -> Table {
    let rows = DOCS.lines().filter(|line| line.starts_with("| `restow_"));
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        (words(cells[1]).remove(0), (cells[2].to_owned(), words(cells[3])))
    })
    .collect()
}

#[tokio::test]
async fn what_is_exported_is_what_is_documented() {
    let engine = engine();
    let metrics = engine.cluster().metrics();
    let refused = Outcome::Refused(Failure { reason: "what I like".to_owned(), ..Failure::default() });
    metrics.visited("crontabs.example.com", &refused, Duration::from_secs(1));
    metrics.requested(Verb::Get, None);
    metrics.throttled(Duration::from_secs(1));
    metrics.trimmed(TrimResult::Done);
    let (store, mut writer) = reflector::store();
    writer.apply_watcher_event(&watcher::Event::Apply(migration("a", Reason::Sweeping, 10)));
    let registry = registry(&engine, &store);
    text(&registry);
    writer.apply_watcher_event(&watcher::Event::Apply(migration("a", Reason::Sweeping, 20)));
    let found = text(&registry);
    assert_eq!(exported(&found), documented(), "{found}");
    assert!(found.contains("restow_refusals_total{reason=\"Other\"} 1"), "{found}");
    assert!(found.contains("restow_crd_stale_stored_versions{crd=\"crontabs.example.com\"} 1.0"), "{found}");
    assert!(found.contains("restow_leader 0.0"), "{found}");
    assert!(found.contains("restow_oldest_unfinished_migration_age_seconds 360"), "{found}");
}

#[tokio::test]
async fn what_is_gone_is_not_exported_any_more() {
    let engine = engine();
    let name = "crontabs.example.com";
    engine.cluster().metrics().visited(name, &Outcome::Unchanged, Duration::ZERO);
    let (store, mut writer) = reflector::store();
    let sweeping = migration("gone-soon", Reason::Sweeping, 10);
    writer.apply_watcher_event(&watcher::Event::Apply(sweeping.clone()));
    let registry = registry(&engine, &store);
    text(&registry);
    writer.apply_watcher_event(&watcher::Event::Apply(migration("gone-soon", Reason::Sweeping, 20)));
    let before = text(&registry);
    assert!(before.contains("gone-soon") && before.contains(name), "{before}");
    assert!(before.contains("reason=\"Sweeping\"} 1.0"), "{before}");

    writer.apply_watcher_event(&watcher::Event::Delete(sweeping));
    engine.forget_crd(name);
    engine.cluster().metrics().forget(name);
    let after = text(&registry);
    assert!(!after.contains("gone-soon") && !after.contains(name), "{after}");
    assert!(after.contains("reason=\"Sweeping\"} 0.0"), "{after}");
    assert!(after.contains("restow_oldest_unfinished_migration_age_seconds 0.0"), "{after}");
}

#[test]
fn a_standing_order_that_runs_again_is_not_as_old_as_its_first_run() {
    let time = |secs| Timestamp::from_second(secs).unwrap();
    let at = |secs| Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time(secs)));
    let mut status = StorageMigrationStatus::default();
    assert_eq!(unfinished_since(&status, time(5)), time(5));
    status.start_time = at(10);
    assert_eq!(unfinished_since(&status, time(5)), time(10));
    // Done since, and then something came in its way.
    status.completion_time = at(20);
    status.conditions = Conditions::build(&[], Reason::AccessDenied, "", 1, time(1000));
    assert_eq!(unfinished_since(&status, time(5)), time(1000));
    status.start_time = at(2000);
    assert_eq!(unfinished_since(&status, time(5)), time(2000));
}
