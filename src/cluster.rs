//! Everything that talks to an API server. What the answers mean is decided in `plan`.
//!
//! Every request here is sent once: kube's own retries are left out (`wire`), so that each 429 and each 503 is seen by the
//! engine, which slows down as a whole.

mod access;
mod call;
mod connect;
mod crds;
mod events;
mod gate;
mod leases;
mod leftovers;
mod losses;
mod managed_fields;
mod migrations;
mod migrators;
mod objects;
mod own_lease;
mod pacer;
mod seal_key;
mod slim_crd;
mod wire;

pub use call::chain;
pub use connect::{Cluster, ConnectError};
pub use crds::{LiveCrd, Trimmed};
pub use events::EventWriter;
pub use gate::{Gate, time};
pub use leftovers::MentionsPage;
pub use migrations::StatusWritten;
pub use own_lease::OwnLease;
pub use pacer::{Pacer, Permit, Rate};
pub use seal_key::SealKey;
pub use slim_crd::SlimCrd;

pub use kube::runtime::watcher::Error as WatchError;

/// What restow is called in `managedFields`.
const FIELD_MANAGER: &str = "restow";
