//! The arithmetic of pace: how fast, how many at once, how much in one page. Keeping to it lives in `cluster::pacer`.

mod adaptive;
mod spacing;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;

use crate::api::{Pace, StorageMigrationSpec};

pub use adaptive::{AdaptivePace, Gear, Heard, Latencies, Round};
pub use spacing::Spacing;

/// How long one page may take at the pace set, in seconds: what a restart repeats at most.
const PAGE_TIME_SECS: u32 = 10;

/// The limits of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Writes a second over all migrations; `None` is no limit.
    pub writes_per_second: Option<NonZeroU32>,
    /// Writes under way at once, over all migrations.
    pub max_in_flight: NonZeroU32,
    /// Objects asked for with one list request, where the spec doesn't say.
    pub page_size: u32,
}

impl Limits {
    /// The writes a second that one migration may make: the lower of the two limits.
    #[must_use]
    pub fn writes_per_second(&self, pace: Option<&Pace>) -> Option<NonZeroU32> {
        let own = pace.and_then(|p| p.writes_per_second).and_then(NonZeroU32::new);
        match (own, self.writes_per_second) {
            (Some(own), Some(limit)) => Some(own.min(limit)),
            (own, limit) => own.or(limit),
        }
    }

    /// The writes that one migration may have under way at once: the lower of the two limits.
    #[must_use]
    pub fn max_in_flight(&self, pace: Option<&Pace>) -> usize {
        let own = pace.and_then(|p| p.max_in_flight).and_then(NonZeroU32::new);
        own.map_or(self.max_in_flight, |own| own.min(self.max_in_flight)).get() as usize
    }

    /// How many objects to ask for: what the spec or this process says, but no more than can be visited in ten seconds.
    #[must_use]
    pub fn page_size(&self, spec: &StorageMigrationSpec) -> u32 {
        let by_pace = self
            .writes_per_second(spec.pace.as_ref())
            .map_or(u32::MAX, |rate| rate.get().saturating_mul(PAGE_TIME_SECS));
        spec.page_size.unwrap_or(self.page_size).clamp(1, crate::api::PAGE_SIZE_MAX).min(by_pace)
    }
}
