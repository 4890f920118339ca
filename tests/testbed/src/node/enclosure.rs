//! Namespaces of Linux for a node and its tests: network, mounts and processes of their own, so that nothing of the machine
//! is changed and nothing is left running.
//!
//! A copy of the test program is run inside; it tells itself apart from the one outside by [`inside`]. Its ancestor, the
//! first process of the namespaces, is a small shell that ends when the program ends, or when the one outside does,
//! however it does. All other processes of the namespaces end with it, and their mounts and interfaces go with them. What
//! does not go by itself are control groups: those of a node are within groups that bear the name of the enclosure's
//! directory and are removed with it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::workdir::WorkDir;

/// The node's address, on its loopback.
pub(crate) const NODE_ADDRESS: &str = "10.250.0.1";
/// The addresses of Services.
pub(crate) const SERVICES: &str = "10.96.0.0/16";
/// Tells the copy inside its directory.
const DIRECTORY: &str = "RESTOW_TESTBED_ENCLOSURE";

/// What runs as the first process of the namespaces. It covers directories that containerd, the kubelet and the network
/// plugins write to and that can't be configured, and settings of the whole machine that the kubelet insists on: it reads
/// there what it wants and changes nothing.
const INIT: &str = r#"
set -e
exec 3<&0 </dev/null
directory=$1 address=$2 services=$3
shift 3
for covered in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 tmpfs "$covered"; done
mkdir "$directory/sysctl"
for setting in vm/overcommit_memory=1 kernel/panic=10 kernel/panic_on_oops=1; do
    copy=$directory/sysctl/$(basename "${setting%=*}")
    echo "${setting#*=}" >"$copy"
    mount --bind "$copy" "/proc/sys/${setting%=*}"
done
ip link set lo up
ip address add "$address/32" dev lo
ip route add "$services" dev lo src "$address"
echo 1 >/proc/sys/net/ipv4/ip_forward
"$@" 3<&- &
program=$!
{ read -r _ <&3 || true; kill -KILL -1; } &
exec 3<&-
wait "$program"
"#;

/// A directory, control groups of the same name, and the way into namespaces of one's own.
#[derive(Debug)]
pub struct Enclosure {
    directory: WorkDir,
}

/// The directory of the enclosure that this process runs in, if it does.
#[must_use]
pub fn inside() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY).map(PathBuf::from)
}

impl Enclosure {
    /// Makes the directory and the control groups. They are removed when this is dropped, or its process ends.
    ///
    /// # Errors
    /// If one can't be made, for instance without root's rights.
    pub fn create() -> io::Result<Self> {
        let directory = WorkDir::create()?;
        for hierarchy in super::machine::cgroup_hierarchies()? {
            std::fs::create_dir(hierarchy.join(group(directory.path())))?;
        }
        Ok(Self { directory })
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Runs a copy of this program inside, with arguments, and waits for its end. It has no standard input and shares our
    /// output.
    ///
    /// # Errors
    /// If it can't be started. That it failed is in the status.
    pub fn run(&self, args: &[&str]) -> io::Result<ExitStatus> {
        let directory = self.directory();
        let mut init = Command::new("unshare")
            .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .args(["sh", "-c", INIT, "init"])
            .arg(directory)
            .args([NODE_ADDRESS, SERVICES])
            .arg(std::env::current_exe()?)
            .args(args)
            .env(DIRECTORY, directory)
            // What is made inside is removed by us, who can't be killed by what happens inside.
            .env("TMPDIR", directory)
            .stdin(Stdio::piped())
            // Out of reach of Ctrl-C, which reaches us, and through the pipe it.
            .process_group(0)
            .spawn()?;
        // Held until the end: that it closes is what ends it early.
        let _lifeline = init.stdin.take();
        init.wait()
    }
}

/// The name of the control groups that belong to an enclosure's directory.
pub(super) fn group(directory: &Path) -> &OsStr {
    directory.file_name().unwrap_or_default()
}
