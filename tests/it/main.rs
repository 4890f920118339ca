//! restow against a real kube-apiserver and etcd. Files are named by what they prove; etcd is the oracle.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops at the first thing that is not as it should be"
)]

mod delete;
mod docs;
mod drain;
mod generated;
mod kubectl;
mod layering;
mod migrates;
mod oneshot;
mod policy;
mod rivals;
mod scene;
mod second_run;
mod spec_rules;
mod suspend;
mod watches;
mod webhook;
