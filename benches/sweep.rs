//! How fast a first sweep is against a bare loop that sends the same patches to the same server: `docs/benchmark.md` says
//! how the figure is taken.
//!
//! What is measured is the release build of the real binary, run under the shipped RBAC. The clock is the API server's own
//! audit log, for both. Correctness is not measured here, but each round ends with a look into etcd.
#![expect(clippy::expect_used, reason = "a benchmark stops at the first thing that is not as it should be")]
#![expect(clippy::print_stdout, reason = "the figures are its output")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clap::Parser;
use futures::{StreamExt, stream};
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::Client;
use kube::api::{Patch, PatchParams, ValidationDirective};
use kube::core::{PartialObjectMeta, Request};
use serde_json::{Value, json};
use testbed::access;
use testbed::audit::{AuditLog, Filter};
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::{self, Fixture, Kind};
use testbed::objects::{self, Batch, Key};
use testbed::process::Exit;
use testbed::restow::Restow;
use tokio::time::{Instant, sleep};

const BINARY: &str = env!("CARGO_BIN_EXE_restow");

/// What the bare loop calls itself in the audit log.
const BARE_AGENT: &str = "bare-loop";

/// After the flag moved: well past the lag of a server on an idle machine, and past what restow itself waits for.
const SETTLE: Duration = Duration::from_secs(5);

/// A log that is cut in two in the middle of a round can't be read as one; an entry is about 1 KB.
const AUDIT_LOG_MEGABYTES: u32 = 10_000;

/// An entry is written when its request has ended, so the last one may come an instant late.
const AUDIT_LOG_PATIENCE: Duration = Duration::from_secs(10);

/// Compares restow's first sweep with a bare loop of the same patches
#[derive(Debug, Parser)]
#[command(name = "sweep")]
struct Args {
    /// How many objects
    #[arg(long, default_value_t = 20_000)]
    objects: usize,

    /// How many patches are under way at once, for both
    #[arg(long, default_value_t = 8)]
    in_flight: usize,

    /// Given by `cargo bench`; without it nothing is done
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Bare,
    Restow,
}

/// Alternating, so that whatever grows during the run (etcd's history, the audit log) weighs on both alike.
const ROUNDS: [Who; 4] = [Who::Bare, Who::Restow, Who::Restow, Who::Bare];

struct Bench {
    plane: ControlPlane,
    admin: Client,
    kind: Kind,
    keys: Vec<Key>,
    in_flight: usize,
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    if !args.bench {
        return;
    }
    let bench = Bench::set(&args).await;
    let mut seconds = BTreeMap::from([("bare", 0.0), ("restow", 0.0)]);
    println!("{} objects, {} in flight, etcd with fsync", args.objects, args.in_flight);
    for (round, who) in ROUNDS.into_iter().enumerate() {
        let version = if round % 2 == 0 { "v1" } else { "v1alpha1" };
        let (name, took) = bench.round(who, version).await;
        println!("{name:8}{took:8.2} s  {:6.0} objects/s", args.objects as f64 / took);
        *seconds.entry(name).or_default() += took;
    }
    let rate = |name| (ROUNDS.len() / 2 * args.objects) as f64 / seconds[name];
    let (bare, restow) = (rate("bare"), rate("restow"));
    println!(
        "both rounds: bare {bare:.0} objects/s, restow {restow:.0} objects/s, ratio {:.2}",
        restow / bare
    );
}

impl Bench {
    async fn set(args: &Args) -> Self {
        let api_server_flags = vec![format!("--audit-log-maxsize={AUDIT_LOG_MEGABYTES}")];
        let options = Options { fsync: true, api_server_flags, ..Options::default() };
        let plane = ControlPlane::start(options).await.expect("start the control plane");
        let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests");
        access::install(&plane, &manifests).await.expect("install the manifests");
        let admin = plane.admin();
        let fixture = Fixture::widgets("bench.example.com");
        let kind = crd::apply(&admin, &fixture).await.expect("apply the CRD");
        access::grant_target(&plane, &kind.group, kind.plural).await.expect("grant the target");
        let batch = Batch::plain(args.objects);
        let keys = objects::create(&admin, &kind, "v1alpha1", &batch).await.expect("create objects");
        Self { plane, admin, kind, keys, in_flight: args.in_flight }
    }

    /// Moves the flag to `version`, has every object stored in it, and says how long that took.
    async fn round(&self, who: Who, version: &str) -> (&'static str, f64) {
        crd::move_storage(&self.admin, &self.kind.crd_name(), version).await.expect("move the flag");
        sleep(SETTLE).await;
        let audit = self.plane.audit().from_now();
        let (name, agent) = match who {
            Who::Bare => {
                self.bare_loop(version).await;
                ("bare", BARE_AGENT)
            }
            Who::Restow => {
                self.restow().await;
                ("restow", "restow/")
            }
        };
        let stored = self.plane.etcd().stored_versions(&self.kind.group, self.kind.plural).await;
        assert_eq!(stored, BTreeMap::from([(self.kind.api_version(version), self.keys.len())]), "in etcd");
        (name, self.span(&audit, agent).await)
    }

    /// The patches alone: no list, no bookkeeping, no look at what the answers say.
    async fn bare_loop(&self, version: &str) {
        let mut config = self.plane.config_for_token(&access::token(&self.plane).await);
        config.headers.push((USER_AGENT, HeaderValue::from_static(BARE_AGENT)));
        let client = Client::try_from(config).expect("a client");
        stream::iter(&self.keys)
            .map(|key| self.patch(&client, version, key))
            .buffer_unordered(self.in_flight)
            .for_each(|()| std::future::ready(()))
            .await;
    }

    async fn patch(&self, client: &Client, version: &str, key: &Key) {
        let Kind { group, plural, .. } = &self.kind;
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

    async fn restow(&self) {
        let (crd, in_flight) = (self.kind.crd_name(), self.in_flight.to_string());
        let args =
            ["migrate", &crd, "--output=json", "--settle=1s", "--writes-per-second=0", "--max-in-flight"];
        let args = args.into_iter().chain([in_flight.as_str()]);
        let ended = Restow::run(BINARY, &self.plane, args).await.expect("run restow");
        assert_eq!(ended.exit, Exit::Code(0), "{}", ended.stderr);
        let summary: Value = serde_json::from_str(&ended.stdout).expect("a summary");
        assert_eq!(summary["migrations"][0]["rewritten"], json!(self.keys.len()), "{summary}");
    }

    /// From when the first of the list and patch requests came in until the last patch was answered.
    async fn span(&self, audit: &AuditLog, agent: &str) -> f64 {
        let requests = Filter::resource(&self.kind.group, self.kind.plural).user_agent(agent);
        let patches = requests.clone().verb("patch");
        let deadline = Instant::now() + AUDIT_LOG_PATIENCE;
        while audit.count(&patches) < self.keys.len() {
            assert!(Instant::now() < deadline, "the audit log lacks patches");
            sleep(Duration::from_millis(200)).await;
        }
        let began = audit.entries(&requests).iter().map(|entry| entry.received).min();
        let ended = audit.entries(&patches).iter().map(|entry| entry.answered).max();
        let (began, ended) = began.zip(ended).expect("requests in the audit log");
        ended.duration_since(began).as_secs_f64()
    }
}
