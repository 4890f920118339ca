//! restow's own kind gets a new version one day: it is migrated like any other, by restow, while restow works by it.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use restow::api::Reason;
use serde_json::json;
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::{self, Fixture, Kind};
use testbed::objects::Batch;

use crate::scene::{Scene, counts, eventually, reason_of};

const OTHERS: usize = 25;

#[tokio::test]
async fn restow_moves_its_own_kind_to_a_new_version_while_it_works_by_it() {
    // The kind is everybody's on the shared one.
    let plane = Box::leak(Box::new(ControlPlane::start(Options::default()).await.expect("start")));
    let scene = Scene::on(plane, "own-kind", Fixture::widgets).await;
    scene.stored_old(&Batch::plain(60)).await;
    let own = Kind {
        group: "restow.dev".to_owned(),
        kind: "StorageMigration",
        plural: "storagemigrations",
        namespaced: false,
    };
    let resource = |name: &str| json!({ "group": "restow.dev", "resource": name });
    for number in 0..OTHERS {
        let absent = resource(&format!("absent{number}"));
        scene.migrate_as(&format!("other-{number:02}"), json!({ "resource": absent })).await;
    }
    let _controller = scene.controller(&[]).await;
    scene.until_of("other-00", "a first status", |status| reason_of(status).is_some()).await;
    // One is under way meanwhile, and writes its status.
    scene.migrate(json!({ "pace": { "writesPerSecond": 10 } })).await;
    scene.until_visits(1).await;

    store_in_next_version(&scene, &own).await;
    scene.grant(&own).await;
    scene.migrate_as("own", json!({ "resource": resource(own.plural), "pageSize": 10 })).await;
    let is_done = |status: &restow::api::StorageMigrationStatus| reason_of(status) == Some(Reason::Migrated);
    let status = scene.until_of("own", "Migrated", is_done).await;
    let progress = status.progress.unwrap();
    assert_eq!((progress.total, progress.refused), (OTHERS as u64 + 2, 0));
    let stored = plane.etcd().stored_versions(&own.group, own.plural).await;
    assert_eq!(stored, BTreeMap::from([("restow.dev/v1beta1".to_owned(), OTHERS + 2)]));
    assert_eq!(crd::stored_versions(&scene.client, &own.crd_name()).await.unwrap(), ["v1beta1"]);

    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 60)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

/// Gives the kind a version v1beta1 like the one that it has, and stores objects in it from now on.
async fn store_in_next_version(scene: &Scene, own: &Kind) {
    let crds: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
    eventually("the CRD to be changed", async || {
        let mut crd = crds.get(&own.crd_name()).await.unwrap();
        let mut next = crd.spec.versions[0].clone();
        "v1beta1".clone_into(&mut next.name);
        crd.spec.versions[0].storage = false;
        crd.spec.versions.push(next);
        crds.replace(&own.crd_name(), &PostParams::default(), &crd).await.ok()
    })
    .await;
}
