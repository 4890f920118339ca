//! Installed from the chart, by Helm: upgraded while it works, and uninstalled.

use restow::api::Reason;
use serde_json::json;

use crate::cluster::Cluster;
use crate::conversion::CronTabs;
use crate::manifests::{FREELY, GENTLY, goes_on, keys, leaves};
use crate::product::{Product, file};
use crate::step;

/// What the release is called.
const RELEASE: &str = "restow";
/// Where it is installed: not where the manifests were. The API server was away, and a controller manager that is still
/// catching up takes a new Deployment for the old one of the same name, whose pods then stay.
const NAMESPACE: &str = "restow-chart";

pub(crate) async fn prove(cluster: &Cluster, crontabs: &CronTabs<'_>) {
    cluster.kubectl(&["delete", "-k", &file("manifests/crd")]).await;
    let before = keys(cluster).await;
    let product = Product::of(cluster, NAMESPACE, 1);
    let chart = file("manifests/charts/restow");
    step("the chart: installed, its pod is ready", async {
        let labels = json!({ "pod-security.kubernetes.io/enforce": "restricted" });
        let metadata = json!({ "name": NAMESPACE, "labels": labels });
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
        cluster.apply("namespace", &namespace).await;
        cluster.helm(NAMESPACE, &["install", RELEASE, &chart, "--wait", "--timeout=5m"]).await;
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
        cluster.helm(NAMESPACE, &[&upgrade[..], &faster].concat()).await;
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
        cluster.helm(NAMESPACE, &["uninstall", RELEASE, "--wait", "--timeout=5m"]).await;
        cluster.kubectl(&["delete", "namespace", NAMESPACE]).await;
        leaves(cluster, &before).await;
    })
    .await;
}
