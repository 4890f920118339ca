//! Migrations as a part of releases of Helm, by real Helm: one that waits, and a Job that goes before.

use std::fs;
use std::process::Output;

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{Patch, PatchParams};
use restow::api::Reason;
use serde_json::json;
use tempfile::TempDir;
use testbed::crd::Fixture;
use testbed::objects::Batch;
use testbed::process;
use testbed::restow::RestowCommand;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::chart::{helm, said};
use crate::manifests::path;
use crate::policy::Policy;
use crate::scene::{BINARY, SCENE_LABEL, Scene, counts, eventually, manifests};

/// The Job before a release.
const JOB: &str = "release-hook-migration";

#[tokio::test]
async fn a_release_that_waits_ends_when_all_is_migrated_and_fails_where_somebody_must_act() {
    let scene = Scene::widgets("release-wait").await;
    let keys = scene.stored_old(&Batch::plain(20)).await;
    let policy = Policy::apply(&scene, "object.metadata.name != 'w007'", &keys[7]).await;
    let _controller = scene.controller(&[]).await;
    let migration = json!({
        "apiVersion": "restow.dev/v1alpha1", "kind": "StorageMigration",
        "metadata": { "name": scene.migration(), "labels": { SCENE_LABEL: scene.migration() } },
        "spec": { "resource": scene.resource(), "expectedStorageVersion": "v1" },
    });
    let chart = chart(&[("migration.yaml", migration.to_string())]);
    let wait = ["--wait", "--timeout", "120s"];
    let refused = release(&scene, "install", &chart, &wait).await.unwrap();
    assert!(!refused.status.success() && !said(&refused).contains("deadline"), "{}", said(&refused));
    assert!(said(&refused).contains("Failed") || said(&refused).contains("failed"), "{}", said(&refused));
    scene.until(Reason::ObjectsRefused).await;

    policy.remove().await;
    scene.ask_retry("now").await;
    let done = release(&scene, "upgrade", &chart, &wait).await.unwrap();
    assert!(done.status.success(), "{}", said(&done));
    assert_eq!(scene.stored().await, counts([("v1", 20)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

/// The kubelet is missing here: the test runs the Job's command itself, as the Job's account, and says how it ended.
#[tokio::test]
async fn a_release_without_the_old_version_passes_when_the_job_before_it_has_migrated() {
    let scene = Scene::old_widgets("release-hook", 20).await;
    let definition = |fixture: Fixture| ("crd.yaml", fixture.stored_in("v1").to_json().to_string());
    let widgets = || Fixture::widgets("release-hook.example.com");
    let hook = fs::read_to_string(manifests().join("gitops/pre-upgrade.yaml")).unwrap();
    // A name that no other Job of these tests has.
    let hook = hook.replace("crontabs-migration", JOB);
    let hook = hook.replace("crontabs", "widgets").replace("example.com", "release-hook.example.com");
    let both = chart(&[definition(widgets())]);
    let one = chart(&[definition(widgets().without_version("v1alpha1")), ("hook.yaml", hook)]);
    let owned = release(&scene, "install", &both, &["--take-ownership"]).await.unwrap();
    assert!(owned.status.success(), "{}", said(&owned));
    let too_early = release(&scene, "upgrade", &one, &["--no-hooks", "--force-conflicts"]).await.unwrap();
    assert!(said(&too_early).contains("missing from spec.versions"), "{}", said(&too_early));

    let upgrade = release(&scene, "upgrade", &one, &["--timeout", "120s", "--force-conflicts"]);
    let message = run_job(&scene, JOB).await;
    assert!(message.contains(": Migrated: all objects are stored in v1: 20 rewritten"), "{message}");
    let upgraded = upgrade.await.unwrap();
    assert!(upgraded.status.success(), "{}", said(&upgraded));
    assert_eq!(scene.stored().await, counts([("v1", 20)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
    scene.remove_version("v1alpha1").await;
}

/// Does what a kubelet and the controller of Jobs would do, and answers with the termination message.
async fn run_job(scene: &Scene, name: &str) -> String {
    let jobs: Api<Job> = Api::namespaced(scene.client.clone(), "default");
    let job = eventually("the Job of the hook", async || jobs.get_opt(name).await.unwrap()).await;
    let pod = job.spec.unwrap().template.spec.unwrap();
    let account = pod.service_account_name.unwrap();
    let token = scene.plane.service_account_token("default", &account).await;
    let message = scene.plane.new_path("termination-log");
    fs::write(&message, "").unwrap();
    let ended = RestowCommand::new(BINARY, scene.plane, &token)
        .args(pod.containers[0].args.clone().unwrap())
        .env("RESTOW_SETTLE", "1s")
        .env("RESTOW_TERMINATION_LOG", path(&message))
        .run()
        .await
        .unwrap();
    assert_eq!(ended.exit, process::Exit::Code(0), "{ended:?}");
    let now = "2026-01-01T00:00:00Z";
    let condition = |type_: &str| json!({ "type": type_, "status": "True", "lastTransitionTime": now });
    let status = json!({
        "startTime": now, "completionTime": now, "succeeded": 1, "ready": 0, "terminating": 0,
        "uncountedTerminatedPods": {},
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    });
    let patch = Patch::Merge(json!({ "status": status }));
    jobs.patch_status(name, &PatchParams::default(), &patch).await.expect("end the Job");
    fs::read_to_string(message).unwrap()
}

/// A chart with these templates.
fn chart(templates: &[(&str, String)]) -> TempDir {
    let chart = tempfile::tempdir().unwrap();
    fs::write(chart.path().join("Chart.yaml"), "apiVersion: v2\nname: release\nversion: 1.0.0\n").unwrap();
    fs::create_dir(chart.path().join("templates")).unwrap();
    for (name, text) in templates {
        fs::write(chart.path().join("templates").join(name), text).unwrap();
    }
    chart
}

/// Lets Helm install or upgrade the release of a scene.
fn release(scene: &Scene, verb: &str, chart: &TempDir, args: &[&str]) -> JoinHandle<Output> {
    let kubeconfig = scene.plane.admin_kubeconfig_file();
    let fixed = [verb, scene.migration(), path(chart.path()), "--kubeconfig", path(&kubeconfig)];
    let args: Vec<String> = fixed.iter().chain(args).map(|&arg| arg.to_owned()).collect();
    spawn_blocking(move || helm(&args.iter().map(String::as_str).collect::<Vec<_>>()))
}
