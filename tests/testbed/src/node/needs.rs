//! What the machine must have for a node, beside what is built: root's rights, and programs of the distribution.

use std::path::Path;

/// The programs, and the Debian package that each is from.
const PROGRAMS: [(&str, &str); 8] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("buildah", "buildah"),
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("mount", "mount"),
];
/// The network plugins that are used.
const PLUGINS: [&str; 3] = ["bridge", "host-local", "loopback"];
/// Where Debian has them.
pub(super) const PLUGIN_DIRECTORY: &str = "/usr/lib/cni";

/// Why no node can be started here.
#[derive(Debug, thiserror::Error)]
pub enum Lack {
    /// Namespaces and control groups are root's.
    #[error("a node needs root: run this as root")]
    Root,
    /// Programs are missing.
    #[error(
        "a node needs {}: apt-get install --no-install-recommends {}",
        programs.join(", "), packages.join(" ")
    )]
    Programs {
        /// Their names.
        programs: Vec<&'static str>,
        /// The Debian packages that have them.
        packages: Vec<&'static str>,
    },
}

/// Looks whether all is there.
///
/// # Errors
/// If something is missing.
pub fn check() -> Result<(), Lack> {
    if !rustix::process::geteuid().is_root() {
        return Err(Lack::Root);
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let on_path = |program: &str| std::env::split_paths(&paths).any(|path| path.join(program).is_file());
    let programs = PROGRAMS.into_iter().filter(|(program, _)| !on_path(program));
    let has_plugin = |plugin: &str| Path::new(PLUGIN_DIRECTORY).join(plugin).is_file();
    let plugins = PLUGINS.into_iter().filter(|plugin| !has_plugin(plugin));
    let lacking: Vec<_> =
        programs.chain(plugins.map(|plugin| (plugin, "containernetworking-plugins"))).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<_> = lacking.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    Err(Lack::Programs { programs: lacking.into_iter().map(|(program, _)| program).collect(), packages })
}
