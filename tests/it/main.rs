//! restow against a real kube-apiserver and etcd. Files are named by what they prove; etcd is the oracle.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops at the first thing that is not as it should be"
)]

mod adaptive_pace;
mod begun;
mod builtin;
mod ca_bundle;
mod chaos;
mod chart;
mod delete;
mod docs;
mod drain;
mod elected_outages;
mod faults;
mod field_access;
mod field_conversion;
mod field_gitops;
mod field_lists;
mod field_loss;
mod field_pace;
mod field_paging;
mod field_process;
mod field_refusals;
mod field_start;
mod field_status;
mod field_stored_versions;
mod field_target;
mod field_trim;
mod field_writes;
mod flow_control;
mod generated;
mod gitops;
mod health;
mod history;
mod image;
mod kills;
mod kubectl;
mod layering;
mod leadership;
mod leftovers;
mod managed_fields;
mod manifests;
mod migrates;
mod misuse;
mod monitoring;
mod oneshot;
mod operations;
mod outages;
mod own_kind;
mod policy;
mod rbac;
mod releases;
mod restarts;
mod rivals;
mod scene;
mod second_run;
mod servers;
mod spec_rules;
mod status_writes;
mod suspend;
mod trims;
mod unreadable;
mod values_table;
mod watches;
mod webhook;
