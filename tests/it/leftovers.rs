//! What is still wrong once every object is migrated: names of the old version in metadata, which no rewrite takes away.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::crd::Fixture;
use testbed::objects::{self, Batch, Key};
use testbed::process::Exit;
use testbed::restow::{Output, RestowCommand};

use crate::scene::{BINARY, Scene, counts, eventually};

/// Runs `restow leftovers` on the scene's resource as an admin would.
async fn leftovers(scene: &Scene, args: &[&str]) -> Output {
    let kubeconfig = scene.plane.admin_kubeconfig_file();
    let command = RestowCommand::with_kubeconfig(BINARY, scene.plane, &kubeconfig);
    command.args(["leftovers", &scene.kind.crd_name()]).args(args).run().await.expect("run the command")
}

/// A child of an object, which names it at this version.
async fn create_child(scene: &Scene, name: &str, owner: &Key, version: &str) {
    let api = scene.kind.api(&scene.client, "v1", owner.namespace.as_deref());
    let uid = api.get_metadata(&owner.name).await.expect("read the owner").metadata.uid;
    let child = json!({
        "metadata": { "name": name, "ownerReferences": [reference(scene, owner, version, &json!(uid))] },
    });
    let child = serde_json::from_value(child).expect("a ConfigMap");
    children(scene).create(&PostParams::default(), &child).await.expect("create the child");
}

fn reference(scene: &Scene, owner: &Key, version: &str, uid: &Value) -> Value {
    let api_version = scene.kind.api_version(version);
    json!({ "apiVersion": api_version, "kind": scene.kind.kind, "name": owner.name, "uid": uid })
}

fn children(scene: &Scene) -> Api<ConfigMap> {
    Api::namespaced(scene.client.clone(), "default")
}

#[tokio::test]
async fn b79_a_child_that_names_its_owner_at_the_old_version_is_listed_before_that_version_leaves() {
    let scene = Scene::widgets("b79-children").await;
    let keys = scene.stored_old(&Batch::plain(3)).await;
    create_child(&scene, "b79-old", &keys[0], "v1alpha1").await;
    create_child(&scene, "b79-new", &keys[1], "v1").await;
    let before = children(&scene).get("b79-old").await.unwrap();
    let migrated = scene.run_migrate(&[]).await;
    assert_eq!(migrated.exit, Exit::Code(0), "{migrated:?}");
    // Other kinds are nothing that restow edits.
    assert_eq!(children(&scene).get("b79-old").await.unwrap(), before);

    let found = leftovers(&scene, &["--in", "configmaps"]).await;
    assert_eq!(found.exit, Exit::Code(3), "{found:?}");
    let line = format!(
        "configmaps default/b79-old: ownerReferences has Widget w000 at {}\n",
        scene.kind.api_version("v1alpha1")
    );
    assert!(found.stdout.contains(&line), "{}", found.stdout);
    assert!(!found.stdout.contains("b79-new"), "{}", found.stdout);
    assert!(found.stdout.contains("1 ownerReferences"), "{}", found.stdout);

    // What the documentation advises: its owner names the parent at the version that stays.
    let uid = &before.metadata.owner_references.as_ref().unwrap()[0].uid;
    let repaired =
        json!({ "metadata": { "ownerReferences": [reference(&scene, &keys[0], "v1", &json!(uid))] } });
    children(&scene).patch("b79-old", &PatchParams::default(), &Patch::Merge(repaired)).await.unwrap();
    scene.remove_version("v1alpha1").await;
    let found = leftovers(&scene, &["--in", "configmaps"]).await;
    assert!(found.stdout.contains(": 0 ownerReferences"), "{}", found.stdout);
    let unknown = leftovers(&scene, &["--in", "things.nowhere.example.com"]).await;
    assert_eq!(unknown.exit, Exit::Code(1), "{unknown:?}");
    assert!(unknown.stderr.contains("things.nowhere.example.com"), "{}", unknown.stderr);
}

/// Widgets whose v1alpha1 alone has `legacy`.
fn with_legacy(group: &str) -> Fixture {
    Fixture::widgets(group).with_field("v1alpha1", "legacy", &json!({ "type": "string" }))
}

#[tokio::test]
async fn b83_managed_fields_that_name_the_old_version_are_listed_before_apply_fails_on_them() {
    let scene = Scene::new("b83-managed-fields", with_legacy).await;
    let legacy = |number: usize| json!({ "metadata": {}, "spec": { "size": number, "legacy": "x" } });
    let keys = scene.stored_old(&Batch::of(3, legacy)).await;
    let migrated = scene.run_migrate(&["--accept-field-loss"]).await;
    assert_eq!(migrated.exit, Exit::Code(0), "{migrated:?}");
    assert_eq!(scene.stored().await, counts([("v1", 3)]));

    let found = leftovers(&scene, &[]).await;
    assert_eq!(found.exit, Exit::Code(3), "{found:?}");
    let old = scene.kind.api_version("v1alpha1");
    for key in &keys {
        let line = format!("{} {key}: managedFields has creator at {old}\n", scene.kind.crd_name());
        assert!(found.stdout.contains(&line), "{}", found.stdout);
    }
    // What the documentation advises, for one of them in time, and for the others when it is too late.
    reset(&scene, &keys[0]).await;
    scene.remove_version("v1alpha1").await;
    apply(&scene, &keys[0]).await.expect("apply");
    // The server serves the old version for a moment more.
    let refused = eventually("apply to be refused", async || apply(&scene, &keys[1]).await.err()).await;
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 500), "{refused:?}");
    reset(&scene, &keys[1]).await;
    reset(&scene, &keys[2]).await;
    apply(&scene, &keys[1]).await.expect("apply");
    let found = leftovers(&scene, &[]).await;
    assert_eq!(found.exit, Exit::Code(0), "{found:?}");
    assert!(
        found
            .stdout
            .ends_with("3 objects: 0 ownerReferences and 0 managedFields name another version than v1\n")
    );
}

/// Takes all field managers of an object away.
async fn reset(scene: &Scene, key: &Key) {
    let nobody = json!({ "metadata": { "managedFields": [{}] } });
    objects::patch(&scene.client, &scene.kind, "v1", key, &nobody).await.expect("reset managedFields");
}

/// Applies an object by server-side apply, as tools do after the upgrade.
async fn apply(scene: &Scene, key: &Key) -> kube::Result<()> {
    let applied = json!({
        "apiVersion": scene.kind.api_version("v1"), "kind": scene.kind.kind,
        "metadata": { "name": key.name }, "spec": { "color": "applied" },
    });
    let api = scene.kind.api(&scene.client, "v1", key.namespace.as_deref());
    api.patch(&key.name, &PatchParams::apply("tool").force(), &Patch::Apply(&applied)).await.map(drop)
}
