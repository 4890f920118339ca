//! The scene of a test: a CRD of its own on the shared control plane, the product beside it, and what both then hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use restow::api::{
    Conditions, RETRY_ANNOTATION, Reason, StorageMigration, StorageMigrationSpec, StorageMigrationStatus,
    TargetResource,
};
use serde_json::{Value, json};
use testbed::access;
use testbed::audit::{AuditLog, Filter};
use testbed::control_plane::ControlPlane;
use testbed::crd::{self, Fixture, Kind, Removal};
use testbed::etcd::Stored;
use testbed::objects::{self, Batch, Key};
use testbed::proxy::Proxy;
use testbed::restow::{Output, Restow, RestowCommand};
use tokio::time::{Instant, sleep};

/// The product.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_restow");

/// How long a test waits for something that takes seconds on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// The label by which the controller of a test finds the StorageMigrations of that test, and no others.
pub(crate) const SCENE_LABEL: &str = "scene";

/// What is shipped beside the binary.
pub(crate) fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests")
}

/// Applies the shipped install.yaml to a control plane, as far as it has a use for it.
pub(crate) async fn install(plane: &ControlPlane) {
    access::install(plane, &manifests().join("install.yaml")).await.expect("install the manifests");
}

/// One test's CRD and what belongs to it.
pub(crate) struct Scene {
    pub(crate) plane: &'static ControlPlane,
    pub(crate) client: Client,
    pub(crate) kind: Kind,
    pub(crate) audit: AuditLog,
    name: String,
}

impl Scene {
    /// A scene on the shared control plane, with `fixture` of the group `<name>.example.com` applied and restow's rights on
    /// it granted.
    pub(crate) async fn new(name: &str, fixture: impl FnOnce(&str) -> Fixture) -> Self {
        Self::on(ControlPlane::shared().await, name, fixture).await
    }

    /// The same on a control plane of the caller's.
    pub(crate) async fn on(
        plane: &'static ControlPlane,
        name: &str,
        fixture: impl FnOnce(&str) -> Fixture,
    ) -> Self {
        install(plane).await;
        let client = plane.admin();
        let fixture = fixture(&format!("{name}.example.com"));
        let kind = crd::apply(&client, &fixture).await.expect("apply the CRD");
        let scene = Self { plane, client, kind, audit: plane.audit().from_now(), name: name.to_owned() };
        scene.grant(&scene.kind).await;
        scene
    }

    /// Whether the API server names the objects that it can't decode: since Kubernetes 1.37.
    pub(crate) async fn names_undecodable(&self) -> bool {
        self.kubernetes_minor().await >= 37
    }

    /// The API server's minor version.
    pub(crate) async fn kubernetes_minor(&self) -> u32 {
        let version = self.client.apiserver_version().await.expect("ask for the version");
        version.minor.parse().expect("a number")
    }

    /// Widgets with versions v1alpha1 and v1, the first of them stored.
    pub(crate) async fn widgets(name: &str) -> Self {
        Self::new(name, Fixture::widgets).await
    }

    /// N(n) of the field cases: `count` objects stored in v1alpha1, then the flag moved to v1.
    pub(crate) async fn stored_old(&self, batch: &Batch) -> Vec<Key> {
        let keys =
            objects::create(&self.client, &self.kind, "v1alpha1", batch).await.expect("create objects");
        self.move_storage("v1").await;
        keys
    }

    /// Widgets of which so many are stored in v1alpha1, with the flag on v1.
    pub(crate) async fn old_widgets(name: &str, count: usize) -> Self {
        let scene = Self::widgets(name).await;
        scene.stored_old(&Batch::plain(count)).await;
        scene
    }

    /// Starts a controller and creates the StorageMigration called after the scene, with further fields of its spec.
    pub(crate) async fn begin(&self, spec: Value) -> Restow {
        let controller = self.controller(&[]).await;
        self.migrate(spec).await;
        controller
    }

    /// The same, with a proxy between the controller and the API server.
    pub(crate) async fn begin_through(&self, proxy: &Proxy, spec: Value) -> Restow {
        let controller = self.controller_through(proxy, &[]).await;
        self.migrate(spec).await;
        controller
    }

    /// Waits until the StorageMigration is done, and asserts that so many objects are stored in v1, and nothing else is named.
    pub(crate) async fn until_all_migrated(&self, count: usize) -> StorageMigrationStatus {
        let status = self.until(Reason::Migrated).await;
        assert_eq!(self.stored().await, counts([("v1", count)]));
        assert_eq!(self.stored_versions().await, ["v1"]);
        status
    }

    pub(crate) async fn move_storage(&self, version: &str) {
        crd::move_storage(&self.client, &self.kind.crd_name(), version).await.expect("move the flag");
    }

    /// Grants the product its rights on a further kind.
    pub(crate) async fn grant(&self, kind: &Kind) {
        access::grant_target(self.plane, &kind.group, kind.plural).await.expect("grant the target");
    }

    /// Starts a controller that acts on this scene's StorageMigrations alone.
    pub(crate) async fn controller(&self, args: &[&str]) -> Restow {
        let token = access::token(self.plane).await;
        self.controller_with(&self.plane.kubeconfig_file(&token), args)
    }

    /// The same, with a proxy between it and the API server.
    pub(crate) async fn controller_through(&self, proxy: &Proxy, args: &[&str]) -> Restow {
        let token = access::token(self.plane).await;
        let kubeconfig = self.plane.new_path("kubeconfig");
        std::fs::write(&kubeconfig, self.plane.kubeconfig_through(&proxy.url(), &token))
            .expect("write a kubeconfig");
        self.controller_with(&kubeconfig, args)
    }

    fn controller_with(&self, kubeconfig: &Path, args: &[&str]) -> Restow {
        let selector = format!("{SCENE_LABEL}={}", self.name);
        let own = [
            ["--watch-label-selector", &selector],
            ["--admin-address", "127.0.0.1:0"],
            ["--settle", "1s"],
            ["--namespace", access::NAMESPACE],
        ];
        let own = own.iter().filter(|[flag, _]| !args.contains(flag)).flatten();
        // All scenes share a namespace, and with it the Lease.
        let alone = args.iter().all(|arg| !arg.starts_with("--leader-elect"));
        let own = own.chain(alone.then_some(&"--leader-elect=false"));
        let command = RestowCommand::with_kubeconfig(BINARY, self.plane, kubeconfig).args(["controller"]);
        command.args(own.chain(args).copied()).start().expect("start the controller")
    }

    /// Runs the one-shot command on this scene's resource.
    pub(crate) async fn run_migrate(&self, args: &[&str]) -> Output {
        let crd = self.kind.crd_name();
        let args: Vec<&str> =
            ["migrate", &crd, "--settle", "1s"].into_iter().chain(args.iter().copied()).collect();
        Restow::run(BINARY, self.plane, args).await.expect("run the command")
    }

    pub(crate) fn resource(&self) -> TargetResource {
        TargetResource { group: self.kind.group.clone(), resource: self.kind.plural.to_owned() }
    }

    /// The name of this scene's first StorageMigration.
    pub(crate) fn migration(&self) -> &str {
        &self.name
    }

    /// Creates the StorageMigration called after the scene, with further fields of its spec.
    pub(crate) async fn migrate(&self, spec: Value) -> StorageMigration {
        self.migrate_as(&self.name, spec).await
    }

    /// Creates a StorageMigration for this scene's resource.
    pub(crate) async fn migrate_as(&self, name: &str, spec: Value) -> StorageMigration {
        let mut migration = StorageMigration::new(name, StorageMigrationSpec::for_resource(self.resource()));
        migration.labels_mut().insert(SCENE_LABEL.to_owned(), self.name.clone());
        let mut object = serde_json::to_value(&migration).expect("serialize");
        for (field, value) in spec.as_object().expect("the fields of a spec") {
            object["spec"][field] = value.clone();
        }
        let object = serde_json::from_value(object).expect("a StorageMigration");
        self.migrations().create(&PostParams::default(), &object).await.expect("create the StorageMigration")
    }

    pub(crate) fn migrations(&self) -> Api<StorageMigration> {
        Api::all(self.client.clone())
    }

    pub(crate) async fn patch_spec(&self, name: &str, spec: Value) {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.migrations().patch(name, &PatchParams::default(), &patch).await.expect("patch the spec");
    }

    /// Asks for another try of refused objects; each value asks once.
    pub(crate) async fn ask_retry(&self, value: &str) {
        self.annotate(RETRY_ANNOTATION, value).await;
    }

    pub(crate) async fn annotate(&self, name: &str, value: &str) {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { name: value } } }));
        self.migrations().patch(&self.name, &PatchParams::default(), &patch).await.expect("annotate");
    }

    pub(crate) async fn delete_migration(&self, name: &str) {
        self.migrations().delete(name, &DeleteParams::default()).await.expect("delete the StorageMigration");
    }

    pub(crate) async fn status_of(&self, name: &str) -> StorageMigrationStatus {
        self.migrations().get(name).await.expect("read the StorageMigration").status.unwrap_or_default()
    }

    /// Waits until the scene's StorageMigration has this reason.
    pub(crate) async fn until(&self, reason: Reason) -> StorageMigrationStatus {
        self.until_of(&self.name, &format!("{reason}"), |status| reason_of(status) == Some(reason)).await
    }

    /// Waits until the status of a StorageMigration is as wished.
    pub(crate) async fn until_of(
        &self,
        name: &str,
        wish: &str,
        is_met: impl Fn(&StorageMigrationStatus) -> bool,
    ) -> StorageMigrationStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status_of(name).await;
            if is_met(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "waited in vain for {wish}; the status is {status:#?}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// How many objects are stored in which version, by etcd.
    pub(crate) async fn stored(&self) -> BTreeMap<String, usize> {
        let stored = self.plane.etcd().stored_versions(&self.kind.group, self.kind.plural).await;
        let version = |api_version: String| api_version.rsplit('/').next().unwrap_or_default().to_owned();
        stored.into_iter().map(|(api_version, count)| (version(api_version), count)).collect()
    }

    /// All objects as they are stored, in the order of their keys.
    pub(crate) async fn values(&self) -> Vec<Stored> {
        self.plane.etcd().values(&self.kind.group, self.kind.plural).await
    }

    /// Whether an object is stored in a version.
    pub(crate) async fn is_stored(&self, key: &Key, version: &str) -> bool {
        let (kind, namespace) = (&self.kind, key.namespace.as_deref());
        let stored = self.plane.etcd().value(&kind.group, kind.plural, namespace, &key.name).await;
        stored.is_some_and(|object| object["apiVersion"] == kind.api_version(version))
    }

    /// Touches an object until it is stored in `version`: a handler lags behind a flag that moved a moment ago.
    pub(crate) async fn touch_until_stored(&self, key: &Key, version: &str) {
        eventually(&format!("{key} to be stored in {version}"), async || {
            objects::touch(&self.client, &self.kind, "v1", key).await.expect("touch");
            self.is_stored(key, version).await.then_some(())
        })
        .await;
    }

    /// Waits until so many objects, or more, are stored in a version.
    pub(crate) async fn until_stored(&self, version: &str, count_min: usize) {
        eventually(&format!("{count_min} objects in {version}"), async || {
            (self.stored().await.get(version).copied().unwrap_or_default() >= count_min).then_some(())
        })
        .await;
    }

    /// Asserts that the CRD can do without a version now.
    pub(crate) async fn remove_version(&self, version: &str) {
        let removal = crd::remove_version(&self.client, &self.kind.crd_name(), version).await;
        let removal = removal.expect("edit the CRD");
        assert!(matches!(removal, Removal::Accepted), "{removal:?}");
    }

    /// `status.storedVersions` of the CRD.
    pub(crate) async fn stored_versions(&self) -> Vec<String> {
        crd::stored_versions(&self.client, &self.kind.crd_name()).await.expect("read the CRD")
    }

    /// Writes `status.storedVersions` of the CRD, as anybody may.
    pub(crate) async fn set_stored_versions(&self, versions: &[&str]) {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({ "status": { "storedVersions": versions } }));
        let name = self.kind.crd_name();
        crds.patch_status(&name, &PatchParams::default(), &patch).await.expect("patch the CRD");
    }

    /// Requests on this scene's objects so far, by the product.
    pub(crate) fn visits(&self) -> usize {
        self.audit.count(&self.requests().verb("patch"))
    }

    /// Waits until the product has sent so many visits.
    pub(crate) async fn until_visits(&self, count: usize) {
        eventually(&format!("{count} visits"), async || (self.visits() >= count).then_some(())).await;
    }

    /// Looks on for a while in which the product may not visit anything.
    pub(crate) async fn no_visits_for(&self, while_: Duration) {
        let before = self.visits();
        sleep(while_).await;
        assert_eq!(self.visits(), before, "nothing was to be visited");
    }

    /// The revision of each object's last write, by etcd.
    pub(crate) async fn revisions(&self) -> BTreeMap<String, i64> {
        let stored = self.plane.etcd().values(&self.kind.group, self.kind.plural).await;
        stored.into_iter().map(|object| (object.key, object.revision)).collect()
    }

    /// What finds the product's requests on this scene's objects in the audit log.
    pub(crate) fn requests(&self) -> Filter {
        Filter::resource(&self.kind.group, self.kind.plural).user_agent("restow/")
    }
}

/// Waits until `look` finds what it looks for.
pub(crate) async fn eventually<T>(wish: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {wish}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// The reason that a status gives.
pub(crate) fn reason_of(status: &StorageMigrationStatus) -> Option<Reason> {
    Conditions::reason(&status.conditions)
}

/// Counts by version, for comparing.
pub(crate) fn counts<const N: usize>(versions: [(&str, usize); N]) -> BTreeMap<String, usize> {
    versions.map(|(version, count)| (version.to_owned(), count)).into()
}
