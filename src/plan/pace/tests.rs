#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;

use super::{Limits, Spacing};
use crate::api::{Pace, StorageMigrationSpec};
use crate::plan::sample::spec;

fn limits(writes_per_second: u32) -> Limits {
    Limits {
        writes_per_second: NonZeroU32::new(writes_per_second),
        max_in_flight: NonZeroU32::MIN.saturating_add(7),
        page_size: 500,
    }
}

#[test]
fn the_lower_of_the_two_limits_holds() {
    let pace = |writes_per_second, max_in_flight| Some(Pace { writes_per_second, max_in_flight });
    let table = [
        ("neither sets a rate", 0, None, None, 8),
        ("the process sets one", 100, None, Some(100), 8),
        ("the migration sets one", 0, pace(Some(50), None), Some(50), 8),
        ("the migration's is lower", 100, pace(Some(50), Some(2)), Some(50), 2),
        ("the migration's is higher", 100, pace(Some(500), Some(64)), Some(100), 8),
        ("a nought is no limit", 100, pace(Some(0), Some(0)), Some(100), 8),
    ];
    for (case, process, pace, rate, in_flight) in table {
        let limits = limits(process);
        assert_eq!(limits.writes_per_second(pace.as_ref()).map(NonZeroU32::get), rate, "{case}");
        assert_eq!(limits.max_in_flight(pace.as_ref()), in_flight, "{case}");
    }
}

#[test]
fn a_page_is_no_larger_than_asked_for_and_than_ten_seconds_of_writes() {
    let table = [
        ("the spec doesn't say", 0, None, 500),
        ("the spec says", 0, Some(50), 50),
        ("the spec asks for too much", 0, Some(1_000_000), 2000),
        ("the spec asks for nothing", 0, Some(0), 1),
        ("ten seconds at 10 a second", 10, None, 100),
        ("the slowest pace", 1, None, 10),
        ("a pace that is no limit", u32::MAX, None, 500),
    ];
    for (case, rate, page_size, expected) in table {
        let spec = StorageMigrationSpec { page_size, ..spec() };
        assert_eq!(limits(rate).page_size(&spec), expected, "{case}");
    }
}

proptest! {
    #[test]
    fn in_no_second_is_more_sent_than_the_rate_says(
        rate in 1_u32..3000,
        late_micros in prop::collection::vec(0_u64..5000, 1..3000),
    ) {
        let mut spacing = Spacing::new(NonZeroU32::new(rate).unwrap());
        let (mut now, mut sent) = (Duration::ZERO, Vec::new());
        for late in late_micros {
            now += spacing.wait(now) + Duration::from_micros(late);
            prop_assert_eq!(spacing.wait(now), Duration::ZERO);
            spacing.send(now);
            sent.push(now);
        }
        for window in sent.windows(rate as usize + 1) {
            prop_assert!(window[rate as usize] >= window[0] + Duration::from_secs(1));
        }
    }
}
