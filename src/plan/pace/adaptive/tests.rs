#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test that can't go on fails")]

mod server;

use std::time::Duration;

use proptest::prelude::*;

use super::{AdaptivePace, Gear, Heard, Latencies};
use crate::plan::{Failure, Outcome};
use server::Server;

const CEILING: u32 = 64;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn adaptive() -> AdaptivePace {
    AdaptivePace::new(Gear::Adaptive, CEILING)
}

#[test]
fn the_first_visits_are_sent_one_at_a_time() {
    let mut server = Server::new(adaptive(), 16, ms(4));
    let seen = server.run_for(ms(150));
    assert_eq!(seen.in_flight_max, 1);
    // From then on it doubles: no more than ten answers, and then twice as many.
    let seen = server.run_for(ms(100));
    assert!((2..=4).contains(&seen.in_flight_max), "{seen:?}");
}

#[test]
fn it_finds_out_what_a_server_can_do() {
    // Workers, what one visit takes, and the rate that is expected at least, of what they could do at most.
    for (workers, takes, share) in [(1, 4, 0.95), (2, 4, 0.95), (16, 4, 0.9), (200, 20, 0.6), (2, 50, 0.95)] {
        let mut server = Server::new(adaptive(), workers, ms(takes));
        server.run_for(Duration::from_secs(8));
        let seen = server.run_for(Duration::from_secs(30));
        let most = f64::from(u32::try_from(workers).unwrap().min(CEILING)) * 1000.0 / takes as f64 * 30.0;
        assert!(seen.answers as f64 >= share * most, "{workers} workers: {seen:?} of {most}");
        // What waits is no more than half of what is worked on, and what one look too late adds.
        let waits = seen.in_flight_max.saturating_sub(u32::try_from(workers).unwrap());
        assert!(waits <= u32::try_from(workers).unwrap() / 2 + 4, "{workers} workers: {seen:?}");
    }
}

#[test]
fn it_comes_down_at_once_when_others_need_the_server_and_goes_up_again() {
    let mut server = Server::new(adaptive(), 16, ms(4));
    let before = server.run_for(Duration::from_secs(5)).in_flight_max;
    assert!(before >= 14, "{before}");
    server.slow_down(8);
    server.run_for(ms(500));
    let seen = server.run_for(Duration::from_secs(4));
    assert!(seen.in_flight_max <= 2, "others need the server: {seen:?}");
    server.slow_down(1);
    let seen = server.run_for(Duration::from_secs(5));
    assert!(seen.in_flight_max >= 14, "they don't any more: {seen:?}");
}

#[test]
fn it_takes_a_slower_server_for_what_it_is_after_two_looks() {
    let mut server = Server::new(adaptive(), 16, ms(4));
    server.run_for(Duration::from_secs(5));
    server.slow_down(4);
    server.run_for(Duration::from_secs(25));
    assert!(server.run_for(Duration::from_secs(9)).in_flight_max >= 14);
}

#[test]
fn overload_halves_it_once_for_all_that_was_under_way() {
    let (mut pace, mut latencies, now) = (at_limit(32), Latencies::default(), ms(500));
    let round = pace.send(now).expect("a place");
    for _ in 0..8 {
        pace.hear(round, &mut latencies, Heard::Overload, now);
    }
    assert_eq!(pace.allowed(), 16);
    let round = pace.send(now).expect("a place");
    pace.hear(round, &mut latencies, Heard::Overload, now);
    assert_eq!(pace.allowed(), 8);
}

#[test]
fn it_does_not_grow_on_what_it_is_not_tried_with() {
    let mut pace = at_limit(8);
    let mut latencies = Latencies::default();
    for n in 0..1000 {
        let now = ms(500 + n);
        let round = pace.send(now).expect("a place");
        pace.end();
        pace.hear(round, &mut latencies, Heard::Rewritten(ms(4)), now);
    }
    assert_eq!(pace.allowed(), 8);
}

#[test]
fn a_visit_that_writes_is_not_slow_because_one_that_does_not_is_fast() {
    let (mut pace, mut latencies) = (at_limit(8), Latencies::default());
    for n in 0..400 {
        let heard = if n < 200 { Heard::Unchanged(ms(1)) } else { Heard::Rewritten(ms(4)) };
        let round = pace.send(ms(500)).expect("a place");
        pace.end();
        pace.hear(round, &mut latencies, heard, ms(500));
    }
    assert_eq!(pace.allowed(), 8);
    // Objects that are a hundred times larger are another migration's, and no reason to hold back either.
    let mut others = Latencies::default();
    for _ in 0..100 {
        let round = pace.send(ms(500)).expect("a place");
        pace.end();
        pace.hear(round, &mut others, Heard::Rewritten(ms(400)), ms(500));
    }
    assert_eq!(pace.allowed(), 8);
}

#[test]
fn after_a_break_it_starts_with_one_again() {
    let mut pace = at_limit(32);
    assert_eq!(pace.allowed(), 32);
    assert!(pace.send(ms(1600)).is_some());
    assert_eq!(pace.allowed(), 1);
}

#[test]
fn now_and_then_one_at_a_time_shows_what_a_visit_takes() {
    let (mut pace, mut now) = (at_limit(32), ms(500));
    while !pace.round.is_lull {
        now += ms(100);
        pace.hear(super::Round::default(), &mut Latencies::default(), Heard::Nothing, now);
        pace.send(now);
        pace.end();
    }
    assert!(now >= Duration::from_secs(10) && pace.allowed() == 1, "{now:?}: {}", pace.allowed());
    pace.send(now + ms(200));
    assert_eq!(pace.allowed(), 32);
}

#[test]
fn visits_that_take_as_long_as_is_tolerated_are_no_reason_to_hold_back() {
    let mut pace = at_limit(32);
    pace.judge(1.0);
    assert_eq!(pace.allowed(), 32);
    assert_eq!(pace.round, at_limit(32).round, "it is no fall");
}

#[test]
fn a_lull_is_judged_by_as_many_as_any_other_round() {
    let mut series = super::Series::default();
    let lull = super::Round { number: 1, is_lull: true };
    for took in [4, 4, 4, 4, 4, 8, 8, 8, 8, 8, 4] {
        series.take_in(lull, ms(took), 10);
    }
    series.close();
    assert_eq!(series.unloaded[0], Some(ms(8)));
}

#[test]
fn a_fixed_pace_is_what_the_limits_say() {
    let (mut pace, mut latencies) = (AdaptivePace::new(Gear::Fixed, 8), Latencies::default());
    for _ in 0..8 {
        let round = pace.send(ms(0)).expect("a place");
        pace.hear(round, &mut latencies, Heard::Overload, ms(0));
    }
    assert_eq!(pace.send(ms(0)), None);
    assert_eq!((pace.allowed(), pace.in_flight()), (8, 8));
}

#[test]
fn what_an_answer_tells_of_the_server() {
    let failed = |code, message: &str| {
        let failure = Failure { code, message: message.to_owned(), ..Failure::default() };
        Heard::of(&Outcome::Deferred(failure), ms(7))
    };
    let asked = Failure { code: Some(500), retry_after: Some(ms(1000)), ..Failure::default() };
    let unreached = Failure { unreached: true, ..Failure::default() };
    let table = [
        ("written", Heard::of(&Outcome::Rewritten("7".to_owned()), ms(7)), Heard::Rewritten(ms(7))),
        ("not written", Heard::of(&Outcome::Unchanged, ms(7)), Heard::Unchanged(ms(7))),
        ("gone", Heard::of(&Outcome::Gone, ms(7)), Heard::Nothing),
        ("refused", Heard::of(&Outcome::Refused(Failure::default()), ms(7)), Heard::Nothing),
        ("conflict", Heard::of(&Outcome::Conflict(Failure::default()), ms(7)), Heard::Nothing),
        ("too many requests", failed(Some(429), "too many requests"), Heard::Overload),
        ("unavailable", failed(Some(503), "unavailable"), Heard::Overload),
        ("timed out at the server", failed(Some(504), "timed out"), Heard::Overload),
        ("asks to wait", Heard::of(&Outcome::Deferred(asked), ms(7)), Heard::Overload),
        ("no answer", failed(None, "no answer within 70 s"), Heard::Overload),
        ("etcd", failed(Some(500), "etcdserver: request timed out"), Heard::Overload),
        ("a webhook", failed(Some(500), "failed calling webhook"), Heard::Nothing),
        ("nobody there", Heard::of(&Outcome::Deferred(unreached), ms(7)), Heard::Nothing),
    ];
    for (case, heard, expected) in table {
        assert_eq!(heard, expected, "{case}");
    }
}

proptest! {
    #[test]
    fn it_stays_between_one_and_the_ceiling(
        ceiling in 1_u32..40,
        steps in prop::collection::vec((0_u8..6, 0_u64..3000), 1..400),
    ) {
        let mut pace = AdaptivePace::new(Gear::Adaptive, ceiling);
        let (mut latencies, mut now, mut sent) = (Latencies::default(), Duration::ZERO, Vec::new());
        for (what, by) in steps {
            now += ms(by / 10);
            match what {
                0..=2 => sent.extend(pace.send(now)),
                _ => if let Some(round) = sent.pop() {
                    let heard = match what {
                        3 => Heard::Rewritten(ms(by)),
                        4 => Heard::Unchanged(ms(by % 7)),
                        _ => Heard::Overload,
                    };
                    pace.hear(round, &mut latencies, heard, now);
                    pace.end();
                }
            }
            prop_assert!((1..=ceiling).contains(&pace.allowed()));
            prop_assert!(pace.in_flight() as usize == sent.len() && pace.in_flight() <= ceiling);
        }
        // Whatever has happened, it never stands still.
        sent.drain(..).for_each(|_| pace.end());
        prop_assert!(pace.send(now).is_some());
    }
}

/// A pace that allows so many, half a second after it started.
fn at_limit(limit: u32) -> AdaptivePace {
    let (mut pace, mut latencies) = (adaptive(), Latencies::default());
    let mut now = ms(0);
    while pace.allowed() < limit {
        now += ms(1);
        let rounds: Vec<_> = std::iter::from_fn(|| pace.send(now)).collect();
        for round in rounds {
            pace.hear(round, &mut latencies, Heard::Rewritten(ms(4)), now);
            pace.end();
        }
    }
    assert!(pace.allowed() == limit && now < ms(500), "{} at {now:?}", pace.allowed());
    pace.hear(super::Round::default(), &mut latencies, Heard::Nothing, ms(500));
    pace
}
