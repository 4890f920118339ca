//! The product in the cluster: its pods, what they take, and what is done to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, EvictParams, ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use restow::api::{Conditions, Reason, StorageMigration};
use serde_json::json;
use testbed::node::PAUSE_IMAGE;
use testbed::process::Signal;

use crate::cluster::{Cluster, is_ready};

/// What its replicas elect their leader with.
const LEASE: &str = "restow";
/// The limit of its memory.
const MEMORY_MAX: u64 = 64 << 20;
/// Longer than the kubelet takes until it gives up on a container: three probes, ten seconds apart.
const OUTAGE: Duration = Duration::from_secs(40);

/// The installed product.
pub(crate) struct Product<'a> {
    pub(crate) cluster: &'a Cluster,
    /// Where it is installed.
    namespace: &'static str,
    /// How many pods it has.
    replicas: usize,
    /// The most memory that each pod was seen with.
    memory: Mutex<BTreeMap<String, u64>>,
}

/// A file of the work tree.
pub(crate) fn file(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    path.to_string_lossy().into_owned()
}

impl<'a> Product<'a> {
    pub(crate) fn of(cluster: &'a Cluster, namespace: &'static str, replicas: usize) -> Self {
        Self { cluster, namespace, replicas, memory: Mutex::default() }
    }

    fn pods(&self) -> Api<Pod> {
        self.cluster.pods(self.namespace)
    }

    /// All of its pods, also those that are about to go.
    pub(crate) async fn all_pods(&self) -> Vec<Pod> {
        let own = ListParams::default().labels("app.kubernetes.io/name=restow");
        self.pods().list(&own).await.expect("list pods").items
    }

    /// Waits until all pods are ready, and no other is left.
    pub(crate) async fn until_ready(&self) -> Vec<Pod> {
        self.until_so_many_are_ready(self.replicas).await
    }

    /// Waits until so many pods are ready, and no other is left.
    pub(crate) async fn until_so_many_are_ready(&self, count: usize) -> Vec<Pod> {
        self.cluster
            .until("restow's pods to be ready", async || {
                let pods = self.all_pods().await;
                self.look_at(&pods);
                (pods.len() == count && pods.iter().all(is_ready)).then_some(pods)
            })
            .await
    }

    /// The pod that works.
    pub(crate) async fn leader(&self) -> Pod {
        self.cluster.until("a pod that is ready to hold the Lease", async || self.ready_holder().await).await
    }

    /// Waits until another pod works than this one: any other, as one that has just been created bids like the rest.
    pub(crate) async fn successor_of(&self, leader: &Pod) {
        self.cluster
            .until("another pod that is ready to hold the Lease", async || {
                self.ready_holder().await.filter(|holder| holder.uid() != leader.uid()).map(drop)
            })
            .await;
    }

    /// The pod that holds the Lease, if it is ready: its name is the first part of the holder's.
    async fn ready_holder(&self) -> Option<Pod> {
        let leases: Api<Lease> = Api::namespaced(self.cluster.client.clone(), self.namespace);
        let holder = leases.get(LEASE).await.ok()?.spec?.holder_identity?;
        let (name, _) = holder.split_once('_')?;
        self.all_pods().await.into_iter().find(|pod| pod.name_any() == name && is_ready(pod))
    }

    /// Kills a pod: its processes get no time to tidy up.
    pub(crate) async fn kill(&self, pod: &Pod) {
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods().delete(&pod.name_any(), &at_once).await.expect("delete the pod");
    }

    /// Evicts a pod, as a drain of its node does.
    pub(crate) async fn evict(&self, pod: &Pod) {
        self.pods().evict(&pod.name_any(), &EvictParams::default()).await.expect("evict the pod");
    }

    /// Replaces all pods, as an upgrade does.
    pub(crate) async fn roll(&self) {
        self.cluster.kubectl(&["rollout", "restart", "deployment/restow", "-n", self.namespace]).await;
        self.until_rolled_out().await;
    }

    /// Waits until the Deployment is as it was last asked for.
    pub(crate) async fn until_rolled_out(&self) {
        let status = ["rollout", "status", "deployment/restow", "-n", self.namespace, "--timeout=5m"];
        self.cluster.kubectl(&status).await;
    }

    /// Notes how much memory the pods took, and asserts that no container of them was started anew.
    fn look_at(&self, pods: &[Pod]) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        for pod in pods {
            if let Some(peak) = self.cluster.node.memory_peak(pod) {
                assert!(peak < MEMORY_MAX, "{} took {peak} bytes of memory", pod.name_any());
                memory.insert(pod.name_any(), peak);
            }
            let restarts = restarts(pod);
            let log = if restarts > 0 { self.cluster.node.pod_log(pod) } else { String::new() };
            assert_eq!(restarts, 0, "{}: {:?}\n{log}", pod.name_any(), pod.status);
        }
    }

    /// Says what was noted of the pods, and asserts that the kubelet never found one dead.
    pub(crate) async fn report(&self) {
        self.look_at(&self.all_pods().await);
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert!(!memory.is_empty(), "no memory of any pod was seen");
        for (pod, peak) in memory {
            eprintln!("node:   {pod}: {:.1} MiB of memory at most", peak as f64 / f64::from(1 << 20));
        }
        let events: Api<Event> = Api::namespaced(self.cluster.client.clone(), self.namespace);
        let events = events.list(&ListParams::default()).await.expect("list events").items;
        let bad = ["Liveness probe failed", "OOM", "Back-off restarting"];
        let messages = events.into_iter().filter_map(|event| event.message);
        let bad: Vec<_> = messages.filter(|message| bad.iter().any(|word| message.contains(word))).collect();
        assert_eq!(bad, Vec::<String>::new());
    }

    /// The namespace takes only pods that may do nothing.
    pub(crate) async fn is_restricted(&self) {
        let pod = json!({
            "metadata": { "name": "careless" },
            "spec": { "containers": [{ "name": "careless", "image": PAUSE_IMAGE }] },
        });
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let refused = self.pods().create(&PostParams::default(), &pod).await;
        let refused = refused.expect_err("a careless pod is refused").to_string();
        assert!(refused.contains("violates PodSecurity \"restricted"), "{refused}");
    }

    /// While the API server is away, the pods are left alone.
    pub(crate) async fn outlives_an_outage(&self) {
        let before = names(&self.all_pods().await);
        let api_server = self.cluster.node.plane().api_server();
        api_server.stop(Signal::Term).await.expect("stop the API server");
        tokio::time::sleep(OUTAGE).await;
        api_server.start().await.expect("start the API server");
        let pods = self.until_ready().await;
        assert_eq!(names(&pods), before);
    }

    /// A process that hangs is found out, and started anew.
    pub(crate) async fn is_restarted_when_it_hangs(&self) {
        let pod = self.leader().await;
        self.cluster.node.signal(&pod, "restow", Signal::Stop);
        let name = pod.name_any();
        self.cluster
            .until("the kubelet to start the container anew", async || {
                let pod = self.pods().get(&name).await.ok()?;
                (restarts(&pod) > 0 && is_ready(&pod)).then_some(())
            })
            .await;
    }

    /// Creates the sample StorageMigration, with a pace.
    pub(crate) async fn migrate_crontabs(&self, writes_per_second: u32) {
        self.cluster.kubectl(&["apply", "-f", &file("manifests/samples/migration.yaml")]).await;
        self.pace(writes_per_second).await;
    }

    /// Changes the pace.
    pub(crate) async fn pace(&self, writes_per_second: u32) {
        let patch = json!({ "spec": { "pace": { "writesPerSecond": writes_per_second } } }).to_string();
        self.cluster.kubectl(&["patch", "smig", "crontabs", "--type=merge", "-p", &patch]).await;
    }

    /// Waits until the migration has this reason.
    pub(crate) async fn until(&self, reason: Reason) {
        let migrations: Api<StorageMigration> = Api::all(self.cluster.client.clone());
        let wish = format!("StorageMigration crontabs to be {reason}");
        self.cluster
            .until(&wish, async || {
                let migration = migrations.get("crontabs").await.ok()?;
                self.look_at(&self.all_pods().await);
                (Conditions::reason(&migration.status?.conditions) == Some(reason)).then_some(())
            })
            .await;
    }
}

fn names(pods: &[Pod]) -> Vec<String> {
    pods.iter().map(kube::ResourceExt::name_any).collect()
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().map(|status| status.restart_count).sum()
}
