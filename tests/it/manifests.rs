//! The shipped manifests, as kubectl renders them: what a server takes, and what the binary understands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};
use testbed::access;
use testbed::binaries::{Program, downloaded};
use testbed::control_plane::ControlPlane;

use crate::scene::{BINARY, eventually, install, manifests};

/// The components, each with the number of objects that it adds.
const COMPONENTS: [(&str, usize); 8] = [
    ("flow-control", 3),
    ("ha", 1),
    ("job", 1),
    ("monitoring/pod-monitor", 1),
    ("monitoring/prometheus-rule", 1),
    ("monitoring/service-monitor", 2),
    ("network-policy", 1),
    ("wildcard-rbac", 1),
];

/// Where its definitions come from.
const PROMETHEUS_OPERATOR: &str = "github.com/prometheus-operator/prometheus-operator@v0.85.0";

#[tokio::test]
async fn the_default_with_all_components_is_accepted_by_the_server() {
    let plane = installed().await;
    know_monitors(plane).await;
    let rendered = render_with(&COMPONENTS.map(|(component, _)| component));
    let kinds: Vec<_> = documents(&rendered).iter().map(|object| text(&object["kind"])).collect();
    for kind in [
        "Deployment",
        "Job",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "PodMonitor",
        "PrometheusRule",
        "ServiceMonitor",
    ] {
        assert!(kinds.contains(&kind.to_owned()), "{kinds:?} lack {kind}");
    }
    let file = plane.new_path("rendered.yaml");
    fs::write(&file, rendered).unwrap();
    accepts(plane, &["-f", path(&file)]).await;
}

#[tokio::test]
async fn every_sample_is_accepted_by_the_server() {
    let plane = installed().await;
    let samples: Vec<_> =
        fs::read_dir(manifests().join("samples")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(samples.len() >= 8, "{samples:?}");
    for sample in samples {
        accepts(plane, &[if sample.is_dir() { "-k" } else { "-f" }, path(&sample)]).await;
    }
}

#[test]
fn a_component_changes_nothing_but_what_it_is_for() {
    let default = documents(&render(&manifests().join("default")));
    for (component, added) in COMPONENTS {
        let with = documents(&render_with(&[component]));
        assert_eq!(with.len(), default.len() + added, "{component}");
        let changed: Vec<_> = default
            .iter()
            .filter(|object| !with.contains(object))
            .map(|object| text(&object["kind"]))
            .collect();
        let expected: &[&str] = if component == "ha" { &["Deployment"] } else { &[] };
        assert_eq!(changed, expected, "{component}");
    }
}

#[test]
fn the_pods_run_this_version_with_commands_that_it_understands() {
    let exit = |args: &[String], more: &str| {
        Command::new(BINARY).args(args).arg(more).output().unwrap().status.code()
    };
    let pods = shipped_pods();
    assert_eq!(pods.len(), 4);
    for pod in pods {
        let [container] = pod["containers"].as_array().unwrap().as_slice() else { panic!("{pod}") };
        let image = format!("ghcr.io/restow-dev/restow:{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(container["image"], image);
        let args: Vec<String> = container["args"].as_array().unwrap().iter().map(text).collect();
        assert_eq!((exit(&args, "--help"), exit(&args, "--no-such-flag")), (Some(0), Some(2)), "{args:?}");
    }
}

#[test]
fn the_deployment_is_held_within_what_is_promised() {
    let rendered = documents(&render(&manifests().join("default")));
    let deployment = rendered.into_iter().find(|object| object["kind"] == "Deployment").unwrap();
    let deployment: Deployment = serde_json::from_value(deployment).unwrap();
    let pod = deployment.spec.template.spec.unwrap();
    assert_eq!(pod.service_account_name.as_deref(), Some(access::SERVICE_ACCOUNT));
    let security = pod.security_context.unwrap();
    assert_eq!((security.run_as_user, security.run_as_non_root), (Some(65532), Some(true)));
    let container = &pod.containers[0];
    let resources = serde_json::to_value(&container.resources).unwrap();
    let expected = json!({ "requests": { "cpu": "50m", "memory": "32Mi" }, "limits": { "memory": "64Mi" } });
    assert_eq!(resources, expected);
    assert_eq!(container.security_context.as_ref().unwrap().read_only_root_filesystem, Some(true));
}

#[test]
fn a_job_ends_with_the_exit_codes_that_another_try_does_not_change() {
    let help = Command::new(BINARY).args(["migrate", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, table) = help.split_once("Exit codes:\n").unwrap();
    let codes: Vec<i64> =
        table.lines().map_while(|line| line.split_whitespace().next()?.parse().ok()).collect();
    assert_eq!(codes, [0, 1, 2, 3, 4]);
    let again = [0, 1];
    let failing: Vec<_> = codes.into_iter().filter(|code| !again.contains(code)).collect();
    for job in
        files_with_pods().iter().flat_map(|file| documents(file)).filter(|object| object["kind"] == "Job")
    {
        let rules = job["spec"]["podFailurePolicy"]["rules"].as_array().unwrap();
        let fail = rules.iter().find(|rule| rule["action"] == "FailJob").unwrap();
        assert_eq!(fail["onExitCodes"], json!({ "operator": "In", "values": failing }));
    }
}

/// The Pods of PodSecurity's level `restricted`, as the server's admission judges them.
#[tokio::test]
async fn every_pod_is_admitted_where_only_restricted_ones_are_and_without_a_warning() {
    let plane = installed().await;
    for spec in shipped_pods() {
        let admitted = admit(plane, &spec).await;
        assert!(admitted.status.success(), "{admitted:?}");
        assert!(admitted.stderr.is_empty(), "{}", String::from_utf8_lossy(&admitted.stderr));
    }
    let mut root = shipped_pods().swap_remove(0);
    root["securityContext"]["runAsNonRoot"] = json!(false);
    let refused = admit(plane, &root).await;
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("violates PodSecurity \"restricted"), "{said}");
}

/// The specs of all Pods that the manifests make.
fn shipped_pods() -> Vec<Value> {
    let files = files_with_pods();
    let objects = files.iter().flat_map(|file| documents(file));
    objects.filter_map(|object| object["spec"]["template"].get("spec").cloned()).collect()
}

fn files_with_pods() -> [String; 3] {
    let file = |name: &str| fs::read_to_string(manifests().join(name)).unwrap();
    [render_with(&["job"]), file("samples/owner-job.yaml"), file("gitops/pre-upgrade.yaml")]
}

async fn admit(plane: &ControlPlane, spec: &Value) -> Output {
    let mut spec = spec.clone();
    spec["serviceAccountName"] = json!(access::SERVICE_ACCOUNT);
    spec["restartPolicy"] = json!("Never");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "restow", "namespace": access::NAMESPACE }, "spec": spec,
    });
    let file = plane.new_path("pod.json");
    fs::write(&file, pod.to_string()).unwrap();
    plane.kubectl(&["create", "--dry-run=server", "--validate=strict", "-f", path(&file)]).await.unwrap()
}

/// The shared control plane with what install.yaml holds.
async fn installed() -> &'static ControlPlane {
    let plane = ControlPlane::shared().await;
    install(plane).await;
    plane
}

/// Makes the kinds of the Prometheus operator known, as it defines them.
pub(crate) async fn know_monitors(plane: &ControlPlane) {
    let sources = downloaded(PROMETHEUS_OPERATOR).expect("the operator's sources, which Go downloads");
    for kind in ["podmonitors", "prometheusrules", "servicemonitors"] {
        let definition = format!("example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml");
        know(plane, &sources.join(definition), &format!("{kind}.monitoring.coreos.com")).await;
    }
}

/// Applies a definition, and waits until `kind` is served.
pub(crate) async fn know(plane: &ControlPlane, definition: &Path, kind: &str) {
    // Two tests may do so at once, and one of them be told so.
    eventually(kind, async || {
        let apply = ["apply", "--server-side", "-f", path(definition)];
        let applied = plane.kubectl(&apply).await.unwrap().status.success();
        (applied && plane.kubectl(&["get", kind]).await.unwrap().status.success()).then_some(())
    })
    .await;
}

/// Asserts that the server would take what `source` names, without a word.
pub(crate) async fn accepts(plane: &ControlPlane, source: &[&str]) {
    let apply = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict"];
    succeeds(plane, &[&apply, source].concat()).await;
}

pub(crate) async fn succeeds(plane: &ControlPlane, args: &[&str]) {
    let output = plane.kubectl(args).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("Warning"), "{args:?}: {said}");
}

/// The default with components, rendered in a directory outside.
pub(crate) fn render_with(components: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().canonicalize().unwrap();
    // kustomize takes no absolute paths.
    let root = "../".repeat(here.components().count() - 1);
    let within = |name: &str| format!("{root}{}", path(&manifests().join(name)).trim_start_matches('/'));
    let components: Vec<_> = components.iter().map(|name| within(&format!("components/{name}"))).collect();
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": [within("default")], "components": components,
    });
    fs::write(here.join("kustomization.yaml"), kustomization.to_string()).unwrap();
    render(&here)
}

pub(crate) fn render(directory: &Path) -> String {
    let kubectl: PathBuf = Program::Kubectl.path().unwrap();
    let output = Command::new(kubectl).arg("kustomize").arg(directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn documents(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap()
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(crate) fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
