//! What of the machine a node could change, and must not.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// Settings of the whole machine that a kubelet or kube-proxy would change.
const SETTINGS: [&str; 6] = [
    "vm/overcommit_memory",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/forwarding",
    "net/ipv4/conf/all/route_localnet",
];

/// The machine as it is. Two looks are equal if a node left nothing behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    mounts: BTreeSet<String>,
    interfaces: BTreeSet<String>,
    network_namespaces: BTreeSet<String>,
    control_groups: BTreeSet<PathBuf>,
    settings: BTreeMap<&'static str, String>,
}

impl Machine {
    /// Looks at it.
    ///
    /// # Errors
    /// If `/proc` or `/sys` can't be read.
    pub fn look() -> io::Result<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts")?;
        let mut control_groups = BTreeSet::new();
        for hierarchy in cgroup_hierarchies()? {
            let names = names_in(&hierarchy)?;
            control_groups.extend(names.iter().map(|name| hierarchy.join(name)).filter(|path| path.is_dir()));
        }
        let read = |setting| {
            let text = std::fs::read_to_string(Path::new("/proc/sys").join(setting));
            (setting, text.unwrap_or_default())
        };
        Ok(Self {
            mounts: mounts.lines().map(str::to_owned).collect(),
            interfaces: names_in(Path::new("/sys/class/net"))?,
            network_namespaces: names_in(Path::new("/run/netns")).unwrap_or_default(),
            control_groups,
            settings: SETTINGS.into_iter().map(read).collect(),
        })
    }
}

/// The processes whose command line names a directory.
///
/// # Errors
/// If `/proc` can't be read.
pub fn processes_of(directory: &Path) -> io::Result<Vec<String>> {
    let wanted = directory.to_string_lossy();
    let command = |pid: String| {
        // Those that are no process, or end while we look, have none.
        let line = std::fs::read(Path::new("/proc").join(pid).join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).replace('\0', " ")
    };
    let commands = names_in(Path::new("/proc"))?.into_iter().map(command);
    Ok(commands.filter(|command| command.contains(&*wanted)).collect())
}

/// Where the hierarchies of control groups are mounted: one with version 2, several with version 1.
pub(super) fn cgroup_hierarchies() -> io::Result<Vec<PathBuf>> {
    let mounts = std::fs::read_to_string("/proc/self/mounts")?;
    let of_groups = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (path, kind) = (words.next()?, words.next()?);
        matches!(kind, "cgroup" | "cgroup2").then(|| PathBuf::from(path))
    });
    Ok(of_groups.collect())
}

fn names_in(directory: &Path) -> io::Result<BTreeSet<String>> {
    std::fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}
