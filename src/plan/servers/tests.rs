use std::time::Duration;

use super::{Look, ServerWatch};
use crate::plan::sample::{look, no_leases, server, servers};
use crate::plan::{ApiServer, ApiServers};

const SETTLE: Duration = Duration::from_secs(65);

/// A server is read at second 1000.
const READ_AT: i64 = 1000;

fn names(servers: &[&ApiServer]) -> Vec<String> {
    servers.iter().map(ToString::to_string).collect()
}

/// Looks every five seconds from second 0 on at a server that has renewed its Lease at these seconds, and says at which the
/// server is found to have caught up with a CRD that moved at second `moved_at`.
fn heard_at(renewals: &[i64], moved_at: u64, settle: u64) -> Option<u64> {
    let settle = Duration::from_secs(settle);
    let mut watch = ServerWatch::default();
    (0..400).step_by(5).find(|secs| {
        let now = i64::try_from(*secs).unwrap_or(i64::MAX);
        let renewed = renewals.iter().rev().find(|at| **at <= now).copied().unwrap_or(-5);
        let known = servers(vec![server("b", renewed)], now);
        watch.look(&known, look(*secs), settle);
        let quiet_for = secs.checked_sub(moved_at).map(Duration::from_secs);
        quiet_for.is_some_and(|quiet| watch.unheard(&known, quiet, settle, look(*secs).ended).is_empty())
    })
}

/// Renewals every ten seconds, `from` and `until` included.
fn every_ten(from: i64, until: i64) -> Vec<i64> {
    (from..=until).step_by(10).collect()
}

#[test]
fn a_server_is_heard_of_once_it_was_seen_to_run_for_the_settle_time() {
    let with_nap = |from: i64, until: i64| [every_ten(-5, from), every_ten(until, 395)].concat();
    let table = [
        // Looks at 65 and 70 find the renewal of 65, looks at 75 and 80 that of 75. What the look at 75 finds came after 70.
        ("it runs all the time", every_ten(-5, 395), 0, 65, Some(75)),
        ("the flag moves later", every_ten(-5, 395), 100, 65, Some(175)),
        ("a shorter settle is over sooner", every_ten(-5, 395), 0, 6, Some(15)),
        ("no settle at all: it must be heard of once", every_ten(-5, 395), 0, 0, Some(5)),
        ("it never wakes up", every_ten(-5, 25), 0, 65, None),
        ("it sleeps from before the move on", with_nap(-5, 145), 0, 65, Some(215)),
        ("it sleeps for half a minute", with_nap(25, 55), 0, 65, Some(125)),
        ("it is slow for once", with_nap(25, 42), 0, 65, Some(75)),
        ("it slept before the move", with_nap(25, 155), 250, 65, Some(325)),
        ("it was heard of, and sleeps", every_ten(-5, 75), 0, 65, Some(75)),
    ];
    for (case, renewals, moved_at, settle, expected) in table {
        assert_eq!(heard_at(&renewals, moved_at, settle), expected, "{case}");
    }
}

#[test]
fn a_pause_is_noticed_although_the_clock_of_the_server_stood_still() {
    let mut watch = ServerWatch::default();
    // It sleeps from second 20 to 60, and its clock with it.
    for secs in (0_u32..=200).step_by(10) {
        let its = if secs <= 20 { secs } else { secs.max(60) - 40 };
        let known = servers(vec![server("b", i64::from(its))], i64::from(its));
        watch.look(&known, look(u64::from(secs)), SETTLE);
        let unheard = watch.unheard(&known, look(u64::from(secs)).ended, SETTLE, look(u64::from(secs)).ended);
        assert_eq!(unheard.is_empty(), secs >= 150, "{secs}");
    }
}

#[test]
fn nothing_is_believed_of_the_time_in_which_nobody_looked() {
    let mut watch = ServerWatch::default();
    for secs in [0_u32, 10, 90, 100, 110] {
        let known = servers(vec![server("b", i64::from(secs))], i64::from(secs));
        watch.look(&known, look(u64::from(secs)), SETTLE);
        let now = Duration::from_secs(u64::from(secs));
        assert_eq!(names(&watch.unheard(&known, now, SETTLE, now)), ["b"], "{secs}");
    }
}

#[test]
fn what_a_slow_look_shows_is_dated_by_when_it_was_asked_for() {
    let mut watch = ServerWatch::default();
    let secs = Duration::from_secs;
    let settle = secs(10);
    let looks = [(0, 0, 0), (9, 12, 10), (18, 19, 20)];
    for (begun, ended, renewed) in looks {
        let known = servers(vec![server("b", renewed)], renewed);
        watch.look(&known, Look { begun: secs(begun), ended: secs(ended) }, settle);
        // The renewal of second 20 came after second 9, not after 12.
        assert_eq!(names(&watch.unheard(&known, secs(ended), settle, secs(ended))), ["b"], "{ended}");
    }
}

#[test]
fn nobody_is_waited_for_who_has_no_lease_or_could_not_have_slept_for_so_long() {
    let watch = ServerWatch::default();
    let now = Duration::from_hours(9);
    let brief = ApiServer { holds_for: Duration::from_mins(1), ..server("b", 930) };
    let table = [
        ("its Lease has run out: it is gone", brief, 100, 0),
        ("its Lease has not run out", server("b", 930), 100, 1),
        ("the move is older than any sleep", server("b", 930), 3600 + 65, 0),
        ("the move is a second younger", server("b", 930), 3600 + 64, 1),
    ];
    for (case, b, quiet_for, count) in table {
        let known = servers(vec![b], READ_AT);
        assert_eq!(watch.unheard(&known, Duration::from_secs(quiet_for), SETTLE, now).len(), count, "{case}");
    }
    assert!(watch.unheard(&no_leases(), Duration::ZERO, SETTLE, now).is_empty());
    assert!(no_leases().asleep().is_empty());
}

#[test]
fn the_next_look_comes_when_it_can_tell_more() {
    let mut watch = ServerWatch::default();
    assert_eq!(watch.look_again(SETTLE, Duration::ZERO), Duration::from_secs(5));
    watch.look(&servers(vec![server("b", 0)], 0), look(0), SETTLE);
    assert_eq!(watch.look_again(SETTLE, Duration::from_secs(63)), Duration::from_secs(2));
    assert_eq!(watch.look_again(SETTLE, Duration::from_secs(65)), Duration::from_secs(5));
}

#[test]
fn a_server_is_asleep_if_it_missed_three_renewals() {
    let table = [
        ("it renewed just now", server("b", 1000), false),
        ("30 s ago", server("b", 970), false),
        ("31 s ago", server("b", 969), true),
        ("an hour ago, just within its Lease", server("b", 1000 - 3600), true),
        ("longer ago: it is gone", server("b", 1000 - 3601), false),
        ("its clock is ahead", server("b", 1010), false),
    ];
    for (case, b, asleep) in table {
        let known = servers(vec![server("a", 1000), b], READ_AT);
        assert_eq!(names(&known.asleep()), if asleep { vec!["b"] } else { vec![] }, "{case}");
    }
}

#[test]
fn a_server_is_ignored_by_its_whole_name_alone() {
    let on_host = ApiServer { host: Some("host-b".to_owned()), ..server("b-1", 0) };
    let known = servers(vec![server("a", 0), on_host, server("b-2", 0)], READ_AT);
    let table = [
        (None, ""),
        (Some(""), ""),
        (Some(","), ""),
        (Some("b"), ""),
        (Some("*"), ""),
        (Some("host-b"), ""),
        (Some("b-1"), "b-1 on host-b"),
        (Some(" b-2 , nobody, a,"), "a, b-2"),
    ];
    for (annotation, expected) in table {
        let (left, ignored) = known.without(annotation);
        assert_eq!(names(&ignored.iter().collect::<Vec<_>>()).join(", "), expected, "{annotation:?}");
        let ApiServers::Known { servers: left, .. } = left else { continue };
        assert_eq!(left.len() + ignored.len(), 3, "{annotation:?}");
        assert!(!left.iter().any(|server| ignored.contains(server)), "{annotation:?}");
    }
}
