//! Installed from the chart, by Helm: upgraded while it works, and uninstalled.

use restow::api::Reason;
use serde_json::json;
use testbed::binaries::Program;

use crate::cluster::Cluster;
use crate::conversion::CronTabs;
use crate::manifests::{FREELY, GENTLY, goes_on, keys, leaves};
use crate::product::{NAMESPACE, Product, file};
use crate::step;

/// What the release is called.
const RELEASE: &str = "restow";

pub(crate) async fn prove(cluster: &Cluster, crontabs: &CronTabs<'_>) {
    cluster.kubectl(&["delete", "-k", &file("manifests/crd")]).await;
    let before = keys(cluster).await;
    let product = Product::of(cluster, 1);
    let chart = file("manifests/charts/restow");
    step("the chart: installed, its pod is ready", async {
        let labels = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
        let metadata = json!({ "name": NAMESPACE, "labels": labels });
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
        cluster.apply("namespace", &namespace).await;
        helm(cluster, &["install", RELEASE, &chart, "--wait", "--timeout=5m"]).await;
        product.until_ready().await;
        product.is_restricted().await;
    })
    .await;
    step("upgraded in the midst of a migration, it goes on", async {
        cluster.kubectl(&["apply", "-f", &file("manifests/samples/targets.yaml")]).await;
        crontabs.move_storage("v1beta1").await;
        product.migrate_crontabs(GENTLY).await;
        goes_on(&product, crontabs, "v1beta1").await;
        let faster = ["--set", "extraArgs={--writes-per-second=200}"];
        let upgrade = ["upgrade", RELEASE, &chart, "--wait", "--timeout=5m"];
        helm(cluster, &[&upgrade[..], &faster].concat()).await;
        goes_on(&product, crontabs, "v1beta1").await;
    })
    .await;
    step("all CronTabs are stored in v1beta1 again", async {
        product.pace(FREELY).await;
        product.until(Reason::Migrated).await;
        crontabs.assert_migrated("v1beta1", 3).await;
        product.report().await;
    })
    .await;
    step("uninstalled, the chart leaves its kind and nothing else", async {
        cluster.kubectl(&["delete", "-f", &file("manifests/samples/targets.yaml")]).await;
        helm(cluster, &["uninstall", RELEASE, "--wait", "--timeout=5m"]).await;
        cluster.kubectl(&["delete", "namespace", NAMESPACE]).await;
        leaves(cluster, &before).await;
    })
    .await;
}

/// Runs Helm with nothing of the user's. It has to succeed.
async fn helm(cluster: &Cluster, args: &[&str]) {
    let program = Program::Helm.path().expect("it was built");
    let plane = cluster.node.plane();
    let mut helm = tokio::process::Command::new(program);
    for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        helm.env(name, plane.directory().join("helm"));
    }
    helm.arg("--kubeconfig").arg(plane.admin_kubeconfig_file()).args(["--namespace", NAMESPACE]).args(args);
    let output = helm.kill_on_drop(true).output().await.expect("run Helm");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "helm {args:?}: {said}\n{}", cluster.state().await);
}
