use std::time::Duration;

use super::Health;
use crate::plan::sample::{asks_to_wait, failure};

/// What the target answers, and when, in seconds.
#[derive(Clone, Copy)]
enum Answer {
    Good,
    /// One visit fails.
    Visit,
    /// One visit fails and the server asks to wait so many seconds.
    VisitAsks(u64),
    /// A request for the whole target fails.
    Request,
}

/// What happened, and the second until which the target is left alone.
type Row<'a> = (&'a str, &'a [(u64, Answer)], Option<u64>);

fn after(answers: &[(u64, Answer)]) -> Health {
    let mut health = Health::default();
    for &(at, answer) in answers {
        let now = Duration::from_secs(at);
        match answer {
            Answer::Good => health.succeeded(),
            Answer::Visit => health.visit_failed(&failure(500, "down"), now),
            Answer::VisitAsks(secs) => health.visit_failed(&asks_to_wait(503, secs), now),
            Answer::Request => health.request_failed(&failure(500, "down"), now),
        }
    }
    health
}

#[test]
fn a_target_is_left_alone_until() {
    use Answer::{Good, Request, Visit, VisitAsks};
    let table: [Row<'_>; 15] = [
        ("nothing failed", &[], None),
        ("one failure between successes holds nothing", &[(10, Good), (10, Visit), (10, Good)], None),
        ("two failures in a row hold nothing", &[(10, Visit), (10, Visit)], None),
        (
            "two, a success, and two more hold nothing",
            &[(9, Visit), (9, Visit), (9, Good), (9, Visit), (9, Visit)],
            None,
        ),
        ("three in a row hold for a second", &[(10, Visit), (10, Visit), (10, Visit)], Some(11)),
        ("failures that were in flight together are one round", &[(10, Visit); 20], Some(11)),
        ("one request for the target holds at once", &[(10, Request)], Some(11)),
        ("the second round holds for two seconds", &[(10, Request), (11, Request)], Some(13)),
        ("the third for four", &[(10, Request), (11, Request), (13, Request)], Some(17)),
        ("a single failure is enough for the next round", &[(10, Request), (11, Visit)], Some(13)),
        (
            "a success starts the rounds over",
            &[(10, Request), (11, Request), (13, Good), (13, Request)],
            Some(14),
        ),
        ("Retry-After holds at once and for as long as asked", &[(10, VisitAsks(7))], Some(17)),
        (
            "a Retry-After shorter than the own wait doesn't shorten it",
            &[(0, Request), (1, Request), (3, VisitAsks(1))],
            Some(7),
        ),
        ("a Retry-After during a wait makes it longer", &[(10, Request), (10, VisitAsks(5))], Some(15)),
        ("Retry-After is capped at ten minutes", &[(10, VisitAsks(86_400))], Some(610)),
    ];
    for (case, answers, until) in table {
        let health = after(answers);
        let last = answers.last().map_or(0, |(at, _)| *at);
        let held = health.held(Duration::from_secs(last)).map(|(wait, _)| last + wait.as_secs());
        assert_eq!(held, until, "{case}");
        if let Some(until) = until {
            assert!(health.held(Duration::from_secs(until)).is_none(), "{case}: it is over then");
        }
    }
}

#[test]
fn waits_double_up_to_a_minute() {
    let mut health = Health::default();
    let mut now = Duration::ZERO;
    let waits: Vec<u64> = (0..9)
        .map(|_| {
            health.request_failed(&failure(500, "down"), now);
            let wait = health.held(now).map(|(wait, _)| wait).unwrap_or_default();
            now += wait;
            wait.as_secs()
        })
        .collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
}

#[test]
fn what_the_server_said_is_told() {
    let health = after(&[(0, Answer::Request)]);
    assert_eq!(health.held(Duration::ZERO).map(|(_, said)| said), Some("500: down"));
}

#[test]
fn a_target_is_doubtful_from_a_hold_to_the_next_success() {
    use Answer::{Good, Visit};
    assert!(!after(&[(0, Visit), (0, Visit)]).is_doubtful());
    assert!(after(&[(0, Visit), (0, Visit), (0, Visit)]).is_doubtful());
    assert!(!after(&[(0, Visit), (0, Visit), (0, Visit), (0, Good)]).is_doubtful());
}
