//! A real cluster of one node: the control plane of the bench with scheduler and controller manager, a kubelet on containerd
//! and runc, and kube-proxy.
//!
//! It runs in an [`Enclosure`], as does the test that uses it. There is no registry (images are imported), no DNS and nobody
//! who enforces network policies. Nothing here knows what is run on it.

mod enclosure;
mod files;
mod machine;
mod needs;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core;
use kube::{Api, ResourceExt as _};
use tokio::time::{Instant, sleep};

pub use self::enclosure::{Enclosure, inside};
pub use self::machine::{Machine, processes_of};
pub use self::needs::{Lack, check as check_needs};
use crate::binaries::{BinaryError, Program};
use crate::control_plane::{ControlPlane, Options, User};
use crate::process::{self, Launch, Process, Signal};

/// What the kubelet calls the node.
pub const NAME: &str = "node1";
/// The image that holds the namespaces of each pod; the caller imports it with the others.
pub const PAUSE_IMAGE: &str = "localhost/restow-testbed/guest:latest";

/// How long the node may take until it is ready, on a machine that has much else to do.
const READY_DEADLINE: Duration = Duration::from_mins(5);
/// Between two looks.
const POLL: Duration = Duration::from_millis(200);

const KUBELET: User = User { name: "system:node:node1", group: "system:nodes" };
const CONTROLLER_MANAGER: User = User { name: "system:kube-controller-manager", group: "testbed" };
const SCHEDULER: User = User { name: "system:kube-scheduler", group: "testbed" };
const PROXY: User = User { name: "system:kube-proxy", group: "testbed" };

/// A running node. It ends with its enclosure.
#[derive(Debug)]
pub struct Node {
    // In the order of dropping: who works on the node, before what runs its containers, before the control plane.
    workers: Vec<Process>,
    containerd: Process,
    plane: ControlPlane,
    directory: PathBuf,
}

/// Builds the programs of the cluster that are not there yet. Within the enclosure there is no network to fetch sources.
///
/// # Errors
/// If one can't be built.
pub fn build_programs() -> Result<(), BinaryError> {
    let all = [
        Program::Etcd,
        Program::ApiServer,
        Program::Kubectl,
        Program::ControllerManager,
        Program::Scheduler,
        Program::Kubelet,
        Program::Proxy,
    ];
    all.into_iter().try_for_each(|program| program.path().map(drop))
}

impl Node {
    /// Starts it with these images (OCI archives), and waits until it is ready.
    ///
    /// # Panics
    /// If that is not within an enclosure, or something does not start; the message has the end of its log.
    pub async fn start(images: &[PathBuf]) -> Self {
        let directory = inside().expect("a node is started in an enclosure");
        let plane = control_plane().await;
        let kubeconfig = |user: User| plane.kubeconfig_file(&user.token());
        files::write(&directory, &kubeconfig(PROXY)).expect("write the node's files");
        let containerd = spawn(&directory, Path::new("containerd"), |launch| {
            launch.arg("--config").arg(directory.join("containerd.toml"))
        });
        let workers = vec![
            spawn_built(&directory, Program::ControllerManager, |launch| {
                launch
                    .args(client_flags(&kubeconfig(CONTROLLER_MANAGER), &directory))
                    .arg(flag("root-ca-file", plane.authority()))
                    .arg(flag("service-account-private-key-file", plane.token_key()))
                    .arg("--use-service-account-credentials=true")
            }),
            spawn_built(&directory, Program::Scheduler, |launch| {
                launch.args(client_flags(&kubeconfig(SCHEDULER), &directory))
            }),
            spawn_built(&directory, Program::Kubelet, |launch| {
                launch
                    .arg(flag("config", &directory.join("kubelet.json")))
                    .arg(flag("kubeconfig", &kubeconfig(KUBELET)))
                    .arg(flag("root-dir", &directory.join("kubelet")))
                    .arg(flag("cert-dir", &directory.join("kubelet-certificates")))
                    .arg(format!("--hostname-override={NAME}"))
                    .arg(format!("--node-ip={}", enclosure::NODE_ADDRESS))
            }),
            spawn_built(&directory, Program::Proxy, |launch| {
                launch.arg(flag("config", &directory.join("proxy.json")))
            }),
        ];
        let node = Self { workers, containerd, plane, directory };
        node.until("containerd to answer", async || node.ctr(&["version"]).await.is_ok()).await;
        for image in images {
            node.import(image).await;
        }
        let nodes: Api<core::Node> = Api::all(node.plane.admin());
        node.until("the node to be ready", async || nodes.get(NAME).await.is_ok_and(|it| is_ready(&it)))
            .await;
        node
    }

    /// Its control plane.
    #[must_use]
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// Imports an image, an OCI archive with a name in it.
    ///
    /// # Panics
    /// If containerd refuses.
    pub async fn import(&self, archive: &Path) {
        let file = archive.to_string_lossy();
        let snapshotter = files::SNAPSHOTTER;
        let imported = self.ctr(&["images", "import", "--snapshotter", snapshotter, &file]).await;
        imported.expect("import an image");
    }

    /// What a pod's containers have written so far, all that were started for it.
    #[must_use]
    pub fn pod_log(&self, pod: &core::Pod) -> String {
        let uid = pod.uid().unwrap_or_default();
        let directory = format!("{}_{}_{uid}", pod.namespace().unwrap_or_default(), pod.name_any());
        let directory = self.directory.join("pod-logs").join(directory);
        let mut files = Vec::new();
        find_files(&directory, &mut |path| files.push(path.to_owned()));
        files.sort();
        files.iter().map(|file| std::fs::read_to_string(file).unwrap_or_default()).collect()
    }

    /// The most memory, in bytes, that a pod's containers have had at a time, caches included. None if it is gone.
    #[must_use]
    pub fn memory_peak(&self, pod: &core::Pod) -> Option<u64> {
        let group = enclosure::group(&self.directory);
        let pod_group = format!("pod{}", pod.uid()?);
        let mut peak = None;
        for hierarchy in machine::cgroup_hierarchies().ok()? {
            find_files(&hierarchy.join(group), &mut |path| {
                let of_pod = path.parent().is_some_and(|parent| parent.ends_with(&pod_group));
                // Named so with version 1, and with version 2.
                if of_pod && (path.ends_with("memory.max_usage_in_bytes") || path.ends_with("memory.peak")) {
                    peak = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
                }
            });
        }
        peak
    }

    /// Sends a signal to the processes of a pod that run this program.
    ///
    /// # Panics
    /// If there is none.
    pub fn signal(&self, pod: &core::Pod, program: &str, signal: Signal) {
        let (group, pod_group) =
            (enclosure::group(&self.directory), format!("pod{}", pod.uid().unwrap_or_default()));
        let mut pids = BTreeSet::new();
        for hierarchy in machine::cgroup_hierarchies().unwrap_or_default() {
            find_files(&hierarchy.join(group), &mut |path| {
                if path.ends_with("cgroup.procs") && path.iter().any(|part| *part == *pod_group) {
                    let text = std::fs::read_to_string(path).unwrap_or_default();
                    pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
                }
            });
        }
        pids.retain(|pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.trim() == program)
        });
        assert!(!pids.is_empty(), "pod {} runs no {program}", pod.name_any());
        for pid in pids {
            process::signal(pid, signal);
        }
    }

    async fn ctr(&self, args: &[&str]) -> Result<(), String> {
        let output = tokio::process::Command::new("ctr")
            .arg("--address")
            .arg(self.directory.join("containerd.sock"))
            .args(["--namespace", "k8s.io"])
            .args(args)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await;
        let output = output.expect("run ctr");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(text) }
    }

    async fn until(&self, wish: &str, is_met: impl AsyncFn() -> bool) {
        let deadline = Instant::now() + READY_DEADLINE;
        while !is_met().await {
            let failed = self.workers.iter().chain([&self.containerd]).find(|process| !process.is_running());
            assert!(failed.is_none(), "wait for {wish}, but a program has ended:\n{}", self.logs());
            assert!(Instant::now() < deadline, "waited in vain for {wish}:\n{}", self.logs());
            sleep(POLL).await;
        }
    }

    /// The end of what each program has logged.
    #[must_use]
    pub fn logs(&self) -> String {
        let tail = |process: &Process| {
            let log = process.log();
            let lines: Vec<_> = log.lines().collect();
            let (total, name) = (lines.len(), process.name());
            format!("{name} ({:?}):\n{}\n", process.exit(), lines[total.saturating_sub(15)..].join("\n"))
        };
        self.workers.iter().chain([&self.containerd]).map(tail).collect()
    }
}

async fn control_plane() -> ControlPlane {
    let address = enclosure::NODE_ADDRESS;
    let service_names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1", address];
    let options = Options {
        api_server_flags: vec![
            "--bind-address=0.0.0.0".to_owned(),
            format!("--advertise-address={address}"),
            format!("--service-cluster-ip-range={}", enclosure::SERVICES),
            // Pods connect to the Service `kubernetes`.
            "--endpoint-reconciler-type=lease".to_owned(),
            // On top of RBAC.
            "--authorization-mode=Node".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
        ],
        server_names: service_names.map(str::to_owned).into(),
        users: vec![KUBELET, CONTROLLER_MANAGER, SCHEDULER, PROXY],
        ..Options::default()
    };
    match ControlPlane::start(options).await {
        Ok(plane) => plane,
        Err(error) => panic!("start the node's control plane: {error:?}"),
    }
}

fn client_flags(kubeconfig: &Path, directory: &Path) -> [String; 6] {
    [
        flag("kubeconfig", kubeconfig),
        flag("authentication-kubeconfig", kubeconfig),
        flag("authorization-kubeconfig", kubeconfig),
        flag("cert-dir", &directory.join("certificates")),
        "--bind-address=127.0.0.1".to_owned(),
        "--leader-elect=false".to_owned(),
    ]
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

fn spawn_built(directory: &Path, program: Program, with: impl FnOnce(Launch) -> Launch) -> Process {
    spawn(directory, &program.path().expect("it was built"), with)
}

fn spawn(directory: &Path, program: &Path, with: impl FnOnce(Launch) -> Launch) -> Process {
    let name = program.file_name().unwrap_or_default();
    let launch = Launch::new(program, directory.join(name).with_extension("log"));
    with(launch).spawn().expect("start a program of the node")
}

fn is_ready(node: &core::Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Calls for each file at or below a directory. What can't be read has none: it may be gone.
fn find_files(directory: &Path, found: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => find_files(&entry.path(), found),
            Ok(_) => found(&entry.path()),
            Err(_) => {}
        }
    }
}
