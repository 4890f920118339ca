//! What is there to watch restow with: metrics, alerts, the dashboard, events, the log.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use restow::api::Reason;
use serde_json::{Value, json};
use testbed::binaries::Program;
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::Fixture;
use testbed::objects::Batch;

use crate::health::Health;
use crate::policy::Policy;
use crate::scene::{Scene, eventually, manifests};

const METRICS: &str = include_str!("../../docs/metrics.md");
const RULES: &str = include_str!("../../manifests/monitoring/rules.yaml");
const DASHBOARD: &str = include_str!("../../manifests/monitoring/dashboard.json");

/// CRDs as large as those of big operators, and what the controller may take for them: three quarters of its limit. It took
/// 34 MB, unoptimised, and holds one page of them at a time.
const LARGE_CRDS: usize = 60;
const SCHEMA_BYTES: usize = 300 * 1024;
const PEAK_MAX_KIB: u64 = 48 * 1024;

#[tokio::test]
async fn the_metrics_tell_what_was_done_and_pass_promtool() {
    let scene = Scene::old_widgets("metrics", 30).await;
    let health = Health::free();
    let _controller = scene.controller(&["--admin-address", &health.address]).await;
    let crd = scene.kind.crd_name();
    let stale = |count: u8| format!("restow_crd_stale_stored_versions{{crd=\"{crd}\"}} {count}.0");
    eventually("a stale version", async || {
        (health.is_ok("/readyz") && health.metrics("*/*").contains(&stale(1))).then_some(())
    })
    .await;
    scene.migrate(json!({})).await;
    scene.until(Reason::Migrated).await;
    eventually("none any more", async || health.metrics("*/*").contains(&stale(0)).then_some(())).await;
    let text = health.metrics("text/plain");
    for line in [
        format!("restow_visits_total{{resource=\"{crd}\",outcome=\"rewritten\"}} 30"),
        "restow_visit_duration_seconds_count 30".to_owned(),
        "restow_trims_total{result=\"done\"} 1".to_owned(),
        "restow_migrations{state=\"done\",reason=\"Migrated\"} 1.0".to_owned(),
        format!("restow_crd_stored_versions{{crd=\"{crd}\"}} 1.0"),
        "restow_leader 1.0".to_owned(),
        "restow_pace_limit_writes_per_second 100.0".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    // Three API requests at least that have their own verbs.
    for verb in ["list", "watch", "patch"] {
        assert!(
            text.contains(&format!("restow_api_requests_total{{verb=\"{verb}\",code=\"200\"}}")),
            "{text}"
        );
    }
    promtool(&["check", "metrics"], &text);
    let open = health.metrics("application/openmetrics-text; version=1.0.0");
    assert!(open.ends_with("# EOF\n") && open.contains("# TYPE restow_visits counter\n"), "{open}");
    scene.delete_migration(scene.migration()).await;
    eventually("the migration to be gone", async || {
        health.metrics("*/*").contains("reason=\"Migrated\"} 0.0").then_some(())
    })
    .await;
}

#[test]
fn the_alerts_fire_when_they_should_and_pass_promtool() {
    let directory = manifests().join("monitoring");
    for (verb, file) in [("check", "rules.yaml"), ("test", "rules.test.yaml")] {
        promtool(&[verb, "rules", directory.join(file).to_str().unwrap()], "");
    }
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_are_exported() {
    let exported: BTreeSet<_> =
        METRICS.lines().filter_map(|row| row.strip_prefix("| `")?.split('`').next()).collect();
    assert!(exported.len() > 10, "{exported:?}");
    let rules: Value = serde_saphyr::from_str(RULES).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries: Vec<_> = rules.iter().chain(targets).map(|query| query["expr"].as_str().unwrap()).collect();
    assert!(queries.len() > 15, "{queries:?}");
    for query in queries {
        let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let named: Vec<_> = words.filter(|word| word.starts_with("restow_")).collect();
        assert!(!named.is_empty(), "{query}");
        for name in named {
            let name = name.strip_suffix("_bucket").unwrap_or(name);
            assert!(exported.contains(name), "{query} asks for {name}");
        }
    }
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let rules: Value = serde_saphyr::from_str(RULES).unwrap();
    let alerts: BTreeSet<_> = rules["groups"][0]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| {
            let name = rule["alert"].as_str().unwrap().to_owned();
            let page = rule["annotations"]["runbook_url"].as_str().unwrap();
            assert!(page.ends_with(&format!("/docs/runbooks/{name}.md")), "{page}");
            name
        })
        .collect();
    let pages = fs::read_dir(manifests().join("../docs/runbooks")).unwrap();
    let pages: BTreeSet<_> =
        pages.map(|page| page.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(alerts, pages);
}

#[tokio::test]
async fn events_and_log_lines_are_one_for_each_change_and_none_for_an_object() {
    let scene = Scene::widgets("quiet").await;
    let keys = scene.stored_old(&Batch::plain(300)).await;
    // w000 to w009.
    let policy = Policy::apply(&scene, "!object.metadata.name.startsWith('w00')", &keys[3]).await;
    let controller = scene.controller(&["--log-format", "json"]).await;
    scene.migrate(json!({})).await;
    scene.until(Reason::ObjectsRefused).await;
    policy.remove().await;
    scene.ask_retry("now").await;
    scene.until(Reason::Migrated).await;
    let about = |name: &str| ListParams::default().fields(&format!("regarding.name={name}"));
    let events: Api<Event> = Api::namespaced(scene.client.clone(), "default");
    let of_crd = eventually("the event of the trim", async || {
        let found = events.list(&about(&scene.kind.crd_name())).await.unwrap().items;
        (!found.is_empty()).then_some(found)
    })
    .await;
    let reasons: Vec<_> = of_crd.iter().filter_map(|event| event.reason.as_deref()).collect();
    assert_eq!(reasons, ["StoredVersionsTrimmed"]);
    let note = of_crd[0].note.clone().unwrap();
    assert!(note.contains("was v1alpha1, v1 and is v1"), "{note}");
    let of_migration = events.list(&about(scene.migration())).await.unwrap().items;
    assert!((3..=12).contains(&of_migration.len()), "{of_migration:#?}");

    let log = controller.stderr();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(lines.len() < 35, "{log}");
    let of_objects = lines.iter().filter(|line| line.get("object").is_some());
    assert_eq!(of_objects.count(), 10, "one line for each refusal: {log}");
    assert!(!log.contains("w010") && !log.contains("w299"), "{log}");
}

#[tokio::test]
async fn many_large_crds_cost_little_memory() {
    let plane = Box::leak(Box::new(ControlPlane::start(Options::default()).await.expect("start")));
    let scene = Scene::on(plane, "large-crds", Fixture::widgets).await;
    let text = "An operator explains its fields at length. ".repeat(SCHEMA_BYTES / 43);
    for number in 0..LARGE_CRDS {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("larges.n{number}.example.com") },
            "spec": {
                "group": format!("n{number}.example.com"), "scope": "Cluster",
                "names": { "plural": "larges", "singular": "large", "kind": "Large", "listKind": "LargeList" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object", "description": text } },
                }],
            },
        });
        let crds: Api<
            k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        > = Api::all(scene.client.clone());
        crds.create(&kube::api::PostParams::default(), &serde_json::from_value(crd).unwrap()).await.unwrap();
    }
    let health = Health::free();
    let controller = scene.controller(&["--admin-address", &health.address]).await;
    eventually("all CRDs", async || {
        let known = health.is_ok("/readyz")
            && health.metrics("*/*").matches("restow_crd_stored_versions{").count() > LARGE_CRDS;
        known.then_some(())
    })
    .await;
    let status = fs::read_to_string(format!("/proc/{}/status", controller.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < PEAK_MAX_KIB, "{peak} KiB at most, with {LARGE_CRDS} CRDs of {SCHEMA_BYTES} bytes");
}

/// Runs promtool on `input`.
fn promtool(args: &[&str], input: &str) {
    let program = Program::Promtool.path().expect("promtool, which is built with Go");
    let mut promtool = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "promtool {args:?}: {}\n{input}", String::from_utf8_lossy(&said));
}
