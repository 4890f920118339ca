use super::*;

const TIMES: ElectionTimes = ElectionTimes {
    lease: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry: Duration::from_secs(2),
};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn candidate() -> Election {
    Election::new("b".to_owned(), TIMES)
}

fn held(by: &str, resource_version: &str) -> LeaseSight {
    LeaseSight {
        holder: Some(by.to_owned()),
        resource_version: resource_version.to_owned(),
        holds_for: Some(secs(15)),
    }
}

#[test]
fn a_lease_that_nobody_holds_is_taken_at_once() {
    let mut candidate = candidate();
    assert_eq!(candidate.wait(secs(100)), Duration::ZERO);
    candidate.see(None, secs(100));
    assert_eq!(candidate.wait(secs(100)), Duration::ZERO);
    let released = LeaseSight { holder: None, resource_version: "1".to_owned(), holds_for: Some(secs(1)) };
    candidate.see(Some(released), secs(100));
    assert_eq!(candidate.wait(secs(100)), Duration::ZERO);
    candidate.see(Some(held("b", "2")), secs(100));
    assert_eq!(candidate.wait(secs(100)), Duration::ZERO, "it is its own");
}

#[test]
fn a_lease_of_somebody_else_is_taken_once_it_has_not_changed_for_as_long_as_it_holds() {
    let mut candidate = candidate();
    candidate.see(Some(held("a", "1")), secs(100));
    assert_eq!(candidate.wait(secs(100)), secs(15));
    candidate.see(Some(held("a", "1")), secs(110));
    assert_eq!(candidate.wait(secs(110)), secs(5));
    candidate.see(Some(held("a", "2")), secs(114));
    assert_eq!(candidate.wait(secs(114)), secs(15), "it was renewed");
    assert_eq!(candidate.wait(secs(129)), Duration::ZERO);
    assert_eq!(candidate.other_holder(), Some("a"));
}

#[test]
fn the_holder_of_a_lease_that_was_deleted_has_the_time_that_it_was_promised() {
    let mut candidate = candidate();
    candidate.see(Some(held("a", "1")), secs(100));
    candidate.see(None, secs(101));
    assert_eq!(candidate.wait(secs(101)), secs(14));
    candidate.see(None, secs(115));
    assert_eq!(candidate.wait(secs(115)), Duration::ZERO);
    // Made anew with the very same content.
    candidate.see(Some(held("a", "1")), secs(115));
    assert_eq!(candidate.wait(secs(115)), secs(15));
}

#[test]
fn the_leader_stops_before_another_can_start() {
    let mut candidate = candidate();
    let sent = secs(100);
    let leader = Election::new("a".to_owned(), TIMES);
    assert_eq!(leader.identity(), "a");
    let leader_writes_until = leader.writes_until(sent);
    assert_eq!(leader_writes_until, secs(110));
    // Nobody can see the renewal before it was sent.
    candidate.see(Some(held("a", "1")), sent);
    assert!(leader_writes_until < sent + candidate.wait(sent));
}

#[test]
fn times_that_make_no_sense_are_named() {
    let least = ElectionTimes {
        lease: secs(1),
        renew_deadline: Duration::from_millis(999),
        retry: Duration::from_micros(499_500),
    };
    assert_eq!((TIMES.fault(), least.fault()), (None, None));
    let faults = [
        (ElectionTimes { lease: secs(10), ..TIMES }, "renew deadline must be shorter"),
        (ElectionTimes { lease: Duration::from_millis(15_500), ..TIMES }, "whole number of seconds"),
        (ElectionTimes { lease: Duration::ZERO, ..TIMES }, "1s or more"),
        (ElectionTimes { retry: Duration::ZERO, ..TIMES }, "longer than 0s"),
        (ElectionTimes { retry: secs(6), ..TIMES }, "half the renew deadline"),
    ];
    for (times, fault) in faults {
        let said = times.fault().unwrap_or_default();
        assert!(said.contains(fault), "{times:?}: {said}");
    }
}
