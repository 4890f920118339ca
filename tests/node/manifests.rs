//! Installed from the rendered manifests: a migration that nothing stops, and a removal that leaves what it should.

use std::collections::BTreeSet;

use restow::api::Reason;
use serde_json::json;

use crate::cluster::Cluster;
use crate::conversion::{CronTabs, OBJECTS};
use crate::product::{Product, file};
use crate::step;

/// Where the manifests install it.
const NAMESPACE: &str = "restow-system";
/// So slow that the migration is not done before all that is to happen meanwhile has happened.
pub(crate) const GENTLY: u32 = 5;
/// As fast as the controller goes by itself.
pub(crate) const FREELY: u32 = 100;
/// What a step has to get on by, to show that it does.
const PROGRESS: usize = 20;

/// Keys of etcd that come and go by themselves.
const PASSING: [&str; 5] = [
    "/registry/events/",
    "/registry/events.k8s.io/",
    "/registry/leases/",
    "/registry/masterleases/",
    "/registry/replicasets/conversion/",
];

pub(crate) async fn prove(cluster: &Cluster, crontabs: &CronTabs<'_>) {
    let before = keys(cluster).await;
    let product = Product::of(cluster, NAMESPACE, 2);
    step("install.yaml: its pod is ready", install(&product)).await;
    step("its namespace enforces PodSecurity restricted", product.is_restricted()).await;
    step("with the component ha there are two", install_second(&product)).await;
    cluster.kubectl(&["apply", "-f", &file("manifests/samples/targets.yaml")]).await;
    crontabs.move_storage("v1").await;
    step("a migration begins", async {
        product.migrate_crontabs(GENTLY).await;
        goes_on(&product, crontabs, "v1").await;
    })
    .await;
    step("the leader's pod is killed, another takes over", async {
        let leader = product.leader().await;
        product.kill(&leader).await;
        product.successor_of(&leader).await;
        goes_on(&product, crontabs, "v1").await;
    })
    .await;
    step("all pods are replaced, it goes on", async {
        product.roll().await;
        goes_on(&product, crontabs, "v1").await;
    })
    .await;
    step("the leader's pod is evicted, it goes on", async {
        let leader = product.leader().await;
        product.evict(&leader).await;
        product.successor_of(&leader).await;
        goes_on(&product, crontabs, "v1").await;
    })
    .await;
    step("all CronTabs are stored in v1, each written once, and v1beta1 is trimmed", async {
        product.pace(FREELY).await;
        product.until(Reason::Migrated).await;
        crontabs.assert_migrated("v1", 2).await;
    })
    .await;
    step("the API server is away, the pods are left alone", product.outlives_an_outage()).await;
    product.report().await;
    step("a process that hangs is started anew", product.is_restarted_when_it_hangs()).await;
    step("removed, it leaves its kind and nothing else", async {
        cluster.kubectl(&["delete", "-f", &file("manifests/samples/targets.yaml")]).await;
        cluster.kubectl(&["delete", "-k", &file("manifests/controller")]).await;
        cluster.kubectl(&["delete", "-k", &file("manifests/rbac")]).await;
        leaves(cluster, &before).await;
    })
    .await;
}

async fn install(product: &Product<'_>) {
    let cluster = product.cluster;
    cluster.kubectl(&["apply", "--server-side", "-f", &file("manifests/install.yaml")]).await;
    product.until_rolled_out().await;
    product.until_so_many_are_ready(1).await;
}

/// As an overlay of one's own would.
async fn install_second(product: &Product<'_>) {
    let overlay = product.cluster.node.plane().new_path("overlay");
    std::fs::create_dir(&overlay).expect("make a directory");
    // Paths of bases are relative.
    let overlay = overlay.canonicalize().expect("it is there");
    let up = "../".repeat(overlay.components().count() - 1);
    let base = |name: &str| format!("{up}{}", file(name).trim_start_matches('/'));
    let kustomization = json!({
        "resources": [base("manifests/default")], "components": [base("manifests/components/ha")],
    });
    std::fs::write(overlay.join("kustomization.yaml"), kustomization.to_string()).expect("write the overlay");
    product.cluster.kubectl(&["apply", "--server-side", "-k", &overlay.to_string_lossy()]).await;
    product.until_ready().await;
}

/// Waits until more are migrated than now, and asserts that the migration is still not done.
pub(crate) async fn goes_on(product: &Product<'_>, crontabs: &CronTabs<'_>, version: &str) {
    let before = crontabs.count(version).await;
    product.until_ready().await;
    let wish = format!("more than {before} CronTabs to be stored in {version}");
    product
        .cluster
        .until(&wish, async || (crontabs.count(version).await >= before + PROGRESS).then_some(()))
        .await;
    assert!(crontabs.count(version).await < OBJECTS, "it was done too early to show anything");
}

/// Waits until all that has come since is the kind, and the StorageMigration that the user made.
pub(crate) async fn leaves(cluster: &Cluster, before: &BTreeSet<String>) {
    let kept = BTreeSet::from(
        [
            "/registry/apiextensions.k8s.io/customresourcedefinitions/storagemigrations.restow.dev",
            "/registry/apiregistration.k8s.io/apiservices/v1alpha1.restow.dev",
            "/registry/restow.dev/storagemigrations/crontabs",
        ]
        .map(str::to_owned),
    );
    cluster
        .until(&format!("no more to be left than {kept:#?}"), async || {
            let left: BTreeSet<_> = keys(cluster).await.difference(before).cloned().collect();
            (left == kept).then_some(())
        })
        .await;
}

/// All keys of the cluster but those that come and go.
pub(crate) async fn keys(cluster: &Cluster) -> BTreeSet<String> {
    let mut keys = cluster.node.plane().etcd().keys().await;
    keys.retain(|key| !PASSING.iter().any(|passing| key.starts_with(passing)));
    keys
}
