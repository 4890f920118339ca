//! What can't be read stops nothing but itself: a StorageMigration of a newer restow, or one that nobody validated.

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use restow::api::{Reason, StorageMigration};
use serde_json::{Value, json};
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::Fixture;
use testbed::objects::Batch;

use crate::scene::{Scene, counts, eventually};

#[tokio::test]
async fn a_migration_that_cant_be_understood_says_so_and_stops_no_other() {
    // A control plane of its own: its CRD of StorageMigration is changed.
    let plane = Box::leak(Box::new(ControlPlane::start(Options::default()).await.expect("start")));
    let scene = Scene::on(plane, "unreadable", Fixture::widgets).await;
    scene.stored_old(&Batch::plain(10)).await;
    let _controller = scene.controller(&[]).await;

    // One that never met the validation. Not even its status can be written.
    let mut broken =
        serde_json::to_value(scene.migrate_as("broken", json!({ "suspend": true })).await).unwrap();
    broken["spec"]["pace"] = json!("fast");
    plane.etcd().put("/registry/restow.dev/storagemigrations/broken", broken.to_string()).await;

    // One of a newer restow, by the rules of a newer CRD.
    let crds: Api<DynamicObject> = Api::all_with(
        scene.client.clone(),
        &ApiResource::erase::<
            k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        >(&()),
    );
    let mode = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/mode/enum/-";
    let patch: Patch<Value> = Patch::Json(
        serde_json::from_value(json!([{ "op": "add", "path": mode, "value": "Nightly" }])).unwrap(),
    );
    crds.patch("storagemigrations.restow.dev", &PatchParams::default(), &patch).await.unwrap();
    let newer = json!({
        "apiVersion": "restow.dev/v1alpha1", "kind": "StorageMigration",
        "metadata": { "name": "newer", "labels": { "scene": "unreadable" } },
        "spec": { "resource": scene.resource(), "mode": "Nightly" },
    });
    let migrations: Api<DynamicObject> =
        Api::all_with(scene.client.clone(), &ApiResource::erase::<StorageMigration>(&()));
    let newer: DynamicObject = serde_json::from_value(newer).unwrap();
    eventually("the new mode to be accepted", async || {
        migrations.create(&PostParams::default(), &newer).await.ok()
    })
    .await;

    scene.migrate(json!({})).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 10)]));
    let message = eventually("a word on what can't be understood", async || {
        let status = migrations.get("newer").await.ok()?.data["status"].clone();
        let stalled = status["conditions"].as_array()?.iter().find(|c| c["type"] == "Stalled")?.clone();
        (stalled["reason"] == "InvalidSpec").then(|| stalled["message"].to_string())
    })
    .await;
    assert!(message.contains("Nightly"), "{message}");
}
