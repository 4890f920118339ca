//! Lists that fail as a whole because of objects that the server can't read.

use restow::api::{Reason, RefusedObject, StorageMigrationStatus};
use serde_json::{Value, json};
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::Fixture;
use testbed::etcd::Etcd;
use testbed::objects::{Batch, Key};
use testbed::process::Signal;

use crate::scene::{Scene, counts, reason_of};

/// What is in etcd in place of an object.
#[derive(Clone, Copy)]
enum Spoilt {
    /// The object in a version that the CRD doesn't know.
    Version,
    /// Bytes that are nothing.
    Garbage,
}

/// Puts something that can't be read in the place of an object, and returns what was there.
async fn spoil(scene: &Scene, key: &Key, how: Spoilt) -> Vec<u8> {
    let path = path(scene, key);
    let before = scene.plane.etcd().get(&path).await.unwrap();
    let spoilt = match how {
        Spoilt::Version => {
            let mut object = before.object().unwrap();
            object["apiVersion"] = json!(scene.kind.api_version("v0"));
            object.to_string().into_bytes()
        }
        Spoilt::Garbage => b"\x00\x01 nothing".to_vec(),
    };
    scene.plane.etcd().put(&path, spoilt).await;
    before.bytes
}

fn path(scene: &Scene, key: &Key) -> String {
    Etcd::key(&scene.kind.group, scene.kind.plural, key.namespace.as_deref(), &key.name)
}

fn names(status: &StorageMigrationStatus) -> Vec<&str> {
    status.refusals.iter().map(|refusal| refusal.name.as_str()).collect()
}

/// A server that has just started reads everything from etcd.
async fn restart(plane: &ControlPlane) {
    plane.api_server().stop(Signal::Kill).await.unwrap();
    plane.api_server().start().await.unwrap();
}

/// Requests for lists by the product.
fn lists(scene: &Scene) -> usize {
    scene.audit.count(&scene.requests().verb("list"))
}

#[tokio::test]
async fn objects_that_cant_be_decoded_are_named_and_all_others_are_migrated() {
    let scene = Scene::widgets("lists-spoilt").await;
    let keys = scene.stored_old(&Batch::plain(60)).await;
    // The first, the last, and some in between, two of them together.
    let spoilt = [0, 20, 21, 59];
    let mut whole = Vec::new();
    for (at, how) in spoilt.into_iter().zip([Spoilt::Version, Spoilt::Garbage].into_iter().cycle()) {
        whole.push(spoil(&scene, &keys[at], how).await);
    }
    let _controller = scene.begin(json!({ "pageSize": 20 })).await;
    let status = scene.until(Reason::ObjectsRefused).await;
    let bad = ["w000", "w020", "w021", "w059"];
    for refusal in &status.refusals {
        assert_eq!((refusal.namespace.as_deref(), refusal.code), (Some("default"), 500));
        assert!(bad.contains(&refusal.name.as_str()), "{refusal:?}");
    }
    if scene.names_undecodable().await {
        assert_eq!(names(&status), bad);
        assert!(status.refusals.iter().all(|it| it.message.contains("object not decodable")), "{status:#?}");
        assert_eq!(status.progress.map(|p| (p.total, p.rewritten, p.refused)), Some((60, 56, 4)));
        assert_eq!(scene.stored().await.get("v1"), Some(&56));
        assert!(lists(&scene) <= 40, "{} lists of 60 objects", lists(&scene));
    }
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);

    // One of them is removed, the others are put right.
    scene.plane.etcd().delete(&path(&scene, &keys[20])).await;
    for at in [0, 2, 3] {
        scene.plane.etcd().put(&path(&scene, &keys[spoilt[at]]), &whole[at]).await;
    }
    scene.ask_retry("repaired").await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 59)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test]
async fn where_no_object_can_be_decoded_all_are_named() {
    let scene = Scene::new("lists-all-spoilt", Fixture::gadgets).await;
    let keys = scene.stored_old(&Batch::plain(12)).await;
    for key in &keys {
        spoil(&scene, key, Spoilt::Version).await;
    }
    let _controller = scene.begin(json!({ "pageSize": 5 })).await;
    let status = scene.until(Reason::ObjectsRefused).await;
    let is_gadget = |refusal: &RefusedObject| refusal.namespace.is_none() && refusal.name.starts_with('w');
    assert!(status.refusals.iter().all(is_gadget), "{:#?}", status.refusals);
    if scene.names_undecodable().await {
        assert_eq!(status.progress.map(|p| (p.total, p.refused)), Some((12, 12)));
        assert!(lists(&scene) <= 30, "{} lists of 12 objects, in two versions", lists(&scene));
    }
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
}

#[tokio::test]
async fn a_server_that_doesnt_name_what_it_cant_decode_keeps_no_other_object_waiting() {
    // As servers before Kubernetes 1.37 are.
    let flags = vec!["--feature-gates=AllowUnsafeMalformedObjectDeletion=false".to_owned()];
    let options = Options { api_server_flags: flags, ..Options::default() };
    let plane = Box::leak(Box::new(ControlPlane::start(options).await.expect("start")));
    let scene = Scene::on(plane, "lists-unnamed", Fixture::widgets).await;
    let keys = scene.stored_old(&Batch::plain(40).across(&["default", "shop"])).await;
    // The first of all, the first of the second namespace, and one more of each.
    let bad: Vec<&Key> = [0, 4, 1, 17].into_iter().map(|at| &keys[at]).collect();
    let mut whole: Vec<Value> = Vec::new();
    for key in &bad {
        whole.push(serde_json::from_slice(&spoil(&scene, key, Spoilt::Version).await).unwrap());
    }
    restart(plane).await;
    let _controller = scene.begin(json!({ "pageSize": 15 })).await;
    // Of two that have none between them that begins otherwise the later one comes to light first.
    for (names, migrated) in [(["shop/w001", "shop/w017"], 18), (["default/w000", "default/w004"], 38)] {
        let is_met = |status: &StorageMigrationStatus| {
            let named = status
                .refusals
                .iter()
                .map(|r| format!("{}/{}", r.namespace.as_deref().unwrap_or(""), r.name));
            reason_of(status) == Some(Reason::ObjectsRefused) && named.eq(names)
        };
        let status = scene.until_of(scene.migration(), "the refusals", is_met).await;
        let says_why = |r: &RefusedObject| {
            r.code == 500 && r.message.contains("/v0") && r.message.contains("may be others before this one")
        };
        assert!(status.refusals.iter().all(says_why), "{status:#?}");
        assert_eq!(scene.stored().await.get("v1"), Some(&migrated));
        assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
        for (key, object) in
            bad.iter().zip(&whole).filter(|(key, _)| names.contains(&key.to_string().as_str()))
        {
            scene.plane.etcd().put(&path(&scene, key), object.to_string()).await;
        }
        scene.ask_retry(names[0]).await;
    }
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 40)]));
}
