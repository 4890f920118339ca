//! Several real API servers on one etcd, one of which sleeps: what it writes when it wakes up must not be left behind.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use restow::api::{IGNORE_SERVER_ANNOTATION, Reason, StorageMigrationStatus};
use serde_json::json;
use testbed::access;
use testbed::control_plane::{ApiServer, ControlPlane, Options};
use testbed::crd::Fixture;
use testbed::objects::{self, Batch, Key};
use testbed::process::{Exit, Signal};
use testbed::webhook::admission::HoldingWebhook;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::scene::{Scene, counts, eventually};
use crate::trims::Trims;

/// The host of the second server.
const HOST: &str = "other";

/// How long is watched that nothing comes any more.
const AFTERMATH: Duration = Duration::from_secs(3);

/// A scene whose control plane has a second API server. restow talks to the first one alone.
struct Pair {
    scene: Scene,
    other: ApiServer,
    /// The name of the second server's Lease.
    identity: String,
}

impl Pair {
    async fn start(name: &str) -> Self {
        let plane = Box::leak(Box::new(ControlPlane::start(Options::default()).await.expect("start")));
        let scene = Scene::on(plane, name, Fixture::widgets).await;
        let other = plane.start_another(HOST).await.expect("start a second API server");
        let leases: Api<Lease> = Api::namespaced(scene.client.clone(), "kube-system");
        let identity = eventually("the second server's Lease", async || {
            let host = ListParams::default().labels(&format!("kubernetes.io/hostname={HOST}"));
            let found = leases.list(&host).await.expect("list the Leases").items;
            found.first().map(kube::ResourceExt::name_any)
        });
        let identity = identity.await;
        Self { scene, other, identity }
    }

    /// A client of the second server that waits for as long as that one sleeps.
    fn client(&self) -> Client {
        let mut config = self.other.admin_config();
        config.connect_timeout = None;
        config.read_timeout = None;
        Client::try_from(config).expect("a client")
    }

    /// Stores objects in v1alpha1, and waits until the second server knows them.
    async fn create(&self, count: usize) -> Vec<Key> {
        let Scene { client, kind, .. } = &self.scene;
        let keys = objects::create(client, kind, "v1alpha1", &Batch::plain(count)).await.expect("create");
        let (client, last) = (self.client(), keys.last().expect("an object"));
        eventually("the second server to serve the objects", async || {
            objects::touch(&client, kind, "v1alpha1", last).await.ok()
        })
        .await;
        keys
    }

    /// Sends writes to the second server, which sleeps.
    fn writes(&self, keys: &[Key], mark: &str) -> Vec<JoinHandle<()>> {
        let write = |key: &Key| {
            let (client, kind, key) = (self.client(), self.scene.kind.clone(), key.clone());
            let change = json!({ "metadata": { "labels": { "written": mark } } });
            tokio::spawn(async move {
                objects::patch(&client, &kind, "v1alpha1", &key, &change).await.expect("a write");
            })
        };
        keys.iter().map(write).collect()
    }

    fn pause(&self) {
        self.other.signal(Signal::Stop);
    }

    fn wake(&self) {
        self.other.signal(Signal::Continue);
    }

    /// Waits until restow waits for the second server, and says so.
    async fn until_waited_for(&self) -> StorageMigrationStatus {
        let status = self.scene.until(Reason::WaitingForAPIServer).await;
        let message = &status.conditions[0].message;
        assert!(message.contains(&format!("{} on {HOST}", self.identity)), "{message}");
        status
    }

    /// Waits until the second server renews its Lease.
    async fn until_renewed(&self) {
        let leases: Api<Lease> = Api::namespaced(self.scene.client.clone(), "kube-system");
        let renewed = async || {
            let lease = leases.get(&self.identity).await.expect("read the Lease");
            lease.spec.and_then(|spec| spec.renew_time)
        };
        let before = renewed().await;
        eventually("a renewal", async || (renewed().await != before).then_some(())).await;
    }

    /// Waits until it is migrated, and asserts that nothing was or comes to be stored otherwise.
    async fn until_migrated(&self, trims: &Trims, version: &str, count: usize) {
        self.scene.until(Reason::Migrated).await;
        trims.assert_one(version, count).await;
        self.stays(version, count).await;
    }

    async fn stays(&self, version: &str, count: usize) {
        let until = tokio::time::Instant::now() + AFTERMATH;
        while tokio::time::Instant::now() < until {
            assert_eq!(self.scene.stored().await, counts([(version, count)]));
            assert_eq!(self.scene.stored_versions().await, [version]);
            sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn landed(writes: Vec<JoinHandle<()>>) {
    for write in writes {
        write.await.expect("the write is answered");
    }
}

/// The waiting writes meet a server that doesn't know yet that the flag moved.
#[tokio::test]
async fn a_server_that_slept_while_the_flag_moved_is_waited_for() {
    let pair = Pair::start("servers-flag").await;
    let keys = pair.create(30).await;
    let _controller = pair.scene.controller(&["--settle", "3s"]).await;
    for (round, (from, to)) in
        [("v1alpha1", "v1"), ("v1", "v1alpha1"), ("v1alpha1", "v1")].into_iter().enumerate()
    {
        pair.pause();
        let writes = pair.writes(&keys[..20], &format!("round-{round}"));
        pair.scene.move_storage(to).await;
        let trims = Trims::watch(&pair.scene);
        if round == 0 {
            pair.scene.migrate(json!({})).await;
        }
        let visits = pair.scene.visits();
        pair.until_waited_for().await;
        assert_eq!(pair.scene.stored().await, counts([(from, keys.len())]));
        assert_eq!(pair.scene.visits(), visits, "a visit that a sleeping server could undo");
        pair.wake();
        landed(writes).await;
        pair.until_migrated(&trims, to, keys.len()).await;
    }
}

/// It slept with a request under way, which an admission webhook holds for longer than a Lease takes to be renewed.
#[tokio::test]
async fn a_request_that_slept_with_its_server_lands_before_the_first_visit() {
    let pair = Pair::start("servers-request").await;
    let keys = pair.create(10).await;
    let webhook = HoldingWebhook::start("admin").await.expect("start a webhook");
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(pair.scene.client.clone());
    let configuration = webhook.configuration("held.servers.example.com", &pair.scene.kind);
    let configuration = serde_json::from_value(configuration).expect("a configuration");
    webhooks.create(&PostParams::default(), &configuration).await.expect("register the webhook");
    // A server learns of a webhook when its watch tells it.
    let mut writes = Vec::new();
    for key in keys.iter().cycle() {
        writes.extend(pair.writes(std::slice::from_ref(key), "held"));
        if tokio::time::timeout(Duration::from_millis(300), webhook.until_held(1)).await.is_ok() {
            break;
        }
    }
    pair.pause();
    pair.scene.move_storage("v1").await;
    let trims = Trims::watch(&pair.scene);
    let _controller = pair.scene.controller(&["--settle", "20s"]).await;
    pair.scene.migrate(json!({})).await;
    pair.until_waited_for().await;
    pair.wake();
    pair.until_renewed().await;
    // Whoever believed the Lease has looked at it by now, and made its visits. Much later the settle time is over.
    sleep(Duration::from_secs(6)).await;
    webhook.let_go();
    landed(writes).await;
    let stored = pair.scene.stored().await;
    assert_eq!(stored, counts([("v1alpha1", keys.len())]), "visited with an older request under way");
    pair.until_migrated(&trims, "v1", keys.len()).await;
}

#[tokio::test]
async fn writes_that_wait_at_a_server_that_slept_during_the_sweep_do_no_harm() {
    let pair = Pair::start("servers-sweep").await;
    let keys = pair.create(40).await;
    pair.scene.move_storage("v1").await;
    let trims = Trims::watch(&pair.scene);
    let _controller = pair.scene.controller(&["--settle", "3s"]).await;
    pair.scene.migrate(json!({ "pace": { "writesPerSecond": 4 }, "pageSize": 10 })).await;
    for nap in 1..=3 {
        pair.scene.until_visits(nap * 8).await;
        pair.pause();
        // Some of them are visited already, others not yet.
        let writes = pair.writes(&keys, &format!("nap-{nap}"));
        pair.scene.until_visits(nap * 8 + 6).await;
        pair.wake();
        landed(writes).await;
    }
    pair.until_migrated(&trims, "v1", keys.len()).await;
}

#[tokio::test]
async fn the_trim_waits_for_a_server_that_fell_asleep_and_its_writes_do_no_harm() {
    let pair = Pair::start("servers-trim").await;
    let keys = pair.create(45).await;
    pair.scene.move_storage("v1").await;
    let trims = Trims::watch(&pair.scene);
    let _controller = pair.scene.controller(&["--settle", "3s"]).await;
    // The sweep lasts longer than the silence that a server may keep: 30 s.
    pair.scene.migrate(json!({ "pace": { "writesPerSecond": 1, "maxInFlight": 1 }, "pageSize": 2 })).await;
    pair.scene.until_visits(1).await;
    pair.pause();
    let writes = pair.writes(&keys, "asleep");
    eventually("all to be visited", async || {
        (pair.scene.stored().await == counts([("v1", keys.len())])).then_some(())
    })
    .await;
    pair.until_waited_for().await;
    assert_eq!(pair.scene.stored_versions().await, ["v1alpha1", "v1"]);
    pair.wake();
    landed(writes).await;
    pair.until_migrated(&trims, "v1", keys.len()).await;
}

/// It is silent for too short a time for the trim to wait for it, but was seen to have caught up before.
#[tokio::test]
async fn writes_that_wait_at_a_server_that_sleeps_through_the_trim_do_no_harm() {
    let pair = Pair::start("servers-after").await;
    let keys = pair.create(20).await;
    pair.scene.move_storage("v1").await;
    let trims = Trims::watch(&pair.scene);
    let _controller = pair.scene.controller(&["--settle", "3s"]).await;
    pair.scene.migrate(json!({ "pace": { "writesPerSecond": 10 } })).await;
    pair.scene.until_visits(1).await;
    pair.pause();
    let writes = pair.writes(&keys, "trim");
    pair.scene.until(Reason::Migrated).await;
    trims.assert_one("v1", keys.len()).await;
    pair.wake();
    landed(writes).await;
    pair.stays("v1", keys.len()).await;
}

/// What restow says of a server that it ignores, as asked.
fn ignored(pair: &Pair) -> String {
    format!("; ignored, as asked: API server {} on {HOST}", pair.identity)
}

#[tokio::test]
async fn a_server_that_is_gone_for_good_is_ignored_as_asked_and_no_other() {
    let pair = Pair::start("servers-gone").await;
    let keys = pair.create(10).await;
    pair.other.stop(Signal::Kill).await.expect("it dies");
    pair.scene.move_storage("v1").await;
    let trims = Trims::watch(&pair.scene);
    let _controller = pair.scene.controller(&[]).await;
    pair.scene.migrate(json!({})).await;
    pair.until_waited_for().await;
    // Once it was silent for long enough to be gone, the message says what to do, and of that server alone.
    let name = pair.scene.migration();
    let advice = format!("set the annotation {IGNORE_SERVER_ANNOTATION}={} ", pair.identity);
    pair.scene.until_of(name, &advice, |status| status.conditions[0].message.contains(&advice)).await;
    pair.scene.annotate(IGNORE_SERVER_ANNOTATION, "apiserver-nobody, other").await;
    pair.scene.no_visits_for(Duration::from_secs(15)).await;
    pair.until_waited_for().await;
    pair.scene.annotate(IGNORE_SERVER_ANNOTATION, &format!("apiserver-nobody, {}", pair.identity)).await;
    pair.until_migrated(&trims, "v1", keys.len()).await;
    let done = pair.scene.until(Reason::Migrated).await;
    assert!(done.conditions[0].message.ends_with(&ignored(&pair)), "{done:#?}");
}

#[tokio::test]
async fn the_command_waits_for_a_server_that_was_killed_unless_told_otherwise() {
    let pair = Pair::start("servers-oneshot").await;
    let keys = pair.create(10).await;
    pair.other.stop(Signal::Kill).await.expect("it dies");
    pair.scene.move_storage("v1").await;
    let waited =
        pair.scene.run_migrate(&["--timeout", "20s", "--ignore-api-server", "apiserver-nobody"]).await;
    assert_eq!(waited.exit, Exit::Code(1), "{waited:?}");
    assert!(waited.stderr.contains(&format!("API server {} on {HOST}", pair.identity)), "{waited:?}");
    assert_eq!(pair.scene.stored().await, counts([("v1alpha1", keys.len())]));
    let done = pair.scene.run_migrate(&["--ignore-api-server", &pair.identity]).await;
    assert_eq!(done.exit, Exit::Code(0), "{done:?}");
    assert!(done.stdout.contains(&ignored(&pair)), "{done:?}");
    assert_eq!(pair.scene.stored().await, counts([("v1", keys.len())]));
}

#[tokio::test]
async fn where_the_leases_may_not_be_read_settling_alone_counts_and_the_message_says_so() {
    let plane = Box::leak(Box::new(ControlPlane::start(Options::default()).await.expect("start")));
    let scene = Scene::on(plane, "servers-unread", Fixture::widgets).await;
    scene.stored_old(&Batch::plain(10)).await;
    let leases = |client: Client| Api::<Lease>::namespaced(client, "kube-system");
    let token = access::token(scene.plane).await;
    let restow = Client::try_from(scene.plane.config_for_token(&token)).expect("a client");
    leases(restow.clone()).list(&ListParams::default()).await.expect("the shipped Role grants it");
    let bindings: Api<RoleBinding> = Api::namespaced(scene.client.clone(), "kube-system");
    bindings.delete("restow-api-servers", &DeleteParams::default()).await.expect("take the right away");
    eventually("the right to be gone", async || {
        leases(restow.clone()).list(&ListParams::default()).await.err().map(drop)
    })
    .await;
    let _controller = scene.begin(json!({})).await;
    let status = scene.until(Reason::Migrated).await;
    let message = &status.conditions[0].message;
    assert!(message.contains("; the API servers' Leases can't be read (403 Forbidden"), "{message}");
    assert!(message.ends_with("so the time to settle alone was waited for"), "{message}");
    assert_eq!(scene.stored().await, counts([("v1", 10)]));
}
