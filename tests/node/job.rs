//! The Jobs of the owner of one CRD: nothing of restow's is in the cluster but its image.

use std::fs;

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::ListParams;
use testbed::crd::{self, Removal};

use crate::cluster::Cluster;
use crate::conversion::CronTabs;
use crate::product::file;
use crate::step;

/// What both Jobs are called, and where they run.
const JOB: &str = "crontabs-migration";
const NAMESPACE: &str = "default";

pub(crate) async fn prove(cluster: &Cluster, crontabs: &CronTabs<'_>) {
    let sample = file("manifests/samples/owner-job.yaml");
    step("a Job migrates to v1 again", async {
        crontabs.move_storage("v1").await;
        cluster.kubectl(&["apply", "-f", &sample]).await;
        until_complete(cluster).await;
        crontabs.assert_migrated("v1", 4).await;
        cluster.kubectl(&["delete", "-f", &sample]).await;
    })
    .await;
    step("a Job that goes before a release migrates to v1beta1, and v1 can go", async {
        crontabs.move_storage("v1beta1").await;
        let chart = chart_with_hook(cluster);
        cluster.helm(NAMESPACE, &["install", "crontabs", &chart, "--wait", "--timeout=5m"]).await;
        crontabs.assert_migrated("v1beta1", 5).await;
        let message = termination_message(cluster).await;
        assert!(message.contains("all objects are stored in v1beta1: 2000 rewritten"), "{message}");
        let removal = crd::remove_version(&cluster.client, &crontabs.kind.crd_name(), "v1").await;
        assert_eq!(removal.expect("edit the CRD"), Removal::Accepted);
    })
    .await;
}

/// A chart of nothing but the shipped hook.
fn chart_with_hook(cluster: &Cluster) -> String {
    let chart = cluster.node.plane().new_path("chart");
    let templates = chart.join("templates");
    fs::create_dir_all(&templates).expect("make directories");
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: crontabs\nversion: 0.1.0\n")
        .expect("write a file");
    fs::copy(file("manifests/gitops/pre-upgrade.yaml"), templates.join("hook.yaml")).expect("copy the hook");
    chart.to_string_lossy().into_owned()
}

/// What the container of the Job's pod left behind.
async fn termination_message(cluster: &Cluster) -> String {
    let of_the_job = ListParams::default().labels(&format!("job-name={JOB}"));
    let pods = cluster.pods(NAMESPACE).list(&of_the_job).await.expect("list pods").items;
    let containers = pods.iter().filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref()).flatten();
    let ended = containers.filter_map(|container| container.state.as_ref()?.terminated.as_ref());
    ended.filter_map(|ended| ended.message.clone()).collect()
}

async fn until_complete(cluster: &Cluster) {
    let jobs: Api<Job> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let conditions = cluster
        .until(&format!("Job {JOB} to end"), async || {
            let conditions = jobs.get(JOB).await.ok()?.status?.conditions?;
            let ends = ["Complete", "Failed"];
            let ended = conditions.iter().any(|it| ends.contains(&it.type_.as_str()) && it.status == "True");
            ended.then_some(conditions)
        })
        .await;
    let complete = conditions.iter().any(|it| it.type_ == "Complete");
    assert!(complete, "{conditions:?}\n{}", cluster.state().await);
}
