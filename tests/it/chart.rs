//! The chart, by real Helm: what it renders, what it refuses, and what it leaves in a cluster.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Map, Value, json};
use testbed::access;
use testbed::binaries::Program;
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::{self, Fixture};

use crate::manifests::{accepts, documents, know_monitors, path, render_with, succeeds, text};
use crate::scene::{BINARY, eventually, install, manifests};

const RULES: &str = include_str!("../../manifests/monitoring/rules.yaml");

/// Labels that Helm's conventions ask for and the manifests don't have.
const OF_HELM: [&str; 4] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
];

/// Everything that can be switched on, and a name for everything that can be named.
const ALL: &str = "
global:
  imagePullSecrets: [{name: pull}]
  priorityClassName: system-cluster-critical
  leaderElection: {leaseDuration: 60s, renewDeadline: 40s, retryPeriod: 15s}
  commonLabels: {team: storage}
replicaCount: 2
strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}
podDisruptionBudget: {enabled: true, minAvailable: 50%}
image: {repository: registry.example.com/restow, tag: '1', pullPolicy: Always}
fullnameOverride: mover
serviceAccount: {name: moving, annotations: {a: b}, labels: {c: d}}
extraArgs: [--writes-per-second=50]
extraEnv: [{name: RESTOW_LOG, value: debug}]
deploymentAnnotations: {e: f}
podAnnotations: {g: h}
podLabels: {i: j}
tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: k, operator: Exists}]}]}}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {i: j}}}]
networkPolicy: {enabled: true}
flowControl: {enabled: true}
prometheus: {podmonitor: {enabled: true, interval: 30s, labels: {o: p}}, prometheusrule: {enabled: true, labels: {q: r}}}
";

#[test]
fn the_chart_has_nothing_that_lint_finds_fault_with() {
    let linted = helm(&["lint", "--strict", path(&chart())]);
    assert!(linted.status.success(), "{}", said(&linted));
}

#[test]
fn the_chart_installs_what_the_manifests_do() {
    let flow_control = ["--set", "flowControl.enabled=true"];
    for (components, set) in [(&[][..], &[][..]), (&["flow-control"], &flow_control)] {
        are_the_same(documents(&render_with(components)), documents(&rendered(set)));
    }
}

fn are_the_same(mut ours: Vec<Value>, mut theirs: Vec<Value>) {
    ours.retain(|object| object["kind"] != "Namespace");
    for object in ours.iter_mut().chain(&mut theirs) {
        normalize(object);
    }
    let key = |object: &Value| format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]));
    ours.sort_by_key(key);
    theirs.sort_by_key(key);
    assert_eq!(theirs.iter().map(key).collect::<Vec<_>>(), ours.iter().map(key).collect::<Vec<_>>());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(theirs, ours, "{}", key(ours));
    }
}

#[tokio::test]
async fn with_everything_switched_on_the_server_takes_what_is_rendered() {
    let plane = ControlPlane::shared().await;
    install(plane).await;
    know_monitors(plane).await;
    for (case, more) in [
        ("podmonitor", &[][..]),
        (
            "servicemonitor",
            &["prometheus.podmonitor.enabled=false", "prometheus.servicemonitor.enabled=true"][..],
        ),
        ("no roles", &["global.rbac.create=false", "serviceAccount.create=false"][..]),
    ] {
        let values = plane.new_path("values.yaml");
        fs::write(&values, ALL).unwrap();
        let set = more.iter().flat_map(|value| ["--set", value]);
        let args: Vec<&str> = ["--values", path(&values)].into_iter().chain(set).collect();
        let file = plane.new_path("rendered.yaml");
        let rendered = rendered(&args);
        let kinds: Vec<_> = documents(&rendered).iter().map(|object| text(&object["kind"])).collect();
        for kind in ["Deployment", "FlowSchema", "PodDisruptionBudget", "NetworkPolicy", "PrometheusRule"] {
            assert!(kinds.contains(&kind.to_owned()), "{case}: {kinds:?} lack {kind}");
        }
        let rules =
            documents(&rendered).into_iter().find(|object| object["kind"] == "PrometheusRule").unwrap();
        assert_eq!(rules["spec"], documents(RULES)[0], "{case}");
        fs::write(&file, rendered).unwrap();
        accepts(plane, &["-f", path(&file)]).await;
    }
}

/// The flags as the binary takes them: it gets as far as missing a cluster.
#[test]
fn the_times_of_the_election_and_the_replicas_are_those_of_the_values() {
    let times = ["leaseDuration=60s", "renewDeadline=40s", "retryPeriod=15s"];
    let set = times.map(|time| format!("global.leaderElection.{time}")).join(",");
    let deployment = |args: &[&str]| {
        let rendered = documents(&rendered(args)).into_iter();
        let mut of_kind = rendered.filter(|object| object["kind"] == "Deployment");
        of_kind.next().unwrap()
    };
    let args = |deployment: &Value| -> Vec<String> {
        deployment["spec"]["template"]["spec"]["containers"][0]["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(text)
            .collect()
    };
    let chosen = deployment(&["--set", &set, "--set", "replicaCount=2"]);
    assert_eq!(chosen["spec"]["replicas"].as_f64(), Some(2.0));
    let ran = |args: &[String]| {
        let mut restow = Command::new(BINARY);
        let output = restow.args(args).env("KUBECONFIG", "/nowhere/at/all").output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = ran(&args(&chosen));
    assert_eq!(code, Some(1), "{said}");
    let contradictory = deployment(&["--set", "global.leaderElection.leaseDuration=5s"]);
    let (code, said) = ran(&args(&contradictory));
    assert_eq!(code, Some(2), "{said}");
    assert_eq!(args(&deployment(&[])), ["controller"]);
}

#[test]
fn a_value_that_is_not_known_is_refused_wherever_it_stands() {
    let values: Value =
        serde_saphyr::from_str(&fs::read_to_string(chart().join("values.yaml")).unwrap()).unwrap();
    let schema: Value =
        serde_json::from_str(&fs::read_to_string(chart().join("values.schema.json")).unwrap()).unwrap();
    let mut closed = Vec::new();
    compare_with_schema("", &values, &schema, &mut closed);
    assert!(closed.len() >= 10 && closed.contains(&"prometheus.podmonitor.".to_owned()), "{closed:?}");
    for parent in closed {
        let refused = template(&["--set", &format!("{parent}replicacount=1")]);
        assert!(!refused.status.success(), "{parent}");
        assert!(
            said(&refused).contains("additional properties 'replicacount' not allowed"),
            "{}",
            said(&refused)
        );
    }
}

#[test]
fn values_that_can_not_be_meant_are_refused() {
    for (set, why) in [
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("image.digest=sha256:abc", "digest"),
        ("replicaCount=-1", "replicaCount"),
        ("global.leaderElection.leaseDuration=soon", "leaseDuration"),
        ("podLabels.a=7", "podLabels"),
        ("prometheus.podmonitor.enabled=true,prometheus.servicemonitor.enabled=true", "twice"),
    ] {
        let refused = template(&["--set", set]);
        assert!(!refused.status.success() && said(&refused).contains(why), "{set}: {}", said(&refused));
    }
}

#[tokio::test]
async fn a_release_is_installed_upgraded_with_its_definition_and_uninstalled_without_it() {
    let plane = ControlPlane::start(Options::default()).await.expect("a control plane of its own");
    let namespace: Namespace =
        serde_json::from_value(json!({ "metadata": { "name": access::NAMESPACE } })).unwrap();
    Api::all(plane.admin()).create(&PostParams::default(), &namespace).await.unwrap();
    let kubeconfig = plane.admin_kubeconfig_file();
    let run = |args: &[&str]| {
        let whose = ["--kubeconfig", path(&kubeconfig), "--namespace", access::NAMESPACE];
        let output = helm(&[args, &whose].concat());
        assert!(output.status.success(), "{args:?}: {}", said(&output));
    };
    run(&["install", "restow", path(&chart())]);
    let installed = listed(&plane).await;
    for name in [
        "deployment.apps/restow",
        "clusterrole.rbac.authorization.k8s.io/restow-targets",
        "serviceaccount/restow",
    ] {
        assert!(installed.contains(&name.to_owned()), "{installed:?} lack {name}");
    }
    // A StorageMigration outlives the release.
    let sample = manifests().join("samples/migration.yaml");
    eventually("the kind to be served", async || {
        plane.kubectl(&["apply", "-f", path(&sample)]).await.unwrap().status.success().then_some(())
    })
    .await;

    let newer = newer_chart();
    run(&["upgrade", "restow", path(newer.path()), "--set", "replicaCount=0"]);
    let crds: Api<CustomResourceDefinition> = Api::all(plane.admin());
    let crd = crds.get("storagemigrations.restow.dev").await.unwrap();
    assert_eq!(crd.spec.names.short_names.unwrap(), ["newer"]);

    run(&["uninstall", "restow"]);
    assert_eq!(
        listed(&plane).await,
        ["customresourcedefinition.apiextensions.k8s.io/storagemigrations.restow.dev"]
    );
    // One that is being deleted is still there for a while.
    let kept = crds.get("storagemigrations.restow.dev").await.unwrap();
    assert_eq!(kept.metadata.deletion_timestamp, None);
    succeeds(&plane, &["get", "storagemigrations.restow.dev", "crontabs"]).await;

    run(&["install", "restow", path(&chart()), "--set", "crds.keep=false", "--take-ownership"]);
    run(&["uninstall", "restow"]);
    eventually("the definition to be gone, too", async || listed(&plane).await.is_empty().then_some(()))
        .await;
}

#[tokio::test]
async fn the_account_of_a_release_has_the_rights_of_its_roles_and_no_others() {
    let plane = ControlPlane::start(Options::default()).await.expect("a control plane of its own");
    let file = plane.new_path("rendered.yaml");
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": access::NAMESPACE },
    });
    fs::write(&file, format!("{}\n---\n{namespace}\n", rendered(&[]))).unwrap();
    access::install(&plane, &file).await.unwrap();
    let kind = crd::apply(&plane.admin(), &Fixture::widgets("chart.example.com")).await.unwrap();
    access::grant_target(&plane, &kind.group, kind.plural).await.unwrap();
    let token = access::token(&plane).await;
    let may = |args: &[&str]| {
        let kubectl = Program::Kubectl.path().unwrap();
        let mut command = Command::new(kubectl);
        command.arg("--kubeconfig").arg(plane.kubeconfig_file(&token)).args(["auth", "can-i"]).args(args);
        command.output().unwrap().status.success()
    };
    assert!(may(&["patch", "widgets.chart.example.com"]));
    assert!(may(&["patch", "storagemigrations.restow.dev", "--subresource=status"]));
    assert!(!may(&["patch", "secrets", "--all-namespaces"]));
}

/// The objects that carry the name of restow, as kubectl names them.
async fn listed(plane: &ControlPlane) -> Vec<String> {
    let kinds = "deployments,serviceaccounts,services,secrets,roles,rolebindings,clusterroles,clusterrolebindings,\
                 networkpolicies,poddisruptionbudgets,customresourcedefinitions";
    let args = ["get", kinds, "--all-namespaces", "-l", "app.kubernetes.io/name=restow", "-o", "name"];
    let output = plane.kubectl(&args).await.unwrap();
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// The chart with another definition in it.
fn newer_chart() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for file in walk(&chart()) {
        let to = directory.path().join(file.strip_prefix(chart()).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(&file, to).unwrap();
    }
    let crd = directory.path().join("templates/crd.yaml");
    let text = fs::read_to_string(&crd).unwrap();
    assert!(text.contains("- smig"), "the short name");
    fs::write(crd, text.replace("- smig", "- newer")).unwrap();
    directory
}

fn walk(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// Finds the objects that take no other properties, and checks that the schema knows every value and no other.
fn compare_with_schema(at: &str, values: &Value, schema: &Value, closed: &mut Vec<String>) {
    let (Some(values), Some(properties)) = (values.as_object(), schema["properties"].as_object()) else {
        return;
    };
    if schema["additionalProperties"] == json!(false) {
        closed.push(at.to_owned());
    } else {
        assert_eq!(at, "global.", "only the globals are shared with other charts");
    }
    let names = |of: &Map<String, Value>| of.keys().cloned().collect::<Vec<_>>();
    if !at.is_empty() && at != "strategy." {
        assert_eq!(names(properties), names(values), "{at}");
    }
    for (name, value) in values {
        let property = properties.get(name).unwrap_or_else(|| panic!("the schema lacks {at}{name}"));
        assert!(
            property.get("type").is_some() || property.get("enum").is_some(),
            "{at}{name} may be anything"
        );
        compare_with_schema(&format!("{at}{name}."), value, property, closed);
    }
}

/// Takes away what may differ: labels of Helm's conventions, what the server fills in anyway, and whether 1 is written 1.0.
fn normalize(object: &mut Value) {
    match object {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                !OF_HELM.contains(&name.as_str())
                    && name != "helm.sh/resource-policy"
                    && !(name == "imagePullPolicy" && value == "IfNotPresent")
            });
            fields.values_mut().for_each(normalize);
            fields.retain(|name, value| name != "annotations" || value != &json!({}));
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Number(number) => *object = json!(number.as_f64()),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn rendered(args: &[&str]) -> String {
    let output = template(args);
    assert!(output.status.success(), "{args:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn template(args: &[&str]) -> Output {
    let chart = chart();
    let release =
        ["template", "restow", path(&chart), "--namespace", access::NAMESPACE, "--kube-version", "1.37"];
    helm(&[&release, args].concat())
}

/// Runs Helm with nothing of the user's.
pub(crate) fn helm(args: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    let mut helm = Command::new(Program::Helm.path().unwrap());
    for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        helm.env(name, home.path());
    }
    helm.args(args).output().unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

fn chart() -> std::path::PathBuf {
    manifests().join("charts/restow")
}
