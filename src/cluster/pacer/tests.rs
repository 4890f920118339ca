#![expect(clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::{Gear, Pacer, Rate, locked};
use crate::plan::{Heard, Latencies, Limits};

const ANSWER_TIME: Duration = Duration::from_millis(4);

/// One migration: its own rate, and how many visits it has under way at most.
#[derive(Clone, Copy)]
struct Migration {
    rate: u32,
    in_flight: usize,
}

const UNBOUNDED: Migration = Migration { rate: 0, in_flight: 100 };

/// A pacer with so many writes a second and so many at once.
fn pacer(writes_per_second: u32, max_in_flight: u32, gear: Gear) -> Arc<Pacer> {
    let max_in_flight = NonZeroU32::new(max_in_flight).expect("one or more");
    let limits =
        Limits { writes_per_second: NonZeroU32::new(writes_per_second), max_in_flight, page_size: 500 };
    Arc::new(Pacer::new(limits, gear))
}

/// Has one migration write for so long. Says when it has.
async fn write(pacer: Arc<Pacer>, migration: Migration, time: Duration) -> Vec<Instant> {
    let own = Rate::new(NonZeroU32::new(migration.rate));
    let room = Arc::new(Semaphore::new(migration.in_flight));
    let latencies = Arc::new(Mutex::new(Latencies::default()));
    let (mut written, end) = (Vec::new(), Instant::now() + time);
    while Instant::now() < end {
        let place = Arc::clone(&room).acquire_owned().await;
        let permit = pacer.permit(&own).await;
        written.push(Instant::now());
        let latencies = Arc::clone(&latencies);
        tokio::spawn(async move {
            sleep(ANSWER_TIME).await;
            permit.hear(&mut locked(&latencies), Heard::Rewritten(ANSWER_TIME));
            drop((place, permit));
        });
    }
    written
}

/// Has all of them write at the same time.
async fn write_all(pacer: &Arc<Pacer>, migrations: &[Migration], time: Duration) -> Vec<Vec<Instant>> {
    let begin = |migration: &Migration| tokio::spawn(write(Arc::clone(pacer), *migration, time));
    let mut all = Vec::new();
    for task in migrations.iter().map(begin).collect::<Vec<_>>() {
        all.push(task.await.expect("no panic"));
    }
    all
}

/// Asserts that no second has more of the moments than that.
fn assert_most(moments: &[Instant], count_max: usize) {
    for window in moments.windows(count_max + 1) {
        let within = window[count_max] - window[0];
        assert!(within >= Duration::from_secs(1), "{} within {within:?}", count_max + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn in_no_second_is_more_written_than_the_ceiling_says() {
    for rate in [1, 7, 100, 560, 3000] {
        for gear in [Gear::Fixed, Gear::Adaptive] {
            let pacer = pacer(rate, 64, gear);
            let written = write_all(&pacer, &[UNBOUNDED; 3], Duration::from_secs(5)).await;
            let mut written = written.concat();
            written.sort();
            assert_most(&written, rate as usize);
            let least = if rate > 1000 { 0.8 } else { 0.95 } * 5.0 * f64::from(rate);
            assert!(written.len() as f64 >= least, "{} at {rate} a second", written.len());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_could_have_been_written_before_is_not_made_up_for() {
    let pacer = pacer(100, 64, Gear::Fixed);
    sleep(Duration::from_mins(10)).await;
    assert_most(&write(pacer, UNBOUNDED, Duration::from_secs(3)).await, 100);
}

#[tokio::test(start_paused = true)]
async fn a_pace_of_its_own_holds_for_a_migration_in_every_second() {
    let own = Migration { rate: 10, in_flight: 100 };
    let written = write_all(&pacer(0, 8, Gear::Adaptive), &[own, UNBOUNDED], Duration::from_secs(5)).await;
    assert_most(&written[0], 10);
    assert!((47..=51).contains(&written[0].len()), "{}", written[0].len());
}

#[tokio::test(start_paused = true)]
async fn migrations_take_turns_and_leave_what_they_have_no_use_for_to_the_others() {
    let slow = Migration { rate: 10, in_flight: 100 };
    let narrow = Migration { rate: 0, in_flight: 1 };
    let time = Duration::from_secs(10);
    for gear in [Gear::Fixed, Gear::Adaptive] {
        // By places: eight, each for 4 ms. By rate: a hundred a second.
        for (rate, in_flight) in [(0, 8), (100, 8)] {
            let pacer = pacer(rate, in_flight, gear);
            let all = write_all(&pacer, &[slow, UNBOUNDED, narrow, UNBOUNDED, UNBOUNDED], time).await;
            let [slow, first, narrow, others @ ..] = all.as_slice() else { panic!("five migrations") };
            let share = first.len() as f64;
            for other in others {
                assert!((other.len() as f64 / share - 1.0).abs() < 0.03, "{} of {share}", other.len());
            }
            // It waits for its turn after its own pace: four others' turns, of ten milliseconds each at most.
            assert!((70..=101).contains(&slow.len()), "{} by the slow one", slow.len());
            assert!(narrow.len() as f64 <= share * 1.03, "{} by the narrow one", narrow.len());
            let all: usize = all.iter().map(Vec::len).sum();
            let most = if rate == 0 { 20_000 } else { 1000 };
            assert!(all as f64 >= 0.95 * f64::from(most), "{all} of {most}: a share was not used");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_no_longer_has_used_up_nothing() {
    let (pacer, own) = (pacer(10, 1, Gear::Fixed), Rate::new(NonZeroU32::new(10)));
    let held = pacer.permit(&own).await;
    for _ in 0..50 {
        let waiting = timeout(Duration::from_millis(30), pacer.permit(&own));
        assert!(waiting.await.is_err(), "there is one place");
    }
    drop(held);
    let now = Instant::now();
    let permit = pacer.permit(&own).await;
    assert_eq!(now.elapsed(), Duration::ZERO);
    assert_eq!(pacer.in_flight(), 1);
    drop(permit);
    assert_eq!(pacer.in_flight(), 0);
}
