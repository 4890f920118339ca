//! `restow migrate`: what it does, what it prints, and the code it ends with.

use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::PostParams;
use serde_json::Value;
use testbed::access;
use testbed::crd::Fixture;
use testbed::objects::Batch;
use testbed::process::Exit;
use testbed::restow::{Output, RestowCommand};

use crate::policy::Policy;
use crate::scene::{BINARY, Scene, counts};

#[tokio::test]
async fn a_migration_ends_with_0_and_a_summary() {
    let scene = Scene::old_widgets("oneshot", 40).await;
    let first = scene.run_migrate(&[]).await;
    assert_eq!(first.exit, Exit::Code(0), "{first:?}");
    assert_eq!(scene.stored().await, counts([("v1", 40)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
    insta::assert_snapshot!(first.stdout, @"
    RESOURCE                     RESULT                 TOTAL  REWRITTEN  UNCHANGED    GONE  REFUSED  STOREDVERSIONS
    widgets.oneshot.example.com  Migrated                  40         40          0       0        0  v1alpha1,v1 -> v1
    widgets.oneshot.example.com: all objects are stored in v1: 40 rewritten, 0 unchanged, 0 gone; storedVersions is [v1] now
    ");

    // What is written without a terminal is lines for a log, one for each phase.
    assert!(!first.stderr.contains('\u{1b}'), "{}", first.stderr);
    for phase in ["Sweeping", "Migrated"] {
        assert!(first.stderr.lines().any(|line| line.contains(phase)), "{phase}: {}", first.stderr);
    }

    let requests = scene.audit.count(&scene.requests());
    let second = scene.run_migrate(&[]).await;
    assert_eq!(second.exit, Exit::Code(0), "{second:?}");
    insta::assert_snapshot!(second.stdout, @"
    RESOURCE                     RESULT                 TOTAL  REWRITTEN  UNCHANGED    GONE  REFUSED  STOREDVERSIONS
    widgets.oneshot.example.com  NothingToMigrate           0          0          0       0        0  v1
    widgets.oneshot.example.com: storedVersions of widgets.oneshot.example.com is [v1] already: no object was read
    ");
    assert_eq!(scene.audit.count(&scene.requests()), requests);
}

#[tokio::test]
async fn refused_objects_end_with_3_and_nothing_is_trimmed() {
    let scene = Scene::widgets("oneshot-refused").await;
    let keys = scene.stored_old(&Batch::plain(20)).await;
    let policy = Policy::apply(&scene, "object.metadata.name != 'w007'", &keys[7]).await;
    let output = scene.run_migrate(&["-o", "json"]).await;
    assert_eq!(output.exit, Exit::Code(3), "{output:?}");
    assert_eq!(scene.stored().await, counts([("v1", 19), ("v1alpha1", 1)]));
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    let [migration] = migrations(&output).try_into().unwrap();
    assert_eq!((&migration["result"], &migration["refused"]), (&"ObjectsRefused".into(), &1.into()));
    assert_eq!(migration["storedVersionsAfter"], migration["storedVersionsBefore"]);
    let [refusal] = migration["refusals"].as_array().unwrap().as_slice() else { panic!("{migration}") };
    assert_eq!((&refusal["namespace"], &refusal["name"]), (&"default".into(), &"w007".into()));
    assert!(refusal["message"].as_str().unwrap().contains("oneshot-refused.example.com"), "{refusal}");

    let text = scene.run_migrate(&[]).await;
    assert_eq!(text.exit, Exit::Code(3), "{text:?}");
    assert!(text.stdout.contains("\n  default/w007: 422 Invalid (3 attempts): "), "{}", text.stdout);

    policy.remove().await;
    let done = scene.run_migrate(&[]).await;
    assert_eq!(done.exit, Exit::Code(0), "{done:?}");
    assert_eq!(scene.stored().await, counts([("v1", 20)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test]
async fn what_stands_in_the_way_ends_with_4_and_no_object_is_asked_for() {
    let scene = Scene::old_widgets("oneshot-blocked", 5).await;
    let blocked = async |output: Output, result: &str, said: &str| {
        assert_eq!(output.exit, Exit::Code(4), "{output:?}");
        let [migration] = migrations(&output).try_into().unwrap();
        assert_eq!(migration["result"], result);
        assert!(migration["message"].as_str().unwrap().contains(said), "{migration}");
        assert_eq!(scene.audit.count(&scene.requests()), 0);
        assert_eq!(scene.stored().await, counts([("v1alpha1", 5)]));
        assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    };
    let expected = scene.run_migrate(&["-o", "json", "--expected-storage-version", "v2"]).await;
    blocked(expected, "Waiting", "stores v1, not v2").await;
    let absent = ["migrate", "nothing.oneshot-blocked.example.com", "-o", "json"];
    let absent = testbed::restow::Restow::run(BINARY, scene.plane, absent).await.unwrap();
    blocked(absent, "TargetNotFound", "nothing.oneshot-blocked.example.com").await;
    access::revoke_target(scene.plane, &scene.kind.group, scene.kind.plural).await.unwrap();
    let denied = scene.run_migrate(&["-o", "json"]).await;
    let missing = "patch customresourcedefinitions.apiextensions.k8s.io/status widgets.oneshot-blocked";
    blocked(denied, "AccessDenied", missing).await;

    // Who may not even read the CRD.
    let nobody = ServiceAccount {
        metadata: ObjectMeta { name: Some("oneshot-nobody".to_owned()), ..ObjectMeta::default() },
        ..ServiceAccount::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(scene.client.clone(), "default");
    accounts.create(&PostParams::default(), &nobody).await.unwrap();
    let token = scene.plane.service_account_token("default", "oneshot-nobody").await;
    let denied = with_kubeconfig(&scene, &scene.plane.kubeconfig_file(&token)).await;
    assert_eq!(denied.exit, Exit::Code(4), "{denied:?}");
    assert!(denied.stdout.contains("AccessDenied"), "{denied:?}");
}

#[tokio::test]
async fn the_outcome_is_left_in_one_line_where_a_container_is_asked_for_it() {
    let scene = Scene::widgets("oneshot-message").await;
    let keys = scene.stored_old(&Batch::plain(20)).await;
    let policy = Policy::apply(&scene, "object.metadata.name != 'w007'", &keys[7]).await;
    let file = scene.plane.new_path("termination-log");
    let run = async |args: &[&str]| {
        let file = file.to_str().unwrap();
        let output = scene.run_migrate(&[&["--termination-log", file], args].concat()).await;
        (output.exit, std::fs::read_to_string(file).ok())
    };
    assert_eq!(run(&[]).await, (Exit::Code(3), None), "no file is made where there is none");
    std::fs::write(&file, "x".repeat(5000)).unwrap();
    let missing = "nothing.oneshot-message.example.com";
    let (exit, message) = run(&[missing, "--ignore-missing"]).await;
    let message = message.unwrap();
    assert_eq!(exit, Exit::Code(3), "{message}");
    let name = scene.kind.crd_name();
    assert!(
        message.starts_with(&format!("{name}: ObjectsRefused: ")),
        "what went wrong comes first: {message}"
    );
    assert!(
        message.contains(&format!("; {missing}: TargetNotFound: ")) && !message.contains('\n'),
        "{message}"
    );
    policy.remove().await;
    let (exit, message) = run(&[]).await;
    assert_eq!(exit, Exit::Code(0));
    let expected = "Migrated: all objects are stored in v1: ";
    assert!(message.unwrap().starts_with(&format!("{name}: {expected}")));

    // Where nothing may be written it is said in the log, and the outcome is what it was.
    let output = scene.run_migrate(&["--termination-log", "/proc/version"]).await;
    assert_eq!(output.exit, Exit::Code(0), "{output:?}");
    assert!(output.stderr.contains("leave the termination message"), "{output:?}");
}

#[tokio::test]
async fn a_resource_that_is_missing_is_no_fault_where_that_is_asked_for() {
    let scene = Scene::old_widgets("oneshot-missing", 5).await;
    let missing = "nothing.oneshot-missing.example.com";
    let run = async |args: &[&str]| {
        let all = [&["migrate", "--settle", "1s", "-o", "json"], args].concat();
        testbed::restow::Restow::run(BINARY, scene.plane, all).await.unwrap()
    };
    assert_eq!(run(&[missing]).await.exit, Exit::Code(4));
    let alone = run(&[missing, "--ignore-missing"]).await;
    assert_eq!(alone.exit, Exit::Code(0), "{alone:?}");
    assert_eq!(migrations(&alone)[0]["result"], "TargetNotFound");
    let both = run(&[missing, &scene.kind.crd_name(), "--if-stale", "--ignore-missing"]).await;
    assert_eq!(both.exit, Exit::Code(0), "{both:?}");
    assert_eq!(scene.stored().await, counts([("v1", 5)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test]
async fn a_server_that_cannot_be_asked_ends_with_1() {
    let scene = Scene::old_widgets("oneshot-failed", 1).await;
    let run = async |name: &str, kubeconfig: &str| {
        let path = scene.plane.new_path(name);
        std::fs::write(&path, kubeconfig).unwrap();
        with_kubeconfig(&scene, &path).await
    };
    // Port 1 is nobody's.
    let token = access::token(scene.plane).await;
    let unreachable =
        run("unreachable", &scene.plane.kubeconfig_through("https://127.0.0.1:1", &token)).await;
    assert_eq!(unreachable.exit, Exit::Code(1), "{unreachable:?}");
    assert!(unreachable.stdout.contains("Connection refused"), "{unreachable:?}");
    let nonsense = run("nonsense", "clusters: 7").await;
    assert_eq!(nonsense.exit, Exit::Code(1), "{nonsense:?}");
    assert!(nonsense.stderr.starts_with("error: "), "{nonsense:?}");
    let absent = with_kubeconfig(&scene, Path::new("/nowhere/at/all")).await;
    assert_eq!(absent.exit, Exit::Code(1), "{absent:?}");
    assert_eq!(scene.audit.count(&scene.requests()), 0);
}

#[test]
fn a_command_line_that_makes_no_sense_ends_with_2() {
    for args in [
        vec![],
        vec!["--frobnicate"],
        vec!["migrate"],
        vec!["migrate", "widgets"],
        vec!["migrate", "Widgets.example.com"],
        vec!["migrate", "widgets/status.example.com"],
        vec!["migrate", "widgets.example.com", "--output", "yaml"],
        vec!["migrate", "widgets.example.com", "--settle", "soon"],
        vec!["migrate", "widgets.example.com", "--if-stale", "--always"],
        vec!["migrate", "widgets.example.com", "--max-in-flight", "0"],
        vec!["migrate", "widgets.example.com", "--page-size", "2001"],
        vec!["controller", "widgets.example.com"],
    ] {
        let output = Command::new(BINARY).args(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}: {output:?}");
    }
}

#[tokio::test]
async fn several_resources_are_migrated_at_once_and_told_of_in_json() {
    let scene = Scene::widgets("oneshot-two").await;
    let other = Scene::new("oneshot-three", Fixture::gadgets).await;
    scene.stored_old(&Batch::plain(10)).await;
    other.stored_old(&Batch::plain(20)).await;
    let output = scene.run_migrate(&[&other.kind.crd_name(), "-o", "json"]).await;
    assert_eq!(output.exit, Exit::Code(0), "{output:?}");
    assert_eq!(scene.stored().await, counts([("v1", 10)]));
    assert_eq!(other.stored().await, counts([("v1", 20)]));
    assert_eq!((scene.stored_versions().await, other.stored_versions().await), (v1(), v1()));

    let [first, second] = migrations(&output).try_into().unwrap();
    assert_eq!(first["resource"], scene.kind.crd_name());
    assert_eq!((&second["resource"], &second["rewritten"]), (&other.kind.crd_name().into(), &20.into()));
    let fields: Vec<_> = first.as_object().unwrap().keys().map(String::as_str).collect();
    let documented = [
        "duration",
        "gone",
        "message",
        "refusals",
        "refused",
        "resource",
        "result",
        "rewritten",
        "storageVersion",
        "storedVersionsAfter",
        "storedVersionsBefore",
        "total",
        "unchanged",
    ];
    assert_eq!(fields, documented);
}

fn v1() -> Vec<String> {
    vec!["v1".to_owned()]
}

/// The rows of a summary in JSON, which is all there is on standard output.
fn migrations(output: &Output) -> Vec<Value> {
    let summary: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    summary["migrations"].as_array().expect("migrations").clone()
}

async fn with_kubeconfig(scene: &Scene, path: &Path) -> Output {
    let command = RestowCommand::with_kubeconfig(BINARY, scene.plane, path);
    command.args(["migrate", &scene.kind.crd_name()]).run().await.unwrap()
}
