use std::time::Duration;

use crate::plan::ApiServer;
use crate::plan::sample::{no_leases, server, servers};

const SETTLE: Duration = Duration::from_secs(65);

/// The servers are read at second 1000.
const READ_AT: i64 = 1000;

#[test]
fn a_server_was_heard_of_if_it_renewed_after_the_move_had_settled() {
    let brief = ApiServer { holds_for: Duration::from_mins(1), ..server("b", 930) };
    let table = [
        ("it renewed long after the move", server("b", 995), 100, SETTLE, true),
        ("it renewed when settling was over", server("b", 965), 100, SETTLE, true),
        ("it renewed before settling was over", server("b", 964), 100, SETTLE, false),
        ("it renewed before the move", server("b", 890), 100, SETTLE, false),
        ("a shorter settle is over sooner", server("b", 901), 100, Duration::from_secs(1), true),
        ("the move was just now", server("b", 999), 0, SETTLE, false),
        ("the move was just now, and so was the renewal", server("b", 1000), 0, SETTLE, true),
        ("its Lease has run out: it is gone", brief, 50, SETTLE, true),
        ("its Lease of an hour has not run out", server("b", 1000 - 3599), 100, SETTLE, false),
    ];
    for (case, b, moved_ago, settle, heard) in table {
        let known = servers(vec![server("a", 1000), b], READ_AT);
        let unheard = known.unheard(Duration::from_secs(moved_ago), settle);
        assert_eq!(unheard.is_empty(), heard, "{case}: {unheard:?}");
        assert!(heard || unheard == ["b"], "{case}: {unheard:?}");
    }
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
        assert_eq!(known.asleep(), if asleep { vec!["b"] } else { vec![] }, "{case}");
    }
}

#[test]
fn where_no_lease_can_be_read_nobody_is_waited_for() {
    assert!(no_leases().unheard(Duration::ZERO, SETTLE).is_empty());
    assert!(no_leases().asleep().is_empty());
}
