//! The Job of the owner of one CRD: nothing of restow's is in the cluster but its image.

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use testbed::crd::{self, Removal};

use crate::cluster::Cluster;
use crate::conversion::CronTabs;
use crate::product::file;
use crate::step;

pub(crate) async fn prove(cluster: &Cluster, crontabs: &CronTabs<'_>) {
    let sample = file("manifests/samples/owner-job.yaml");
    step("a Job migrates to v1 again, and v1beta1 can go", async {
        crontabs.move_storage("v1").await;
        cluster.kubectl(&["apply", "-f", &sample]).await;
        until_complete(cluster, "crontabs-migration").await;
        crontabs.assert_migrated("v1", 4).await;
        cluster.kubectl(&["delete", "-f", &sample]).await;
        let removal = crd::remove_version(&cluster.client, &crontabs.kind.crd_name(), "v1beta1").await;
        assert_eq!(removal.expect("edit the CRD"), Removal::Accepted);
    })
    .await;
}

async fn until_complete(cluster: &Cluster, name: &str) {
    let jobs: Api<Job> = Api::namespaced(cluster.client.clone(), "default");
    let conditions = cluster
        .until(&format!("Job {name} to end"), async || {
            let conditions = jobs.get(name).await.ok()?.status?.conditions?;
            let ends = ["Complete", "Failed"];
            let ended = conditions.iter().any(|it| ends.contains(&it.type_.as_str()) && it.status == "True");
            ended.then_some(conditions)
        })
        .await;
    let complete = conditions.iter().any(|it| it.type_ == "Complete");
    assert!(complete, "{conditions:?}\n{}", cluster.state().await);
}
