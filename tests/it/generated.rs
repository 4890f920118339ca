//! What is shipped beside the binary is what the binary is and what a server takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::api::apps::v1::Deployment;
use testbed::access;
use testbed::control_plane::ControlPlane;

use crate::scene::BINARY;

#[test]
fn the_shipped_definition_is_what_the_binary_prints() {
    let printed = Command::new(BINARY).arg("crd").output().unwrap();
    assert!(printed.status.success());
    let shipped = fs::read_to_string(manifests().join("crd.yaml")).unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(shipped == printed, "manifests/crd.yaml is stale: cargo run -- crd > manifests/crd.yaml");
}

#[tokio::test]
async fn every_sample_is_accepted_by_the_server() {
    let plane = installed().await;
    let samples: Vec<_> =
        fs::read_dir(manifests().join("samples")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(samples.len() >= 3, "{samples:?}");
    for sample in samples {
        accepted(plane, &sample).await;
    }
}

#[tokio::test]
async fn the_deployment_is_accepted_by_the_server_and_by_the_binary() {
    let path = manifests().join("deployment.yaml");
    accepted(installed().await, &path).await;
    let deployment: Deployment = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let pod = deployment.spec.template.spec.unwrap();
    let [container] = pod.containers.as_slice() else { panic!("one container was expected") };
    let args = container.args.clone().unwrap();
    let exit = |more: &str| Command::new(BINARY).args(&args).arg(more).output().unwrap().status.code();
    assert_eq!(exit("--help"), Some(0));
    assert_eq!(exit("--no-such-flag"), Some(2));
    assert_eq!(pod.service_account_name.as_deref(), Some(access::SERVICE_ACCOUNT));
}

/// The shared control plane with the namespace and the definition of the manifests.
async fn installed() -> &'static ControlPlane {
    let plane = ControlPlane::shared().await;
    access::install(plane, &manifests()).await.unwrap();
    plane
}

/// Creates what a file holds, except that nothing is stored; unknown fields are refused.
async fn accepted(plane: &ControlPlane, file: &Path) {
    let file = file.to_str().unwrap();
    let create = ["create", "--dry-run=server", "--validate=strict", "-f", file];
    let output = plane.kubectl(&create).await.unwrap();
    assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
}

fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests")
}
