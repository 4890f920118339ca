//! How much memory the controller takes in a cluster of many large CRDs, a few of which are migrated at once:
//! `docs/operations.md` has the figure.
//!
//! What is measured is the release build of the real binary, run under the shipped RBAC: the most that it ever had in memory
//! (`VmHWM`).
#![expect(clippy::expect_used, reason = "a benchmark stops at the first thing that is not as it should be")]
#![expect(clippy::print_stdout, reason = "the figure is its output")]

use std::path::Path;
use std::time::Duration;

use clap::Parser;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use restow::api::{Conditions, Reason, StorageMigration, StorageMigrationSpec, TargetResource};
use serde_json::json;
use testbed::access;
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::{self, Fixture};
use testbed::objects::{self, Batch};
use testbed::restow::Restow;
use tokio::time::{Instant, sleep};

const BINARY: &str = env!("CARGO_BIN_EXE_restow");

/// What the controller may take: half of its limit.
const PEAK_MAX_KIB: u64 = 32 * 1024;

/// How long the migrations may take.
const PATIENCE: Duration = Duration::from_mins(20);

/// Measures the memory of the controller among many large CRDs
#[derive(Debug, Parser)]
#[command(name = "memory")]
struct Args {
    /// How many CRDs
    #[arg(long, default_value_t = 500)]
    crds: usize,

    /// How many KiB the schema of each has
    #[arg(long, default_value_t = 300)]
    schema: usize,

    /// How many of them are migrated
    #[arg(long, default_value_t = 5)]
    migrations: usize,

    /// How many objects each of these has
    #[arg(long, default_value_t = 1000)]
    objects: usize,

    /// Given by `cargo bench`; without it nothing is done
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    if !args.bench {
        return;
    }
    let plane = ControlPlane::start(Options::default()).await.expect("start a control plane");
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/install.yaml");
    access::install(&plane, &manifests).await.expect("install the manifests");
    let sentence = "An operator explains its fields at length. ";
    let text = sentence.repeat(args.schema * 1024 / sentence.len());
    for number in args.migrations..args.crds {
        bystander(&plane, number, &text).await;
    }
    let flags =
        ["--leader-elect=false", "--admin-address=127.0.0.1:0", "--settle=1s", "--namespace=restow-system"];
    let mut targets = Vec::new();
    for number in 0..args.migrations {
        targets.push(target(&plane, number, args.objects, &text).await);
    }
    let controller = Restow::controller(BINARY, &plane, flags).await.expect("start the controller");
    let begun = Instant::now();
    for target in &targets {
        until_migrated(&plane, target, begun).await;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", controller.pid())).expect("its status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    let Args { crds, schema, migrations, objects, bench: _ } = args;
    println!(
        "{crds} CRDs of {schema} KiB, {migrations} migrated at once with {objects} objects each: {:.1} MiB at most",
        peak as f64 / 1024.0
    );
    assert!(peak <= PEAK_MAX_KIB, "{peak} KiB are more than {PEAK_MAX_KIB}");
}

/// Makes a CRD that is not to be migrated.
async fn bystander(plane: &ControlPlane, number: usize, text: &str) {
    let group = format!("n{number}.example.com");
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("larges.{group}") },
        "spec": {
            "group": group, "scope": "Cluster",
            "names": { "plural": "larges", "singular": "large", "kind": "Large", "listKind": "LargeList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "description": text } },
            }],
        },
    });
    let crd: CustomResourceDefinition = serde_json::from_value(crd).expect("a CRD");
    let crds: Api<CustomResourceDefinition> = Api::all(plane.admin());
    crds.create(&PostParams::default(), &crd).await.expect("create a CRD");
}

/// Makes a CRD with objects in an old version, and the StorageMigration for it, whose name it answers with.
async fn target(plane: &ControlPlane, number: usize, objects: usize, text: &str) -> String {
    let client = plane.admin();
    let fixture = Fixture::widgets(&format!("memory{number}.example.com"));
    let kind = crd::apply(&client, &fixture).await.expect("apply the CRD");
    // Each of its two versions has half of the text.
    crd::describe(&client, &kind.crd_name(), &text[..text.len() / 2]).await.expect("describe the CRD");
    access::grant_target(plane, &kind.group, kind.plural).await.expect("grant the target");
    objects::create(&client, &kind, "v1alpha1", &Batch::plain(objects)).await.expect("create objects");
    crd::move_storage(&client, &kind.crd_name(), "v1").await.expect("move the flag");
    let resource = TargetResource { group: kind.group.clone(), resource: kind.plural.to_owned() };
    let name = format!("memory{number}");
    let migration = StorageMigration::new(&name, StorageMigrationSpec::for_resource(resource));
    let migrations: Api<StorageMigration> = Api::all(client);
    migrations.create(&PostParams::default(), &migration).await.expect("create the StorageMigration");
    name
}

async fn until_migrated(plane: &ControlPlane, name: &str, begun: Instant) {
    let migrations: Api<StorageMigration> = Api::all(plane.admin());
    loop {
        let status =
            migrations.get(name).await.expect("read the StorageMigration").status.unwrap_or_default();
        let reason = Conditions::reason(&status.conditions);
        if reason == Some(Reason::Migrated) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{name} is at {reason:?}");
        sleep(Duration::from_millis(200)).await;
    }
}
