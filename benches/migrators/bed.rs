//! What all contestants work on: a control plane, a kind, its objects, and the move of the storage flag.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::{Client, Config};
use testbed::access;
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::{self, Fixture, Kind};
use testbed::etcd::Etcd;
use testbed::objects::{self, Batch, Key, content};
use testbed::webhook::{Mapping, Webhook};
use tokio::time::sleep;

use crate::counter::Counter;

/// A log that is cut in two in the middle of a round can't be read as one; an entry is about 1 KB.
const AUDIT_LOG_MEGABYTES: u32 = 10_000;

/// After the flag moved: well past the lag of a server on an idle machine, and past what restow itself waits for.
const SETTLE: Duration = Duration::from_secs(5);

/// How many objects are put into etcd at once.
const PUT_AT_ONCE: usize = 100;

/// What the objects are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Objects {
    pub(crate) count: usize,
    /// Bytes that are added to each.
    pub(crate) padding: usize,
    pub(crate) webhook: bool,
}

/// A kind with its objects on a control plane, and a webhook that converts them, if there is one.
pub(crate) struct Bed {
    pub(crate) plane: ControlPlane,
    pub(crate) admin: Client,
    pub(crate) kind: Kind,
    pub(crate) keys: Vec<Key>,
    pub(crate) webhook: Option<Webhook>,
    /// The build of restow that is measured.
    pub(crate) binary: PathBuf,
    versions: [&'static str; 2],
    stored_in: usize,
}

impl Bed {
    pub(crate) async fn set(binary: &Path, objects: Objects) -> Self {
        let api_server_flags = vec![format!("--audit-log-maxsize={AUDIT_LOG_MEGABYTES}")];
        let etcd_flags = vec![format!("--quota-backend-bytes={}", 8_u64 << 30)];
        let options = Options { fsync: true, api_server_flags, etcd_flags, ..Options::default() };
        let plane = ControlPlane::start(options).await.expect("start the control plane");
        let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/install.yaml");
        access::install(&plane, &manifests).await.expect("install the manifests");
        let admin = plane.admin();
        let webhook = if objects.webhook { Some(start_webhook()) } else { None };
        let fixture = match &webhook {
            None => Fixture::widgets("bench.example.com"),
            Some(webhook) => Fixture::crontabs_in("bench.example.com", webhook.conversion()),
        };
        let versions = if objects.webhook { ["v1beta1", "v1"] } else { ["v1alpha1", "v1"] };
        let kind = crd::apply(&admin, &fixture).await.expect("apply the CRD");
        access::grant_target(&plane, &kind.group, kind.plural).await.expect("grant the target");
        let keys = fill(&plane, &admin, &kind, versions[0], objects).await;
        Self { plane, admin, kind, keys, webhook, binary: binary.to_owned(), versions, stored_in: 0 }
    }

    /// Moves the flag, so that every object is stored in another version than it should, and says in which it should.
    pub(crate) async fn make_stale(&mut self) -> &'static str {
        self.stored_in = 1 - self.stored_in;
        let version = self.version();
        crd::move_storage(&self.admin, &self.kind.crd_name(), version).await.expect("move the flag");
        sleep(SETTLE).await;
        version
    }

    /// The version that objects should be stored in.
    pub(crate) fn version(&self) -> &'static str {
        self.versions[self.stored_in]
    }

    /// A configuration of the product's user, whose traffic is counted if there is a counter.
    pub(crate) async fn config(&self, counter: Option<&Counter>) -> Config {
        let mut config = self.plane.config_for_token(&access::token(&self.plane).await);
        if let Some(counter) = counter {
            config.cluster_url = counter.url().parse().expect("a URL");
        }
        config
    }

    /// The same as a file, of the product's user or of an admin.
    pub(crate) async fn kubeconfig(&self, as_admin: bool, counter: Option<&Counter>) -> PathBuf {
        let token = if as_admin { "testbed-admin".to_owned() } else { access::token(&self.plane).await };
        let url = counter.map_or_else(|| self.plane.server_url(), Counter::url);
        let path = self.plane.new_path("kubeconfig");
        std::fs::write(&path, self.plane.kubeconfig_through(&url, &token)).expect("write a kubeconfig");
        path
    }

    /// Has something happen to the kind: creates an object and deletes it.
    pub(crate) async fn cause_event(&self) {
        let version = self.versions[0];
        let batch = Batch::of(1, content_of(self.webhook.is_some())).named("event");
        let keys = objects::create(&self.admin, &self.kind, version, &batch).await.expect("create an object");
        for key in keys {
            objects::delete(&self.admin, &self.kind, version, &key).await.expect("delete it");
        }
    }

    /// How often all objects together were written since they were created, and whether each is stored as it should be.
    pub(crate) async fn writes(&self) -> (i64, bool) {
        let stored = self.plane.etcd().values(&self.kind.group, self.kind.plural).await;
        let wanted = self.kind.api_version(self.version());
        let right = stored.len() == self.keys.len()
            && stored.iter().all(|it| it.api_version().as_ref() == Some(&wanted));
        (stored.iter().map(|it| it.writes).sum(), right)
    }
}

/// A webhook on a thread of its own, so that its time can be told from that of the benchmark.
fn start_webhook() -> Webhook {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::Builder::new()
        .name(crate::meter::WEBHOOK.to_owned())
        .spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                tell.send(Webhook::start(Mapping::CronTab).await.expect("start the webhook")).expect("told");
                std::future::pending::<()>().await;
            });
        })
        .expect("a thread");
    told.recv().expect("a webhook")
}

fn content_of(webhook: bool) -> fn(usize) -> serde_json::Value {
    if webhook { content::crontab } else { content::plain }
}

/// Creates one object, and puts the others beside it as copies under other names: through the API it would take as long as
/// to migrate them.
async fn fill(
    plane: &ControlPlane,
    admin: &Client,
    kind: &Kind,
    version: &str,
    objects: Objects,
) -> Vec<Key> {
    let batch = Batch::of(1, content_of(objects.webhook)).named("o");
    let first = objects::create(admin, kind, version, &batch).await.expect("create an object").remove(0);
    if objects.padding > 0 {
        let padding = serde_json::json!({ "spec": { "raw": { "padding": "x".repeat(objects.padding) } } });
        objects::patch(admin, kind, version, &first, &padding).await.expect("make it larger");
    }
    let etcd = plane.etcd();
    let key = Etcd::key(&kind.group, kind.plural, first.namespace.as_deref(), &first.name);
    let template = etcd.get(&key).await.expect("it is stored");
    let text = String::from_utf8(template.bytes).expect("stored as JSON");
    let uid = serde_json::from_str::<serde_json::Value>(&text).expect("stored as JSON")["metadata"]["uid"]
        .as_str()
        .expect("a uid")
        .to_owned();
    let mut keys = vec![first.clone()];
    let numbers: Vec<usize> = (1..objects.count).collect();
    for numbers in numbers.chunks(PUT_AT_ONCE) {
        let copies = numbers.iter().map(|number| {
            let name = format!("o{number:07}");
            let own_uid = format!("{}{number:012x}", &uid[..24]);
            let text = text
                .replace(&uid, &own_uid)
                .replace(&format!("\"name\":\"{}\"", first.name), &format!("\"name\":\"{name}\""));
            keys.push(Key { namespace: first.namespace.clone(), name: name.clone() });
            (Etcd::key(&kind.group, kind.plural, first.namespace.as_deref(), &name), text)
        });
        etcd.put_all(&copies.collect::<Vec<_>>()).await;
    }
    keys
}
