//! What the tools around it make of a StorageMigration, by their own code: kubectl, kstatus (Flux and Helm), Argo CD.

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;
use restow::api::{Conditions, Reason, State, StorageMigration, StorageMigrationSpec, TargetResource};
use serde_json::{Value, json};
use testbed::binaries::downloaded;
use testbed::control_plane::ControlPlane;
use testbed::judge::{self, Verdict};
use testbed::objects::Batch;

use crate::manifests::{accepts, know, path, succeeds};
use crate::policy::Policy;
use crate::scene::{Scene, eventually, install, manifests};

const DOCS: &str = include_str!("../../docs/gitops.md");

/// Where the definition of Flux's Kustomization comes from.
const FLUX: (&str, &str) = (
    "github.com/fluxcd/kustomize-controller@v1.9.6",
    "config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml",
);

#[test]
fn kstatus_and_argo_cd_know_of_every_reason_whether_it_works_is_done_or_needs_somebody() {
    let objects: Vec<Value> = Reason::ALL.into_iter().map(|reason| with_reason(reason, 3)).collect();
    let verdicts = judge::kstatus(&objects).into_iter().zip(judge::argo_cd(&health_check(), &objects));
    for (reason, (kstatus, argo_cd)) in Reason::ALL.into_iter().zip(verdicts) {
        let expected = match reason.state() {
            State::Working if reason == Reason::Suspended => ("InProgress", "Suspended"),
            State::Working => ("InProgress", "Progressing"),
            State::Done => ("Current", "Healthy"),
            State::Stalled => ("Failed", "Degraded"),
        };
        assert_eq!((kstatus.status.as_str(), argo_cd.status.as_str()), expected, "{reason}");
        assert_eq!(argo_cd.message, format!("{reason}: what is the matter"));
        if reason.state() != State::Done {
            assert_eq!(kstatus.message, "what is the matter");
        }
    }
}

#[test]
fn what_was_said_of_an_older_generation_is_no_answer() {
    let objects: Vec<Value> = Reason::ALL.into_iter().map(|reason| with_reason(reason, 2)).collect();
    for verdict in judge::kstatus(&objects) {
        assert_eq!(verdict.status, "InProgress", "{verdict:?}");
    }
    for verdict in judge::argo_cd(&health_check(), &objects) {
        let expected = Verdict { status: "Progressing".to_owned(), message: "not looked at yet".to_owned() };
        assert_eq!(verdict, expected);
    }
}

#[tokio::test]
async fn tools_see_a_migration_begin_fail_and_end_and_begin_again() {
    let scene = Scene::widgets("gitops").await;
    let keys = scene.stored_old(&Batch::plain(20)).await;
    let policy = Policy::apply(&scene, "object.metadata.name != 'w007'", &keys[7]).await;
    scene.migrate(json!({ "expectedStorageVersion": "v1" })).await;
    assert_eq!(verdicts(&scene).await, ["InProgress", "Progressing"], "nobody has looked at it");

    let controller = scene.controller(&[]).await;
    scene.until(Reason::ObjectsRefused).await;
    assert_eq!(verdicts(&scene).await, ["Failed", "Degraded"]);

    policy.remove().await;
    scene.ask_retry("now").await;
    scene.until(Reason::Migrated).await;
    assert_eq!(verdicts(&scene).await, ["Current", "Healthy"]);

    // Whoever changes the spec is not told that it is done because its older self was.
    drop(controller);
    scene.patch_spec(scene.migration(), json!({ "expectedStorageVersion": "v2" })).await;
    assert_eq!(verdicts(&scene).await, ["InProgress", "Progressing"]);
    let _controller = scene.controller(&[]).await;
    scene.until(Reason::Waiting).await;
    assert_eq!(verdicts(&scene).await, ["InProgress", "Progressing"]);
}

/// Each of them with the name of this scene's migration.
#[tokio::test]
async fn the_commands_of_the_documentation_wait_for_what_they_say() {
    let scene = Scene::widgets("gitops-wait").await;
    let keys = scene.stored_old(&Batch::plain(20)).await;
    let policy = Policy::apply(&scene, "object.metadata.name != 'w007'", &keys[7]).await;
    scene.migrate(json!({})).await;
    let _controller = scene.controller(&[]).await;
    let waits: Vec<Vec<String>> = DOCS
        .lines()
        .filter_map(|line| line.strip_prefix("$ kubectl wait smig/crontabs "))
        .map(|args| args.split(" --").map(|arg| arg.replace('\'', "")).collect())
        .collect();
    let [succeeded, reason, stalled] = waits.as_slice() else { panic!("{waits:?}") };
    let wait = async |args: &[String], timeout: &str| {
        let mut args: Vec<String> =
            args.iter().map(|arg| format!("--{}", arg.trim_start_matches('-'))).collect();
        args.retain(|arg| !arg.starts_with("--timeout"));
        let target = format!("smig/{}", scene.migration());
        let timeout = format!("--timeout={timeout}");
        let all: Vec<&str> =
            ["wait", &target, &timeout].into_iter().chain(args.iter().map(String::as_str)).collect();
        scene.plane.kubectl(&all).await.unwrap()
    };
    let refused = wait(stalled, "120s").await;
    assert!(refused.status.success(), "{refused:?}");
    for (args, said) in [(succeeded, "timed out"), (reason, "timed out")] {
        let output = wait(args, "1s").await;
        assert!(
            !output.status.success() && String::from_utf8_lossy(&output.stderr).contains(said),
            "{output:?}"
        );
    }
    policy.remove().await;
    scene.ask_retry("now").await;
    for args in [succeeded, reason] {
        let output = wait(args, "120s").await;
        assert!(output.status.success(), "{output:?}");
    }
    let still_stalled = wait(stalled, "1s").await;
    assert!(!still_stalled.status.success(), "{still_stalled:?}");
}

#[tokio::test]
async fn every_manifest_for_gitops_is_accepted_by_the_server() {
    let plane = ControlPlane::shared().await;
    install(plane).await;
    know_flux(plane).await;
    know_namespaces(plane).await;
    let mut files = 0;
    for directory in ["gitops", "gitops/argo-cd"] {
        let entries = fs::read_dir(manifests().join(directory)).unwrap().map(|entry| entry.unwrap().path());
        for file in entries.filter(|file| file.extension().is_some_and(|extension| extension == "yaml")) {
            accepts(plane, &["-f", path(&file)]).await;
            files += 1;
        }
    }
    assert_eq!(files, 4);
}

#[tokio::test]
async fn the_settings_of_argo_cd_can_be_patched_as_the_documentation_says() {
    let plane = ControlPlane::shared().await;
    let (_, patch) = DOCS.split_once("$ kubectl patch ").expect("the command");
    let file = "manifests/gitops/argo-cd/argocd-cm.yaml";
    let patch =
        patch.lines().next().unwrap().replace(file, path(&manifests().join("gitops/argo-cd/argocd-cm.yaml")));
    know_namespaces(plane).await;
    let create = ["create", "configmap", "argocd-cm", "-n", "argocd", "--from-literal=url=https://argocd"];
    succeeds(plane, &create).await;
    succeeds(plane, &["patch"].into_iter().chain(patch.split(' ')).collect::<Vec<_>>()).await;
    let output =
        plane.kubectl(&["get", "configmap", "argocd-cm", "-n", "argocd", "-o", "json"]).await.unwrap();
    let settings: Value = serde_json::from_slice(&output.stdout).unwrap();
    let check = fs::read_to_string(health_check()).unwrap();
    assert_eq!(settings["data"]["resource.customizations.health.restow.dev_StorageMigration"], check);
    assert_eq!(settings["data"]["url"], "https://argocd", "the other settings are as they were");
}

/// Where Flux and Argo CD live.
async fn know_namespaces(plane: &ControlPlane) {
    for name in ["argocd", "flux-system"] {
        let file = plane.new_path("namespace.json");
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        fs::write(&file, namespace.to_string()).unwrap();
        // Two tests may create it at once, and one of them is told so.
        let apply = ["apply", "--server-side", "-f", path(&file)];
        eventually(name, async || plane.kubectl(&apply).await.unwrap().status.success().then_some(())).await;
    }
}

/// Makes Flux's Kustomization known, as Flux defines it.
async fn know_flux(plane: &ControlPlane) {
    let (module, file) = FLUX;
    let definition = downloaded(module).expect("the sources of Flux, which Go downloads").join(file);
    know(plane, &definition, "kustomizations.kustomize.toolkit.fluxcd.io").await;
}

/// What kstatus and Argo CD say of the scene's migration as it is on the server.
async fn verdicts(scene: &Scene) -> [String; 2] {
    let migration = scene.migrations().get(scene.migration()).await.unwrap();
    let object = [serde_json::to_value(&migration).unwrap()];
    let [kstatus] = judge::kstatus(&object).try_into().unwrap();
    let [argo_cd] = judge::argo_cd(&health_check(), &object).try_into().unwrap();
    [kstatus.status, argo_cd.status]
}

/// A StorageMigration of generation 3 whose status says `reason` of generation `observed`.
fn with_reason(reason: Reason, observed: i64) -> Value {
    let resource = TargetResource { group: "example.com".to_owned(), resource: "crontabs".to_owned() };
    let mut migration = StorageMigration::new("crontabs", StorageMigrationSpec::for_resource(resource));
    migration.metadata.generation = Some(3);
    let conditions = Conditions::build(&[], reason, "what is the matter", observed, Timestamp::UNIX_EPOCH);
    migration.status = Some(restow::api::StorageMigrationStatus {
        observed_generation: Some(observed),
        conditions,
        ..Default::default()
    });
    serde_json::to_value(&migration).unwrap()
}

fn health_check() -> PathBuf {
    manifests().join("gitops/argo-cd/health.lua")
}
