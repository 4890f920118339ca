//! The configuration files of a node's programs, all within its directory.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use super::enclosure::{self, NODE_ADDRESS};
use super::needs::PLUGIN_DIRECTORY;
use super::{NAME, PAUSE_IMAGE};

/// The addresses of pods.
const PODS: &str = "10.244.0.0/24";

/// Writes all of them. Those that talk to the API server have their kubeconfigs elsewhere.
pub(super) fn write(directory: &Path, proxy_kubeconfig: &Path) -> io::Result<()> {
    let networks = directory.join("networks");
    std::fs::create_dir(&networks)?;
    std::fs::write(networks.join("10-bridge.conflist"), network(directory).to_string())?;
    std::fs::write(directory.join("containerd.toml"), containerd(directory))?;
    std::fs::write(directory.join("kubelet.json"), kubelet(directory).to_string())?;
    std::fs::write(directory.join("proxy.json"), proxy(proxy_kubeconfig).to_string())?;
    // There is no DNS; the file that the machine's own leads to may be covered in here.
    std::fs::write(directory.join("resolv.conf"), "")
}

/// With the snapshotter that copies, images are in a directory: no file system is laid over another one, which can't be
/// done on every machine. The two lines about oom are for those who lack `CAP_SYS_RESOURCE`.
fn containerd(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        r#"version = 2
root = "{directory}/containerd"
state = "{directory}/containerd-state"
oom_score = 0
[grpc]
  address = "{directory}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_tcp_service = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGIN_DIRECTORY}"
    conf_dir = "{directory}/networks"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{SNAPSHOTTER}"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"#
    )
}

/// How images are unpacked.
pub(super) const SNAPSHOTTER: &str = "native";

fn kubelet(directory: &Path) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": format!("unix://{}/containerd.sock", directory.display()),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", enclosure::group(directory).to_string_lossy()),
        "failCgroupV1": false,
        "failSwapOn": false,
        "oomScoreAdj": 0,
        "maxOpenFiles": 20000,
        "address": NODE_ADDRESS,
        "healthzBindAddress": "127.0.0.1",
        "authentication": { "anonymous": { "enabled": false }, "webhook": { "enabled": true } },
        "authorization": { "mode": "Webhook" },
        "enforceNodeAllocatable": ["pods"],
        "podLogsDir": directory.join("pod-logs"),
        "volumePluginDir": directory.join("volume-plugins"),
        "resolvConf": directory.join("resolv.conf"),
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": { "memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%" },
        "nodeStatusUpdateFrequency": "5s",
    })
}

/// No tables of connections are resized: that would be the whole machine's.
fn proxy(kubeconfig: &Path) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": { "kubeconfig": kubeconfig },
        "hostnameOverride": NAME,
        "clusterCIDR": PODS,
        "bindAddress": NODE_ADDRESS,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "oomScoreAdj": 0,
        "conntrack": { "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s" },
    })
}

fn network(directory: &Path) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [{
            "type": "bridge",
            "bridge": "pods",
            "isGateway": true,
            "ipMasq": true,
            "hairpinMode": true,
            "ipam": {
                "type": "host-local",
                "dataDir": directory.join("addresses"),
                "ranges": [[{ "subnet": PODS }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            },
        }],
    })
}
