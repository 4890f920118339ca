//! The flags of pace, shared by the controller and the one-shot command.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::{ArgAction, Args};
use jiff::SignedDuration;

use crate::api::{PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX};
use crate::cluster::Pacer;
use crate::plan::{Gear, Limits};

/// How fast, and how long to wait after the storage version moved.
#[derive(Clone, Debug, Args)]
pub(super) struct PaceArgs {
    /// The most writes a second, over all migrations; 0 means no limit
    #[arg(long, value_name = "N", env = "RESTOW_WRITES_PER_SECOND", default_value_t = 100)]
    writes_per_second: u32,

    /// The most writes under way at once, over all migrations, 1 to 256
    #[arg(long, value_name = "N", env = "RESTOW_MAX_IN_FLIGHT", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    max_in_flight: u32,

    /// Whether fewer writes are under way while the API server answers slowly or asks for patience; with false always as many
    /// as the limits say
    #[arg(long, value_name = "BOOL", env = "RESTOW_ADAPTIVE_PACE", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    adaptive_pace: bool,

    /// Objects asked for with one list request, 1 to 2000, where a StorageMigration doesn't say
    #[arg(long, value_name = "N", env = "RESTOW_PAGE_SIZE", default_value_t = PAGE_SIZE_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE_SIZE_MAX)))]
    page_size: u32,

    /// How long after the storage version moved no object is written, since API servers may still write the old version:
    /// their request timeout (60s), short pauses (20s) and a margin; for example 85s or 2m
    #[arg(long, value_name = "DURATION", env = "RESTOW_SETTLE", default_value = "85s", value_parser = duration)]
    settle: Duration,
}

impl PaceArgs {
    fn limits(&self) -> Limits {
        Limits {
            writes_per_second: NonZeroU32::new(self.writes_per_second),
            max_in_flight: NonZeroU32::new(self.max_in_flight).unwrap_or(NonZeroU32::MIN),
            page_size: self.page_size,
        }
    }

    pub(super) fn pacer(&self) -> Pacer {
        Pacer::new(self.limits(), if self.adaptive_pace { Gear::Adaptive } else { Gear::Fixed })
    }

    pub(super) fn settle(&self) -> Duration {
        self.settle
    }
}

/// Reads a duration as people write it.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let signed: SignedDuration =
        text.parse().map_err(|_| "expected a duration such as 30s, 5m or 1h30m".to_owned())?;
    signed.try_into().map_err(|_| "a duration can't be negative".to_owned())
}
