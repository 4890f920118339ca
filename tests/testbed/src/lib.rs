//! The test bench of restow: a real control plane on loopback and what tests need around it.
//!
//! Real etcd, real kube-apiserver: there is no fake of either here. Nothing in this crate knows restow's own code;
//! it runs the binary it is given and looks at what the server and etcd hold afterwards.
//!
//! - [`binaries`]: where the control plane's programs come from
//! - [`process`]: child processes that never outlive the run
//! - [`control_plane`]: one etcd and one kube-apiserver, started, stopped, restarted
//! - [`etcd`]: the oracle, what is really stored
//! - [`audit`]: what was asked of the API server, and by whom
//! - [`access`]: the shipped RBAC, as a cluster would have it
//! - [`proxy`]: what may go wrong between the product and the API server
//! - [`restow`]: the product's binary, run under that RBAC
//! - [`rights`]: what the product asked for, against what it was granted
//! - [`crd`]: the CustomResourceDefinitions to migrate, and what an administrator does to them
//! - [`objects`]: objects of those, made, changed and compared
//! - [`webhook`]: a conversion webhook and an admission webhook, with faults
//! - [`judge`]: what tools make of an object
//! - [`node`]: a real cluster of one node, in namespaces of its own
//! - [`image`]: container images, built without a daemon
//! - [`demo`]: one migration to watch, and to check
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a test that finds its bench broken has nothing better to do than to stop and say where"
)]

pub mod access;
pub mod audit;
pub mod binaries;
pub mod control_plane;
pub mod crd;
pub mod demo;
pub mod etcd;
pub mod image;
pub mod judge;
pub mod node;
pub mod objects;
pub mod process;
pub mod proxy;
pub mod restow;
pub mod rights;
pub mod webhook;
mod workdir;
