//! The three conditions and how a reason turns into them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{Reason, State};

/// The longest message of a condition, in bytes; the API allows 32 KiB (k8s.io/apimachinery `Condition`).
const MESSAGE_MAX: usize = 4096;

/// The types of conditions that a StorageMigration has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionType {
    /// Whether every object is migrated; Unknown while that is being found out.
    Succeeded,
    /// Present and True while restow works on it.
    Reconciling,
    /// Present and True while somebody has to act.
    Stalled,
}

impl ConditionType {
    /// The word itself.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "Succeeded",
            Self::Reconciling => "Reconciling",
            Self::Stalled => "Stalled",
        }
    }
}

/// The conditions of a status, read and written as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Conditions;

impl Conditions {
    /// The conditions that say `reason`, with the transition times of `before` kept where a status stays the same.
    #[must_use]
    pub fn build(
        before: &[Condition],
        reason: Reason,
        message: &str,
        generation: i64,
        now: Timestamp,
    ) -> Vec<Condition> {
        let rows: &[(ConditionType, &str)] = match reason.state() {
            State::Done => &[(ConditionType::Succeeded, "True")],
            State::Working => &[(ConditionType::Succeeded, "Unknown"), (ConditionType::Reconciling, "True")],
            State::Stalled => &[(ConditionType::Succeeded, "False"), (ConditionType::Stalled, "True")],
        };
        rows.iter()
            .map(|&(type_, status)| Condition {
                type_: type_.as_str().to_owned(),
                status: status.to_owned(),
                reason: reason.as_str().to_owned(),
                message: cut(message, MESSAGE_MAX).to_owned(),
                observed_generation: Some(generation),
                last_transition_time: before
                    .iter()
                    .find(|c| c.type_ == type_.as_str() && c.status == status)
                    .map_or(Time(now), |c| c.last_transition_time.clone()),
            })
            .collect()
    }

    /// The reason that the conditions give, if restow wrote them.
    #[must_use]
    pub fn reason(conditions: &[Condition]) -> Option<Reason> {
        let succeeded = conditions.iter().find(|c| c.type_ == ConditionType::Succeeded.as_str())?;
        Reason::ALL.into_iter().find(|r| r.as_str() == succeeded.reason)
    }
}

/// The longest start of `text` that has at most `bytes_max` bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
