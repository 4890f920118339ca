//! CronTabs, and their conversion webhook as a Deployment behind a Service.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testbed::crd::{self, Conversion, Fixture, Kind};
use testbed::node::PAUSE_IMAGE;
use testbed::objects::{self, Batch, Snapshot, content};
use testbed::webhook::Issued;

use crate::cluster::Cluster;

/// How many objects are migrated.
pub(crate) const OBJECTS: usize = 2000;
/// Namespace of the webhook, and what everything of it is called.
const WEBHOOK: &str = "conversion";

/// CronTabs, 2,000 of them, stored in v1beta1 at first.
pub(crate) struct CronTabs<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) kind: Kind,
    at_first: Snapshot,
}

impl<'a> CronTabs<'a> {
    pub(crate) async fn create(cluster: &'a Cluster) -> Self {
        let conversion = run_webhook(cluster).await;
        let fixture = Fixture::crontabs(conversion);
        let kind = crd::apply(&cluster.client, &fixture).await.expect("apply the CRD");
        let batch = Batch::of(OBJECTS, content::crontab);
        objects::create(&cluster.client, &kind, "v1beta1", &batch).await.expect("create CronTabs");
        let at_first = objects::snapshot(&cluster.client, &kind, "v1").await.expect("read CronTabs");
        let crontabs = Self { cluster, kind, at_first };
        assert_eq!(crontabs.stored().await, only("v1beta1"));
        crontabs
    }

    pub(crate) async fn move_storage(&self, version: &str) {
        crd::move_storage(&self.cluster.client, &self.kind.crd_name(), version).await.expect("move the flag");
    }

    /// How many are stored in which version, by etcd.
    pub(crate) async fn stored(&self) -> BTreeMap<String, usize> {
        let etcd = self.cluster.node.plane().etcd();
        let stored = etcd.stored_versions(&self.kind.group, self.kind.plural).await;
        let version = |api_version: String| api_version.rsplit('/').next().unwrap_or_default().to_owned();
        stored.into_iter().map(|(api_version, count)| (version(api_version), count)).collect()
    }

    /// How many are stored in a version, by etcd.
    pub(crate) async fn count(&self, version: &str) -> usize {
        self.stored().await.get(version).copied().unwrap_or_default()
    }

    /// Asserts that all are stored in a version and nothing else claims to be, that each was written so often since the
    /// beginning, creation included, and that none has changed.
    pub(crate) async fn assert_migrated(&self, version: &str, writes: i64) {
        assert_eq!(self.stored().await, only(version));
        let trimmed = crd::stored_versions(&self.cluster.client, &self.kind.crd_name()).await;
        assert_eq!(trimmed.expect("read the CRD"), [version]);
        let values = self.cluster.node.plane().etcd().values(&self.kind.group, self.kind.plural).await;
        let other: Vec<_> =
            values.iter().filter(|it| it.writes != writes).map(|it| (&it.key, it.writes)).collect();
        assert!(other.is_empty(), "each was to be written {writes} times, but these: {other:?}");
        let now = objects::snapshot(&self.cluster.client, &self.kind, "v1").await.expect("read CronTabs");
        assert_eq!(self.at_first.differences(&now), Vec::<String>::new());
    }
}

fn only(version: &str) -> BTreeMap<String, usize> {
    BTreeMap::from([(version.to_owned(), OBJECTS)])
}

/// Runs the webhook, and says how a CRD refers to it.
async fn run_webhook(cluster: &Cluster) -> Conversion {
    let host = format!("{WEBHOOK}.{WEBHOOK}.svc");
    let issued = Issued::new(&[&host]).expect("a certificate");
    for (name, object) in [
        ("namespace", namespace()),
        ("secret", secret(&issued)),
        ("deployment", deployment()),
        ("service", service()),
    ] {
        cluster.apply(name, &object).await;
    }
    let deployment = format!("deployment/{WEBHOOK}");
    cluster.kubectl(&["rollout", "status", &deployment, "-n", WEBHOOK, "--timeout=5m"]).await;
    Conversion::Service {
        namespace: WEBHOOK.to_owned(),
        name: WEBHOOK.to_owned(),
        ca_bundle: issued.ca_bundle(),
    }
}

fn namespace() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": WEBHOOK, "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
    })
}

fn secret(issued: &Issued) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": { "name": WEBHOOK, "namespace": WEBHOOK },
        "stringData": { "tls.crt": issued.certificate, "tls.key": issued.key },
    })
}

fn deployment() -> Value {
    let labels = json!({ "app": WEBHOOK });
    let container = json!({
        "name": WEBHOOK,
        "image": PAUSE_IMAGE,
        "args": ["webhook"],
        "imagePullPolicy": "Never",
        "readinessProbe": { "tcpSocket": { "port": 8443 }, "periodSeconds": 1 },
        "volumeMounts": [{ "name": "tls", "mountPath": "/tls", "readOnly": true }],
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": WEBHOOK, "namespace": WEBHOOK },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "automountServiceAccountToken": false,
                    "securityContext": {
                        "runAsNonRoot": true, "runAsUser": 65532,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "containers": [container],
                    "volumes": [{ "name": "tls", "secret": { "secretName": WEBHOOK } }],
                },
            },
        },
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": WEBHOOK, "namespace": WEBHOOK },
        "spec": { "selector": { "app": WEBHOOK }, "ports": [{ "port": 443, "targetPort": 8443 }] },
    })
}
