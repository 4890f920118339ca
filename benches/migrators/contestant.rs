//! Who migrates, each in the way that it is meant to be used.

use std::path::Path;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
    ValidationDirective,
};
use kube::core::{PartialObjectMeta, Request};
use kube::{Client, Config};
use serde_json::{Value, json};
use testbed::access;
use testbed::binaries::Program;
use testbed::crd::Kind;
use testbed::objects::Key;
use testbed::process::{Exit, Launch, Process};
use testbed::restow::{Restow, RestowCommand};
use tokio::time::{Instant, sleep};

use crate::bed::Bed;
use crate::counter::Counter;
use crate::round::Watched;

/// How long a run may take.
const PATIENCE: Duration = Duration::from_hours(2);

/// Between two looks whether it is over.
const POLL: Duration = Duration::from_millis(50);

/// How long the built-in migrator's garbage collector may take to know the kind.
const KNOWN_AFTER: Duration = Duration::from_secs(15);

/// One of those that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// A loop of the patches alone: no list, no bookkeeping, no look at what the answers say.
    Bare,
    /// `restow controller`.
    Controller(Pace),
    /// `restow migrate`.
    Migrate(Pace),
    /// The migrator of kube-controller-manager, with its client's limits lifted.
    Builtin,
}

/// How restow is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As it is by default.
    Default,
    /// By default, but so many writes a second at most.
    AtMost(u32),
    /// By default, but with no ceiling on writes a second.
    Adaptive,
    /// Not at all.
    Unlimited,
}

impl Who {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Bare => "bare loop".to_owned(),
            Self::Controller(pace) => format!("controller{}", pace.name()),
            Self::Migrate(pace) => format!("migrate{}", pace.name()),
            Self::Builtin => "built-in".to_owned(),
        }
    }

    /// What it calls itself in the audit log.
    pub(crate) fn agent(self) -> &'static str {
        match self {
            Self::Bare => "bare-loop",
            Self::Controller(_) | Self::Migrate(_) => "restow/",
            Self::Builtin => "kube-controller-manager/",
        }
    }

    /// Has it migrate everything.
    pub(crate) async fn run(self, bed: &Bed, in_flight: usize, counter: Option<&Counter>) -> Watched {
        match self {
            Self::Bare => bare_loop(bed, in_flight, counter).await,
            Self::Migrate(pace) => migrate(bed, &pace.flags(in_flight), counter).await,
            Self::Controller(pace) => controller(bed, &pace.flags(in_flight), counter).await,
            Self::Builtin => builtin(bed, counter).await,
        }
    }
}

impl Pace {
    fn name(self) -> String {
        match self {
            Self::Default => ", default pace".to_owned(),
            Self::AtMost(writes) => format!(", {writes}/s at most"),
            Self::Adaptive => ", adaptive alone".to_owned(),
            Self::Unlimited => String::new(),
        }
    }

    fn flags(self, in_flight: usize) -> Vec<String> {
        let mut flags = vec!["--settle=1s".to_owned()];
        match self {
            Self::Default => {}
            Self::AtMost(writes) => flags.push(format!("--writes-per-second={writes}")),
            Self::Adaptive => flags.push("--writes-per-second=0".to_owned()),
            Self::Unlimited => {
                flags.push("--writes-per-second=0".to_owned());
                flags.push("--adaptive-pace=false".to_owned());
                flags.push(format!("--max-in-flight={in_flight}"));
            }
        }
        flags
    }
}

async fn bare_loop(bed: &Bed, in_flight: usize, counter: Option<&Counter>) -> Watched {
    let mut config: Config = bed.config(counter).await;
    config.headers.push((USER_AGENT, HeaderValue::from_static(Who::Bare.agent())));
    let client = Client::try_from(config).expect("a client");
    let watched = Watched::begin(bed, None);
    let version = bed.version();
    stream::iter(&bed.keys)
        .map(|key| patch(&client, &bed.kind, version, key))
        .buffer_unordered(in_flight)
        .for_each(|()| std::future::ready(()))
        .await;
    watched.ended(bed)
}

/// Sends the patch that restow sends.
async fn patch(client: &Client, kind: &Kind, version: &str, key: &Key) {
    let Kind { group, plural, .. } = kind;
    let namespace = key.namespace.as_deref().unwrap_or("default");
    let path = format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}");
    let params = PatchParams {
        field_manager: Some("restow".to_owned()),
        field_validation: Some(ValidationDirective::Ignore),
        ..PatchParams::default()
    };
    let request = Request::new(path).patch_metadata(&key.name, &params, &Patch::Merge(json!({})));
    let answer = client.request::<PartialObjectMeta>(request.expect("a request")).await;
    answer.expect("the server stores the object");
}

async fn migrate(bed: &Bed, flags: &[String], counter: Option<&Counter>) -> Watched {
    let kubeconfig = bed.kubeconfig(false, counter).await;
    let crd = bed.kind.crd_name();
    let command = RestowCommand::with_kubeconfig(&bed.binary, &bed.plane, &kubeconfig);
    let command = command.args(["migrate", &crd, "--output=json"]).args(flags);
    let process = command.start().expect("start restow");
    let mut watched = Watched::begin(bed, Some(process.pid()));
    while process.is_running() {
        watched.look();
        sleep(POLL).await;
    }
    assert_eq!(process.exit(), Some(Exit::Code(0)), "{}", process.stderr());
    watched.ended(bed)
}

/// Starts a controller that acts on all StorageMigrations.
pub(crate) async fn start_controller(bed: &Bed, flags: &[String], counter: Option<&Counter>) -> Restow {
    let kubeconfig = bed.kubeconfig(false, counter).await;
    let own = ["--namespace", access::NAMESPACE, "--admin-address=127.0.0.1:0", "--leader-elect=false"];
    let command = RestowCommand::with_kubeconfig(&bed.binary, &bed.plane, &kubeconfig).args(["controller"]);
    command.args(own).args(flags).start().expect("start the controller")
}

async fn controller(bed: &Bed, flags: &[String], counter: Option<&Counter>) -> Watched {
    let process = start_controller(bed, flags, counter).await;
    let order = Order::create(bed, "restow.dev", "v1alpha1", "StorageMigration").await;
    let mut watched = Watched::begin(bed, Some(process.pid()));
    order.until_succeeded(&mut watched, &process).await;
    let watched = watched.ended(bed);
    order.delete().await;
    watched
}

async fn builtin(bed: &Bed, counter: Option<&Counter>) -> Watched {
    let process = start_builtin(bed, &bed.kubeconfig(true, counter).await);
    sleep(KNOWN_AFTER).await;
    let order = Order::create(bed, "storagemigration.k8s.io", "v1", "StorageVersionMigration").await;
    let mut watched = Watched::begin(bed, Some(process.pid()));
    // On an idle kind it waits up to a minute for a bookmark, unless something happens there.
    order.until(|object| object["status"]["resourceVersion"].is_string()).await;
    bed.cause_event().await;
    order.until_succeeded(&mut watched, &process).await;
    let watched = watched.ended(bed);
    order.delete().await;
    watched
}

fn start_builtin(bed: &Bed, kubeconfig: &Path) -> Process {
    let program = Program::ControllerManager.path().expect("kube-controller-manager");
    let directory = bed.plane.new_path("controller-manager");
    std::fs::create_dir_all(&directory).expect("a directory");
    let file = |name: &str| format!("--{name}={}", kubeconfig.display());
    Launch::new(program, directory.join("log"))
        .args([file("kubeconfig"), file("authentication-kubeconfig"), file("authorization-kubeconfig")])
        .args([
            "--controllers=storage-version-migrator-controller,garbage-collector-controller",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "--kube-api-qps=1000000",
            "--kube-api-burst=1000000",
        ])
        .arg(format!("--cert-dir={}", directory.display()))
        .spawn()
        .expect("start the controller manager")
}

/// What asks for a migration, in the words of whoever makes it.
pub(crate) struct Order(Api<DynamicObject>);

impl Order {
    pub(crate) async fn create(bed: &Bed, group: &str, version: &str, kind: &str) -> Self {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::all_with(bed.admin.clone(), &resource);
        let object = json!({
            "apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": { "name": "bench" },
            "spec": { "resource": { "group": bed.kind.group, "resource": bed.kind.plural } },
        });
        let object = serde_json::from_value(object).expect("an object");
        api.create(&PostParams::default(), &object).await.expect("ask for a migration");
        Self(api)
    }

    pub(crate) async fn delete(&self) {
        self.0.delete("bench", &DeleteParams::default()).await.expect("delete it");
    }

    async fn until_succeeded(&self, watched: &mut Watched, process: &Process) {
        self.until(|object| {
            watched.look();
            assert!(process.is_running(), "it ended: {}", process.log());
            has_succeeded(object)
        })
        .await;
    }

    pub(crate) async fn until(&self, mut is_met: impl FnMut(&Value) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let object = self.0.get("bench").await.expect("read it");
            let object = serde_json::to_value(object).expect("an object");
            if is_met(&object) {
                return;
            }
            assert!(Instant::now() < deadline, "{object}");
            sleep(POLL).await;
        }
    }
}

/// Whether a migration is done. One that failed ends the benchmark.
pub(crate) fn has_succeeded(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is = |name: &str| conditions.iter().any(|it| it["type"] == name && it["status"] == "True");
    assert!(!is("Failed") && !is("Stalled"), "{object}");
    is("Succeeded")
}
