//! The gate that each write passes at the moment in which it leaves. It is open for as long as this process may write.
//!
//! It goes by a clock that runs on while the process is paused or the machine sleeps: a process that wakes up too late finds
//! it shut, before anything in it has noticed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The gate of one process.
#[derive(Clone, Debug)]
pub struct Gate(Arc<AtomicU64>);

/// The gate is shut.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("not sent: this process doesn't lead, or not surely any more")]
pub(super) struct Shut;

/// Nanoseconds of a time that never comes.
const NEVER: u64 = u64::MAX;

impl Gate {
    /// A gate that is open for ever: of a process that shares its work with no other.
    #[must_use]
    pub fn open() -> Self {
        Self(Arc::new(AtomicU64::new(NEVER)))
    }

    /// A gate that is shut until somebody opens it.
    #[must_use]
    pub fn shut() -> Self {
        Self(Arc::new(AtomicU64::new(0)))
    }

    /// Opens it until `deadline`, by [`time`].
    pub fn open_until(&self, deadline: Duration) {
        self.0.store(deadline.as_nanos().try_into().unwrap_or(NEVER), Ordering::Release);
    }

    /// Shuts it.
    pub fn close(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Whether a write may leave now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let deadline = self.0.load(Ordering::Acquire);
        deadline == NEVER || time().as_nanos() < u128::from(deadline)
    }
}

/// The time since the machine started, sleep included.
#[must_use]
pub fn time() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    // It counts sleep there.
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    rustix::time::clock_gettime(clock).try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_open_until_its_deadline_and_not_after() {
        assert!(Gate::open().is_open());
        let gate = Gate::shut();
        assert!(!gate.is_open());
        gate.open_until(time() + Duration::from_mins(1));
        assert!(gate.is_open());
        gate.open_until(time());
        assert!(!gate.is_open());
        gate.open_until(time() + Duration::from_mins(1));
        gate.clone().close();
        assert!(!gate.is_open());
    }
}
