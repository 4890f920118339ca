//! Events on a StorageMigration, one at each change of phase, and one on a CRD that was trimmed.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use super::{Cluster, SlimCrd};
use crate::api::{State, StorageMigration, TargetStatus};
use crate::plan::Finding;

/// The longest note of an event, in bytes (k8s.io/kubernetes `pkg/apis/core/validation`, `NoteLengthLimit`).
const NOTE_MAX: usize = 1024;

/// Writes events.
#[derive(Clone)]
pub struct EventWriter {
    recorder: Recorder,
}

impl EventWriter {
    /// A writer of events in the name of this process.
    #[must_use]
    pub fn new(cluster: &Cluster, instance: Option<String>) -> Self {
        let reporter = Reporter { controller: "restow".to_owned(), instance };
        Self { recorder: Recorder::new(cluster.client(), reporter) }
    }

    /// Writes that `migration` has come to `finding`. A failure is logged and otherwise without consequence.
    ///
    /// # Access
    /// `create` and `patch` on `events` of `events.k8s.io`.
    pub async fn write(&self, migration: &StorageMigration, finding: &Finding) {
        let Finding { reason, message } = finding;
        let event = Event {
            type_: match reason.state() {
                State::Done | State::Working => EventType::Normal,
                State::Stalled => EventType::Warning,
            },
            reason: reason.to_string(),
            note: Some(message[..message.floor_char_boundary(NOTE_MAX)].to_owned()),
            action: "Migrate".to_owned(),
            secondary: None,
        };
        self.publish(&event, &migration.object_ref(&())).await;
    }

    /// Writes on the CRD called `name` that old versions were dropped from its `storedVersions`. A failure is logged and
    /// otherwise without consequence.
    ///
    /// # Access
    /// `create` and `patch` on `events` of `events.k8s.io`.
    pub async fn write_trimmed(&self, name: &str, target: &TargetStatus) {
        let (before, after) =
            (target.stored_versions_before.join(", "), target.stored_versions_after.join(", "));
        let note =
            format!("status.storedVersions was {before} and is {after}: every object is stored in {after}");
        let event = Event {
            type_: EventType::Normal,
            reason: "StoredVersionsTrimmed".to_owned(),
            note: Some(note[..note.floor_char_boundary(NOTE_MAX)].to_owned()),
            action: "Trim".to_owned(),
            secondary: None,
        };
        let crd = ObjectReference {
            api_version: Some(SlimCrd::api_version(&()).into_owned()),
            kind: Some(SlimCrd::kind(&()).into_owned()),
            name: Some(name.to_owned()),
            uid: Some(target.crd_uid.clone()),
            ..ObjectReference::default()
        };
        self.publish(&event, &crd).await;
    }

    async fn publish(&self, event: &Event, about: &ObjectReference) {
        if let Err(error) = self.recorder.publish(event, about).await {
            tracing::warn!(error = super::call::chain(&error), "can't write an event");
        }
    }
}

impl std::fmt::Debug for EventWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventWriter").finish_non_exhaustive()
    }
}
