//! The only clock that decisions are made by.

use std::time::Instant;

use jiff::Timestamp;

use crate::plan::Moment;

/// Tells the time since this process started.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// Now.
    #[must_use]
    pub fn now(self) -> Moment {
        Moment { wall: Timestamp::now(), uptime: self.started.elapsed() }
    }
}
