//! The bench shows what is so: a real server, what etcd holds, who asked for what, and the rights the product has.
#![expect(clippy::expect_used, reason = "tests")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use testbed::access;
use testbed::audit::Filter;
use testbed::control_plane::{ControlPlane, Options};
use testbed::etcd::{Etcd, UNREADABLE};
use testbed::process::Signal;

const DEADLINE: Duration = Duration::from_secs(20);
/// API servers look every 15 s whether their history was compacted.
const COMPACTION_DEADLINE: Duration = Duration::from_secs(40);
const NAMESPACE: &str = "default";

fn widgets_crd(group: &str, storage: &str) -> Value {
    let version = |name: &str| {
        json!({
            "name": name, "served": true, "storage": name == storage,
            "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("widgets.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
            "versions": [version("v1alpha1"), version("v1")],
        },
    })
}

async fn apply_crd(client: &Client, group: &str, storage: &str) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("testbed-test").force();
    let crd = Patch::Apply(widgets_crd(group, storage));
    crds.patch(&format!("widgets.{group}"), &apply, &crd).await.expect("the CRD is applied");
}

fn widgets(client: &Client, group: &str, version: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, "Widget"));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

async fn create(client: &Client, group: &str, name: &str) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", "Widget"));
    let widget = DynamicObject::new(name, &resource).data(json!({ "spec": { "size": 1 } }));
    let begun = Instant::now();
    // The handler of a new CRD is not there at once.
    while let Err(error) = widgets(client, group, "v1").create(&PostParams::default(), &widget).await {
        assert!(begun.elapsed() < DEADLINE, "create {name}: {error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn counts(expected: &[(&str, usize)]) -> BTreeMap<String, usize> {
    expected.iter().map(|(version, count)| ((*version).to_owned(), *count)).collect()
}

#[tokio::test]
async fn etcd_shows_the_version_an_object_is_stored_in() {
    let group = "stored.testbed.example.com";
    let plane = ControlPlane::shared().await;
    let (client, etcd) = (plane.admin(), plane.etcd());
    apply_crd(&client, group, "v1alpha1").await;
    for name in ["a", "b"] {
        create(&client, group, name).await;
    }
    let (old, new) = (format!("{group}/v1alpha1"), format!("{group}/v1"));
    assert_eq!(etcd.stored_versions(group, "widgets").await, counts(&[(&old, 2)]));

    apply_crd(&client, group, "v1").await;
    let begun = Instant::now();
    while etcd.stored_versions(group, "widgets").await != counts(&[(&new, 1), (&old, 1)]) {
        assert!(begun.elapsed() < DEADLINE, "a visit rewrites the object once the handler is the new one");
        let visit = Patch::Merge(json!({}));
        let _ = widgets(&client, group, "v1").patch("a", &PatchParams::default(), &visit).await;
    }
    let value = etcd.value(group, "widgets", Some(NAMESPACE), "b").await.expect("b is stored");
    assert_eq!(value["spec"]["size"], 1);

    let key = Etcd::key(group, "widgets", Some(NAMESPACE), "a");
    etcd.put(&key, "no JSON").await;
    assert_eq!(etcd.stored_versions(group, "widgets").await, counts(&[(&old, 1), (UNREADABLE, 1)]));
    etcd.delete(&key).await;
    assert_eq!(etcd.values(group, "widgets").await.len(), 1);
}

#[tokio::test]
async fn many_objects_are_read_in_pages_without_loss() {
    let group = "paged.testbed.example.com";
    let plane = ControlPlane::shared().await;
    let etcd = plane.etcd();
    let puts = (0..1001).map(|number| async move {
        let name = format!("w{number:04}");
        etcd.put(&Etcd::key(group, "widgets", None, &name), json!({ "apiVersion": "x/v1" }).to_string())
            .await;
    });
    futures::future::join_all(puts).await;
    assert_eq!(etcd.stored_versions(group, "widgets").await, counts(&[("x/v1", 1001)]));
}

#[tokio::test]
async fn compaction_expires_a_list_token() {
    let group = "compacted.testbed.example.com";
    let plane = ControlPlane::start(Options::default()).await.expect("a control plane of its own");
    let client = plane.admin();
    apply_crd(&client, group, "v1").await;
    for name in ["a", "b", "c"] {
        create(&client, group, name).await;
    }
    let first =
        widgets(&client, group, "v1").list(&ListParams::default().limit(1)).await.expect("a first page");
    create(&client, group, "d").await;
    plane.etcd().compact_now().await;
    let token = first.metadata.continue_.expect("there is more");
    let next = ListParams::default().limit(1).continue_token(&token);
    let begun = Instant::now();
    while !matches!(widgets(&client, group, "v1").list(&next).await, Err(kube::Error::Api(status)) if status.code == 410)
    {
        assert!(begun.elapsed() < COMPACTION_DEADLINE, "the token is not expired");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn the_audit_log_shows_who_asked_for_what() {
    let group = "audit.testbed.example.com";
    let plane = ControlPlane::shared().await;
    let client = plane.admin();
    apply_crd(&client, group, "v1").await;
    create(&client, group, "a").await;
    let log = plane.audit().from_now();
    for _ in 0..3 {
        widgets(&client, group, "v1").get("a").await.expect("a is there");
    }
    let gets = Filter::resource(group, "widgets").verb("get").name("a").user("admin");
    let begun = Instant::now();
    while log.count(&gets) != 3 {
        assert!(begun.elapsed() < DEADLINE, "{:?}", log.entries(&Filter::group(group)));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(log.entries(&gets).iter().all(|entry| entry.code() == 200 && entry.received <= entry.answered));
    assert_eq!(log.count(&Filter::resource(group, "widgets").verb("patch")), 0);
}

#[tokio::test]
async fn the_api_server_comes_back_after_it_was_killed() {
    let plane = ControlPlane::start(Options::default()).await.expect("a control plane of its own");
    let client = plane.admin();
    plane.api_server().stop(Signal::Kill).await.expect("it ends");
    assert!(client.apiserver_version().await.is_err(), "nobody answers");
    plane.api_server().start().await.expect("it starts again");
    let version = plane.admin().apiserver_version().await.expect("it answers");
    assert_eq!(version.git_version, testbed::binaries::kubernetes_version());
}

#[tokio::test]
async fn kubectl_works_against_it() {
    let plane = ControlPlane::shared().await;
    let output = plane.kubectl(&["get", "namespace", "default", "-o", "name"]).await.expect("kubectl runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "namespace/default\n", "{output:?}");
}

#[tokio::test]
async fn kube_reads_the_kubeconfig_as_kubectl_does() {
    let plane = ControlPlane::shared().await;
    let path = plane.admin_kubeconfig_file();
    let kubeconfig = Kubeconfig::read_from(path).expect("kube reads the file");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let client = Client::try_from(config.expect("it is complete")).expect("a client");
    client.apiserver_version().await.expect("the server's certificate is verified and the token accepted");
}

/// Manifests in the shape of the shipped ones, so that this test needs none of the product.
const MANIFESTS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: restow-targets}
aggregationRule:
  clusterRoleSelectors:
  - matchLabels: {rbac.restow.dev/aggregate-to-targets: "true"}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: restow-targets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: restow-targets}
subjects:
- {kind: ServiceAccount, name: restow, namespace: restow-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: restow, namespace: restow-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: restow-system}
"#;

async fn may_list(plane: &ControlPlane, group: &str) -> bool {
    let token = access::token(plane).await;
    let client = Client::try_from(plane.config_for_token(&token)).expect("a client");
    widgets(&client, group, "v1").list(&ListParams::default()).await.is_ok()
}

#[tokio::test]
async fn the_product_may_touch_what_it_was_granted_and_nothing_else() {
    let plane = ControlPlane::start(Options::default()).await.expect("a control plane of its own");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("install.yaml");
    std::fs::write(&file, MANIFESTS).expect("the manifests are written");
    access::install(&plane, &file).await.expect("the manifests are applied");
    let groups: Vec<String> = (0..8).map(|number| format!("g{number}.testbed.example.com")).collect();
    for group in &groups {
        apply_crd(&plane.admin(), group, "v1").await;
    }
    let granted = groups[1..].iter().map(|group| access::grant_target(&plane, group, "widgets"));
    futures::future::try_join_all(granted).await.expect("the grants come into effect");
    for group in &groups[1..] {
        create(&plane.admin(), group, "a").await;
        assert!(may_list(&plane, group).await, "{group} was granted");
    }
    assert!(!may_list(&plane, &groups[0]).await, "{} was not granted", groups[0]);

    access::revoke_target(&plane, &groups[1], "widgets").await.expect("the grant is taken back");
    assert!(!may_list(&plane, &groups[1]).await, "{} was taken back", groups[1]);
}
