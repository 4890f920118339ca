//! Everything that runs while the demo does: control plane, webhook, product.

use super::claim::{Doing as _, Failure, check};
use super::product;
use super::screen::Screen;
use crate::access;
use crate::binaries;
use crate::control_plane::{ControlPlane, Options};
use crate::crd::{self, Fixture, Kind, Removal};
use crate::objects::{self, Batch, content};
use crate::restow::Restow;
use crate::webhook::{Mapping, Webhook};
use kube::Client;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The version that the objects are created in.
pub(super) const OLD: &str = "v1beta1";
/// The version that they are to be stored in.
pub(super) const NEW: &str = "v1";
/// Where the objects live.
const NAMESPACE: &str = "default";
/// One server on this machine lags behind its CRD for less than a second.
const SETTLE: &str = "3s";
/// Nobody asks for health here; any free port will do.
const ADMIN_ADDRESS: &str = "127.0.0.1:0";

/// What the demo has started. Dropping it stops everything and removes its files.
pub struct Stage {
    // In the order of dropping: the product first, its control plane last.
    pub(super) restow: Option<Restow>,
    pub(super) webhook: Webhook,
    pub(super) client: Client,
    pub(super) kind: Kind,
    binary: PathBuf,
    plane: ControlPlane,
}

impl Stage {
    /// Starts the control plane and makes it ready for CronTabs and for restow.
    pub(super) async fn set(screen: &mut Screen) -> Result<Self, Failure> {
        screen.step("Start etcd and kube-apiserver on loopback");
        let plane = ControlPlane::start(Options::default()).await.doing("start the control plane")?;
        let client = plane.admin();
        screen.line(&format!("Kubernetes {} at {}", binaries::kubernetes_version(), plane.server_url()));

        screen.step("Build restow and install its CRD and RBAC");
        let binary = product::build().await?;
        access::install(&plane, &product::manifest()?).await.doing("install restow's manifest")?;

        screen.step("Create the CRD CronTab of the Kubernetes documentation, with its conversion webhook");
        let webhook = Webhook::start(Mapping::CronTab).await.doing("start the webhook")?;
        let fixture = Fixture::crontabs(webhook.conversion());
        let kind = crd::apply(&client, &fixture).await.doing("create the CRD")?;
        screen.entry("v1beta1", "spec.hostPort, stored");
        screen.entry("v1", "spec.host and spec.port, served");
        screen.entry("webhook", &webhook.url());
        Ok(Self { restow: None, webhook, client, kind, binary, plane })
    }

    /// Creates the CronTabs.
    pub(super) async fn create(&self, count: usize) -> Result<(), Failure> {
        let batch = Batch::of(count, content::crontab).named("crontab-").across(&[NAMESPACE]);
        let created = objects::create(&self.client, &self.kind, OLD, &batch).await;
        created.map(drop).doing("create the objects")
    }

    /// Takes the old version out of the CRD, if the server lets it go.
    pub(super) async fn remove_old_version(&self) -> Result<Removal, Failure> {
        crd::remove_version(&self.client, &self.kind.crd_name(), OLD).await.doing("edit the CRD")
    }

    /// Starts restow as the ServiceAccount that a cluster would run it as.
    pub(super) async fn start_controller(
        mut self,
        writes_per_second: Option<u32>,
        screen: &mut Screen,
    ) -> Result<Self, Failure> {
        screen.step("Start `restow controller`");
        access::grant_target(&self.plane, &self.kind.group, self.kind.plural)
            .await
            .doing("grant restow the CronTabs")?;
        let flags = ["--namespace", access::NAMESPACE, "--settle", SETTLE, "--admin-address", ADMIN_ADDRESS];
        let mut flags = flags.map(str::to_owned).to_vec();
        if let Some(pace) = writes_per_second {
            flags.extend(["--writes-per-second".to_owned(), pace.to_string()]);
        }
        screen.entry("runs as", &format!("ServiceAccount {}/{}", access::NAMESPACE, access::SERVICE_ACCOUNT));
        screen.entry("flags", &flags.join(" "));
        screen.line(
            "The default of --settle is longer, for clusters of several API servers: here there is one.",
        );
        let started = Restow::controller(&self.binary, &self.plane, flags).await.doing("start restow")?;
        self.restow = Some(started);
        Ok(self)
    }

    /// Shows what etcd and the CRD's status hold, and checks it.
    pub(super) async fn show_stored(
        &self,
        screen: &Screen,
        in_etcd: &[(&str, usize)],
        stored_versions: &[&str],
    ) -> Result<(), Failure> {
        let found = self.plane.etcd().stored_versions(&self.kind.group, self.kind.plural).await;
        let counts: Vec<_> = found.iter().map(|(version, count)| format!("{count} in {version}")).collect();
        screen.entry("etcd", &counts.join(", "));
        let named = crd::stored_versions(&self.client, &self.kind.crd_name()).await.doing("read the CRD")?;
        screen.entry("storedVersions", &named.join(", "));
        let expected: BTreeMap<_, _> =
            in_etcd.iter().map(|&(version, count)| (self.kind.api_version(version), count)).collect();
        check("objects in etcd", &expected, &found)?;
        check("storedVersions", &stored_versions.iter().map(|&it| it.to_owned()).collect(), &named)
    }

    /// Says how to look around.
    pub fn show_access(&self, screen: &mut Screen) {
        screen.step("Look around with kubectl; Ctrl-C ends it all");
        screen.line(&format!("export KUBECONFIG={}", self.plane.admin_kubeconfig_file().display()));
        screen.line("kubectl get storagemigrations -o wide");
        screen.line("kubectl get crontabs");
    }

    /// The last lines that restow wrote.
    pub(super) fn log_tail(&self) -> String {
        let log = self.restow.as_ref().map(|restow| restow.log()).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// Key of a CronTab in a snapshot.
pub(super) fn key(number: usize) -> String {
    format!("{NAMESPACE}/crontab-{number:03}")
}
