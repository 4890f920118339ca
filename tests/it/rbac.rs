//! The rights that are shipped, printed and shown: none too many, and enough.

use std::fs;
use std::process::Command;

use restow::api::Reason;
use serde_json::{Value, json};
use testbed::access;
use testbed::process::Exit;
use testbed::restow::RestowCommand;

use crate::manifests::{documents, path, succeeds, text};
use crate::scene::{BINARY, Scene, counts, manifests};

#[test]
fn a_grant_names_the_resource_and_its_definition_and_nothing_else() {
    let printed =
        Command::new(BINARY).args(["rbac", "crontabs.example.com", "widgets.acme.io"]).output().unwrap();
    assert!(printed.status.success(), "{printed:?}");
    insta::assert_snapshot!(String::from_utf8(printed.stdout).unwrap(), @r#"
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata:
      labels:
        rbac.restow.dev/aggregate-to-targets: "true"
      name: restow-targets-crontabs.example.com
    rules:
    - apiGroups:
      - example.com
      resources:
      - crontabs
      verbs:
      - get
      - list
      - patch
    - apiGroups:
      - apiextensions.k8s.io
      resourceNames:
      - crontabs.example.com
      resources:
      - customresourcedefinitions/status
      verbs:
      - patch
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata:
      labels:
        rbac.restow.dev/aggregate-to-targets: "true"
      name: restow-targets-widgets.acme.io
    rules:
    - apiGroups:
      - acme.io
      resources:
      - widgets
      verbs:
      - get
      - list
      - patch
    - apiGroups:
      - apiextensions.k8s.io
      resourceNames:
      - widgets.acme.io
      resources:
      - customresourcedefinitions/status
      verbs:
      - patch
    "#);
}

#[test]
fn a_grant_for_what_is_no_resource_is_refused() {
    for args in [&["rbac"][..], &["rbac", "crontabs"], &["rbac", "CronTabs.example.com"], &["rbac", "*"]] {
        let output = Command::new(BINARY).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
    }
}

#[tokio::test]
async fn who_is_denied_is_shown_the_command_and_its_output_is_enough() {
    let scene = Scene::old_widgets("rbac-printed", 20).await;
    access::revoke_target(scene.plane, &scene.kind.group, scene.kind.plural).await.unwrap();
    let _controller = scene.begin(json!({})).await;
    let denied = scene.until(Reason::AccessDenied).await;
    let message = &denied.conditions[0].message;
    let crd = scene.kind.crd_name();
    for part in
        [format!("get {crd}, list {crd}, patch {crd}, "), format!("`restow rbac {crd} | kubectl apply -f -`")]
    {
        assert!(message.contains(&part), "{message} lacks {part}");
    }
    assert_eq!(scene.audit.count(&scene.requests()), 0);

    let printed = Command::new(BINARY).args(["rbac", &crd]).output().unwrap();
    let file = scene.plane.new_path("grant.yaml");
    fs::write(&file, printed.stdout).unwrap();
    succeeds(scene.plane, &["apply", "-f", path(&file)]).await;
    access::aggregate_cluster_roles(scene.plane).await.unwrap();
    access::wait_for_target(scene.plane, &scene.kind.group, scene.kind.plural, true).await.unwrap();
    // It would notice by itself, half a minute later.
    scene.delete_migration(scene.migration()).await;
    scene.migrate(json!({})).await;
    scene.until_all_migrated(20).await;
}

#[tokio::test]
async fn the_owners_job_needs_no_more_rights_than_its_sample_gives() {
    let scene = Scene::old_widgets("rbac-owner", 20).await;
    let sample = fs::read_to_string(manifests().join("samples/owner-job.yaml")).unwrap();
    let sample = sample.replace("example.com", &scene.kind.group).replace("crontabs", scene.kind.plural);
    let file = scene.plane.new_path("owner.yaml");
    fs::write(&file, &sample).unwrap();
    succeeds(scene.plane, &["apply", "-f", path(&file)]).await;
    let job = documents(&sample).into_iter().find(|object| object["kind"] == "Job").unwrap();
    let args = &job["spec"]["template"]["spec"]["containers"][0]["args"];
    let args: Vec<String> = args.as_array().unwrap().iter().map(text).collect();

    let token = scene.plane.service_account_token("default", "widgets-migration").await;
    let command = RestowCommand::new(BINARY, scene.plane, &token).args(args).args(["--settle", "1s"]);
    let output = command.run().await.unwrap();
    assert_eq!(output.exit, Exit::Code(0), "{output:?}");
    assert_eq!(scene.stored().await, counts([("v1", 20)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[test]
fn no_shipped_role_has_a_wildcard_or_gives_the_right_to_migrate_away_with_another() {
    let shipped = documents(&fs::read_to_string(manifests().join("install.yaml")).unwrap());
    let shipped_roles: Vec<_> = shipped
        .iter()
        .filter(|object| ["ClusterRole", "Role"].contains(&text(&object["kind"]).as_str()))
        .collect();
    assert_eq!(shipped_roles.len(), 6);
    for role in shipped_roles {
        let name = text(&role["metadata"]["name"]);
        let grants = role["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
        assert!(!grants.iter().any(|rule| rule.to_string().contains('*')), "{name}");
        let labels = role["metadata"]["labels"].as_object().unwrap();
        if labels.keys().any(|label| label.starts_with("rbac.authorization.k8s.io/aggregate-to")) {
            let verbs: Vec<&Value> =
                grants.iter().flat_map(|rule| rule["verbs"].as_array().unwrap()).collect();
            assert!(
                verbs.iter().all(|verb| ["get", "list", "watch"].contains(&verb.as_str().unwrap())),
                "{name}"
            );
        }
    }
    let bound: Vec<_> = shipped.iter().filter(|object| object.get("roleRef").is_some()).collect();
    let names: Vec<_> = bound.iter().map(|binding| text(&binding["roleRef"]["name"])).collect();
    assert_eq!(names, ["restow-api-servers", "restow", "restow", "restow-targets"]);
}
