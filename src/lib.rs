//! restow moves the stored objects of a custom resource to its current storage version, proves that it did, and only then
//! drops the old versions from `status.storedVersions` of the CustomResourceDefinition.

pub mod api;
pub mod cli;
pub mod cluster;
pub mod controller;
pub mod engine;
pub mod metrics;
pub mod plan;
