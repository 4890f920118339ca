//! The status in the cluster: it is written to the StorageMigration that it speaks of, and by any CRD that is installed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use restow::api::{Reason, StorageMigrationStatus};
use restow::cluster::{Cluster, Gate, StatusWritten};
use serde_json::{Value, json};
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::Fixture;
use testbed::objects::Batch;

use crate::policy::Policy;
use crate::scene::{Scene, counts};

#[tokio::test]
async fn a_status_is_not_written_to_another_migration_of_the_same_name() {
    let scene = Scene::widgets("status-uid").await;
    let cluster = Cluster::new(scene.plane.admin_config(), Gate::open()).unwrap();
    let status = StorageMigrationStatus { observed_generation: Some(1), ..StorageMigrationStatus::default() };
    let old = scene.migrate(json!({})).await.uid().unwrap();
    let name = scene.migration();
    assert_eq!(cluster.write_status(name, &old, &status).await, StatusWritten::Done);
    scene.delete_migration(name).await;
    assert_eq!(cluster.write_status(name, &old, &status).await, StatusWritten::Gone);

    let new = scene.migrate(json!({})).await.uid().unwrap();
    let fresh = scene.status_of(name).await;
    assert_eq!(cluster.write_status(name, &old, &status).await, StatusWritten::Gone);
    assert_eq!(scene.status_of(name).await, fresh);
    assert_eq!(cluster.write_status(name, &new, &status).await, StatusWritten::Done);
    assert_eq!(scene.status_of(name).await, status);
}

#[tokio::test]
async fn an_older_crd_without_a_field_of_the_status_hides_nothing() {
    // A control plane of its own: the other tests need the CRD as it is.
    let plane = Box::leak(Box::new(ControlPlane::start(Options::default()).await.expect("start")));
    let scene = Scene::on(plane, "status-older", Fixture::widgets).await;
    let keys = scene.stored_old(&Batch::plain(10)).await;
    let crds: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
    let name = "storagemigrations.restow.dev";
    let mut crd = serde_json::to_value(crds.get(name).await.unwrap()).unwrap();
    let fields = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/checkpoint/properties";
    let removed = crd.pointer_mut(fields).and_then(Value::as_object_mut).unwrap().remove("seal");
    assert!(removed.is_some());
    crds.replace(name, &PostParams::default(), &serde_json::from_value(crd).unwrap()).await.unwrap();

    let policy = Policy::apply(&scene, "object.metadata.name != 'w003'", &keys[3]).await;
    let _controller = scene.begin(json!({})).await;
    let status = scene.until(Reason::ObjectsRefused).await;
    assert_eq!(status.refusals.len(), 1);
    assert_eq!(scene.stored().await, counts([("v1", 9), ("v1alpha1", 1)]));
    policy.remove().await;
    scene.patch_spec(scene.migration(), json!({ "pageSize": 100 })).await;
    scene.until(Reason::Migrated).await;
}
