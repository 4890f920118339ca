//! A point in time, handed in by whoever has a clock. Nothing in `plan` reads one.

use std::time::Duration;

use jiff::Timestamp;

/// When a decision is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// What the wall clock says: for timestamps that people and servers read.
    pub wall: Timestamp,
    /// How long this process has run, by a clock that never jumps: for waiting.
    pub uptime: Duration,
}
