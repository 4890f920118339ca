//! Events on a StorageMigration, one at each change of phase.

use kube::Resource;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use super::Cluster;
use crate::api::{State, StorageMigration};
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
        if let Err(error) = self.recorder.publish(&event, &migration.object_ref(&())).await {
            tracing::warn!(error = super::call::chain(&error), "can't write an event");
        }
    }
}

impl std::fmt::Debug for EventWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventWriter").finish_non_exhaustive()
    }
}
