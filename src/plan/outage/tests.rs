use std::time::Duration;

use super::Outage;
use crate::plan::Failure;
use crate::plan::sample::failure;

const NO_SPACE: &str = "etcdserver: mvcc: database space exceeded";

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn gone() -> Failure {
    Failure { message: "Connection refused".to_owned(), unreached: true, ..Failure::default() }
}

fn out(failure: &Failure) -> Outage {
    let mut outage = Outage::default();
    outage.failed(failure, secs(10));
    outage
}

#[test]
fn all_wait_ever_longer_and_one_at_a_time_tries() {
    let mut outage = out(&failure(500, NO_SPACE));
    let mut waits = Vec::new();
    let mut now = secs(10);
    for _ in 0..8 {
        let Some((wait, said)) = outage.held("a", now) else { break };
        assert!(said.contains("space exceeded"), "{said}");
        assert_eq!(outage.held("b", now).map(|(wait, _)| wait), Some(wait));
        assert!(!outage.try_by("a", now), "not before its time");
        waits.push(wait.as_secs());
        now += wait;
        assert!(outage.try_by("a", now) && outage.try_by("a", now));
        assert!(!outage.try_by("b", now), "another one tries already");
        assert_eq!(outage.held("b", now).map(|(wait, _)| wait), Some(secs(5)));
        outage.failed(&failure(500, NO_SPACE), now);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    outage.stored();
    assert!(outage.held("b", now).is_none() && outage.try_by("b", now) && outage.try_by("a", now));
}

#[test]
fn what_failed_together_is_one_round() {
    let mut outage = out(&gone());
    for _ in 0..20 {
        outage.failed(&gone(), secs(10));
    }
    assert_eq!(outage.held("a", secs(10)).map(|(wait, _)| wait), Some(secs(1)));
}

#[test]
fn one_that_rests_or_is_silent_for_long_lets_another_try() {
    let mut outage = out(&gone());
    assert!(outage.try_by("a", secs(11)));
    outage.rests("b");
    assert!(!outage.try_by("b", secs(12)));
    outage.rests("a");
    assert!(outage.try_by("b", secs(12)));
    assert!(!outage.try_by("a", secs(131)));
    assert!(outage.try_by("a", secs(132)));
    assert!(outage.lasts() && !outage.try_by("b", secs(133)), "nobody was answered");
}

#[test]
fn one_that_went_on_before_it_began_has_no_turn_in_it() {
    let mut outage = Outage::default();
    assert!(outage.try_by("a", secs(5)));
    outage.failed(&gone(), secs(10));
    assert!(outage.try_by("b", secs(11)));
}

#[test]
fn one_that_has_nothing_to_store_keeps_the_others_waiting_for_a_while_only() {
    let mut outage = out(&failure(500, NO_SPACE));
    for now in 11..131 {
        assert!(outage.try_by("a", secs(now)));
        outage.answered();
        assert!(!outage.try_by("b", secs(now)), "after {now} s");
    }
    assert!(outage.try_by("b", secs(131)) && !outage.lasts());
    assert!(outage.try_by("a", secs(131)));
}

/// The outage, what happens in it, and whether it is over then.
type Row<'a> = (&'a str, Failure, fn(&mut Outage), bool);

#[test]
fn it_is_over_once() {
    let table: [Row<'_>; 7] = [
        ("a server that was gone answers", gone(), Outage::answered, true),
        (
            "it answers with a failure of one target",
            gone(),
            |o| o.failed(&failure(503, "busy"), secs(20)),
            true,
        ),
        ("another request gets no answer", gone(), |o| o.failed(&Failure::default(), secs(20)), false),
        ("a token is accepted again", failure(401, "Unauthorized"), Outage::answered, true),
        ("a storage without space answers a read", failure(500, NO_SPACE), Outage::answered, false),
        ("it stores something", failure(500, NO_SPACE), Outage::stored, true),
        (
            "a target fails meanwhile",
            failure(500, NO_SPACE),
            |o| o.failed(&failure(500, "x"), secs(20)),
            false,
        ),
    ];
    for (case, ill, happens, over) in table {
        let mut outage = out(&ill);
        happens(&mut outage);
        assert_eq!(!outage.lasts(), over, "{case}");
    }
}

#[test]
fn a_failure_of_one_target_holds_nobody_else() {
    let outage = out(&failure(500, "failed calling webhook"));
    assert!(!outage.lasts() && outage.held("a", secs(10)).is_none());
}
