//! The cluster that the steps share, and what they ask of it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use testbed::binaries::Program;
use testbed::node::{Node, PAUSE_IMAGE};
use tokio::time::{Instant, sleep};

use crate::images::Images;

/// How long a step waits for what takes seconds on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);
/// Between two looks.
const POLL: Duration = Duration::from_millis(200);

/// A node, and a client with all rights.
pub(crate) struct Cluster {
    pub(crate) node: Node,
    pub(crate) client: Client,
}

impl Cluster {
    pub(crate) async fn start(images: &Images) -> Self {
        let node = Box::pin(Node::start(&[images.product.clone(), images.guest.clone()])).await;
        let client = node.plane().admin();
        Self { node, client }
    }

    /// Runs kubectl, which has to succeed, and says what it printed.
    pub(crate) async fn kubectl(&self, args: &[&str]) -> String {
        let output = self.node.plane().kubectl(args).await.expect("run kubectl");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "kubectl {args:?}: {}\n{}",
            text(&output.stderr),
            self.state().await
        );
        text(&output.stdout)
    }

    /// Runs Helm with nothing of the user's. It has to succeed.
    pub(crate) async fn helm(&self, namespace: &str, args: &[&str]) {
        let program = Program::Helm.path().expect("it was built");
        let plane = self.node.plane();
        let mut helm = tokio::process::Command::new(program);
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            helm.env(name, plane.directory().join("helm"));
        }
        helm.arg("--kubeconfig")
            .arg(plane.admin_kubeconfig_file())
            .args(["--namespace", namespace])
            .args(args);
        let output = helm.kill_on_drop(true).output().await.expect("run Helm");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "helm {args:?}: {said}\n{}", self.state().await);
    }

    /// Applies an object.
    pub(crate) async fn apply(&self, name: &str, object: &Value) {
        let file = self.node.plane().new_path(name).with_extension("json");
        std::fs::write(&file, object.to_string()).expect("write an object");
        self.kubectl(&["apply", "--server-side", "-f", &file.to_string_lossy()]).await;
    }

    /// The pods of a namespace.
    pub(crate) fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub(crate) async fn run_a_pod(&self) {
        let pod = json!({
            "metadata": { "name": "first" },
            "spec": { "containers": [{
                "name": "first", "image": PAUSE_IMAGE, "args": ["pause"], "imagePullPolicy": "Never",
            }] },
        });
        let pod = serde_json::from_value(pod).expect("a pod");
        let pods = self.pods("default");
        self.until("the ServiceAccount of namespace default", async || {
            pods.create(&PostParams::default(), &pod).await.ok()
        })
        .await;
        self.until("the pod to be ready", async || pods.get("first").await.ok().filter(is_ready)).await;
    }

    pub(crate) async fn delete_the_pod(&self) {
        let pods = self.pods("default");
        pods.delete("first", &DeleteParams::default()).await.expect("delete the pod");
        self.until("the pod to be gone", async || {
            pods.get_opt("first").await.is_ok_and(|pod| pod.is_none()).then_some(())
        })
        .await;
    }

    /// Waits until `look` finds what it looks for.
    pub(crate) async fn until<T>(&self, wish: &str, look: impl AsyncFn() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look().await {
                return found;
            }
            assert!(Instant::now() < deadline, "waited in vain for {wish}\n{}", self.state().await);
            sleep(POLL).await;
        }
    }

    /// The state of every pod, and the end of all logs.
    pub(crate) async fn state(&self) -> String {
        let pods: Api<Pod> = Api::all(self.client.clone());
        let pods = pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        let mut text: String = pods.iter().map(summary).collect();
        text.push_str(&self.node.logs());
        for pod in pods {
            let log = self.node.pod_log(&pod);
            let lines: Vec<_> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(20)..].join("\n");
            text = format!("{text}{}: {:?}\n{tail}\n", pod.name_any(), pod.status);
        }
        text
    }
}

/// A line of what a pod is.
fn summary(pod: &Pod) -> String {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let going = pod.metadata.deletion_timestamp.is_some();
    format!("{} ({phase:?}, ready: {}, going: {going})\n", pod.name_any(), is_ready(pod))
}

/// Whether a pod is ready and not on its way out.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}
