//! Writes one after another, so many a second at most.

use std::num::NonZeroU32;
use std::time::Duration;

/// So much a write may be late without the next one being late as well: the timer of the runtime counts milliseconds.
const LATENESS: Duration = Duration::from_millis(2);

/// When the next write may be sent (the generic cell rate algorithm, ITU-T I.371).
///
/// In no second are there more than the rate says: of any `rate + 1` in a row the last is sent a second or more after the first.
#[derive(Clone, Copy, Debug)]
pub struct Spacing {
    apart: Duration,
    on_time_at: Duration,
}

impl Spacing {
    /// So many a second.
    #[must_use]
    pub fn new(per_second: NonZeroU32) -> Self {
        // What lateness may bring closer together is added before.
        let second = Duration::from_secs(1) + LATENESS;
        let apart = second.as_nanos().div_ceil(per_second.get().into());
        Self { apart: Duration::from_nanos_u128(apart), on_time_at: Duration::ZERO }
    }

    /// How long there is to wait.
    #[must_use]
    pub fn wait(&self, now: Duration) -> Duration {
        self.on_time_at.saturating_sub(LATENESS).saturating_sub(now)
    }

    /// Takes in that one is sent, for which there was nothing to wait any more.
    pub fn send(&mut self, now: Duration) {
        self.on_time_at = self.on_time_at.max(now) + self.apart;
    }
}
