#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

mod checkpoints;
mod doubt;
mod model;
mod unreadable;

use std::time::Duration;

use proptest::prelude::*;

use super::{Conclusion, Sweep};
use crate::plan::sample::{failure, object, page, target};
use crate::plan::{CompleteSweep, Object, Outcome, Page};
use model::World;

fn first(names: &[&str]) -> Sweep {
    let mut sweep = Sweep::first(target().unwrap());
    sweep.list(page(names, None));
    sweep
}

/// Visits what is due, and what is due next, until nothing is left or `visits_max` were made.
fn drive(sweep: &mut Sweep, visits_max: u32, answer: impl Fn(&Object) -> Outcome) -> u32 {
    let mut now = Duration::ZERO;
    for visit_number in 0..visits_max {
        let Some(visit) = sweep.next(now).or_else(|| {
            now = sweep.next_due()?;
            sweep.next(now)
        }) else {
            return visit_number;
        };
        let outcome = answer(visit.object());
        sweep.record(visit, outcome, now);
    }
    visits_max
}

fn stored(_: &Object) -> Outcome {
    Outcome::Rewritten("2".to_owned())
}

fn unconfirmed(sweep: Sweep) -> Sweep {
    let Conclusion::Unconfirmed(sweep) = sweep.conclude() else { panic!("not at the end of a first sweep") };
    sweep
}

fn complete(sweep: Sweep) -> CompleteSweep {
    let Conclusion::Complete(complete) = sweep.conclude() else { panic!("not complete") };
    complete
}

fn swept(names: &[&str]) -> Sweep {
    let mut sweep = first(names);
    drive(&mut sweep, 1000, stored);
    unconfirmed(sweep)
}

fn listed_at(names: &[&str], resource_version: &str) -> Page {
    Page { objects: names.iter().map(|n| object(n, resource_version)).collect(), ..Page::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_trimmed_while_an_object_is_stored_otherwise_and_calm_ends_in_a_trim(
        objects in 0u8..10,
        events in proptest::collection::vec((0u8..32, any::<u8>()), 0..150),
    ) {
        let mut world = World::new(target().unwrap(), objects);
        for (what, arg) in events {
            world.happen(what, arg);
        }
        prop_assert!(world.calm_down().is_some(), "no trim within 2000 steps of calm: {world:?}");
    }
}

#[test]
fn a_sweep_wants_pages_one_after_the_other_and_only_once_the_objects_of_the_last_are_visited() {
    let mut sweep = Sweep::first(target().unwrap());
    assert_eq!(sweep.wanted_page(), Some(None));
    sweep.list(page(&["a"], Some("after-a")));
    assert_eq!(sweep.wanted_page(), None);
    drive(&mut sweep, 10, stored);
    assert_eq!(sweep.wanted_page(), Some(Some("after-a")));
    sweep.list(page(&["b"], None));
    drive(&mut sweep, 10, stored);
    assert_eq!(sweep.wanted_page(), None);
}

#[test]
fn an_expired_token_goes_on_with_the_new_one_or_from_the_first_page() {
    let mut sweep = Sweep::first(target().unwrap());
    sweep.list_expired(Some("fresh".to_owned()));
    assert_eq!(sweep.wanted_page(), Some(Some("fresh")));
    sweep.list_expired(None);
    assert_eq!(sweep.wanted_page(), Some(None));
}

#[test]
fn a_sweep_is_open_while_something_is_unlisted_pending_in_flight_or_postponed() {
    let open = |sweep: Sweep, why: &str| {
        assert!(matches!(sweep.conclude(), Conclusion::Open(_)), "{why}");
    };
    open(Sweep::first(target().unwrap()), "no page was listed");
    open(first(&["a"]), "an object is pending");
    let mut flying = first(&["a"]);
    let _visit = flying.next(Duration::ZERO).unwrap();
    open(flying, "a visit is in flight");
    let mut postponed = first(&["a"]);
    let visit = postponed.next(Duration::ZERO).unwrap();
    postponed.record(visit, Outcome::Refused(failure(422, "invalid")), Duration::ZERO);
    open(postponed, "an object is postponed");
}

#[test]
fn a_first_sweep_is_never_complete_and_a_confirm_is() {
    let mut confirm = swept(&["a", "b"]).into_confirm(7);
    assert_eq!(confirm.wanted_page(), Some(None));
    confirm.list(listed_at(&["a", "b"], "2"));
    assert!(!confirm.has_due(Duration::MAX), "both are as their visits left them");
    let complete = complete(confirm);
    assert_eq!(complete.tally().confirmed(), (2, 0));
}

#[test]
fn the_confirm_visits_objects_that_are_new_or_changed() {
    let mut confirm = swept(&["a", "b"]).into_confirm(7);
    confirm.list(listed_at(&["a", "b", "new"], "3"));
    assert_eq!(drive(&mut confirm, 10, stored), 3);
    assert_eq!(complete(confirm).tally().confirmed(), (3, 3));
}

#[test]
fn a_refused_object_blocks_the_sweep_until_a_retry_stores_it() {
    let mut sweep = first(&["a", "bad"]);
    drive(&mut sweep, 100, |o| match o.name.as_str() {
        "bad" => Outcome::Refused(failure(422, "spec.size: Invalid value")),
        _ => Outcome::Rewritten("2".to_owned()),
    });
    let Conclusion::Refused(sweep) = sweep.conclude() else { panic!("not refused") };
    assert_eq!((sweep.refusals().total(), sweep.refusals().listed()[0].attempts), (1, 3));
    let mut retry = sweep.into_retry();
    assert_eq!(retry.refusals().total(), 0);
    retry.list(Page { objects: vec![object("a", "2"), object("bad", "1")], ..Page::default() });
    assert_eq!(drive(&mut retry, 10, stored), 1, "only the refused one is visited");
    let progress = unconfirmed(retry).tally().progress();
    assert_eq!((progress.rewritten, progress.refused, progress.visited), (2, 0, 2));
}

#[test]
fn an_object_refused_in_the_confirm_blocks_as_well() {
    let mut confirm = swept(&["a"]).into_confirm(7);
    confirm.list(listed_at(&["a"], "9"));
    drive(&mut confirm, 10, |_| Outcome::Refused(failure(403, "denied")));
    assert!(matches!(confirm.conclude(), Conclusion::Refused(_)));
}

#[test]
fn a_conflict_is_tried_again_at_once_and_a_deferred_visit_later() {
    let mut sweep = first(&["a"]);
    let visit = sweep.next(Duration::ZERO).unwrap();
    sweep.record(visit, Outcome::Conflict(failure(409, "conflict")), Duration::ZERO);
    assert_eq!(sweep.next_due(), Some(Duration::ZERO));
    let visit = sweep.next(Duration::ZERO).unwrap();
    sweep.record(visit, Outcome::Refused(failure(422, "invalid")), Duration::ZERO);
    assert_eq!(sweep.next_due(), Some(Duration::from_secs(2)));
    assert!(sweep.next(Duration::from_secs(1)).is_none());
}

#[test]
fn conflicts_are_tried_again_at_once_up_to_half_of_what_is_allowed() {
    let mut sweep = first(&["a"]);
    let waits = (1..20).map(|_| {
        let visit = sweep.next(Duration::MAX).unwrap();
        sweep.record(visit, Outcome::Conflict(failure(409, "conflict")), Duration::ZERO);
        sweep.next_due() > Some(Duration::ZERO)
    });
    assert_eq!(waits.collect::<Vec<_>>(), (1..20).map(|n| n >= 10).collect::<Vec<_>>());
}

#[test]
fn an_object_is_given_up_after_so_many_attempts_while_its_neighbours_succeed() {
    let table: [(&str, Outcome, u32); 5] = [
        ("refused", Outcome::Refused(failure(422, "invalid")), 3),
        ("failing with 500", Outcome::Deferred(failure(500, "not decodable")), 3),
        ("asked for patience with 429", Outcome::Deferred(failure(429, "slow down")), 10),
        ("asked for patience with 503", Outcome::Deferred(failure(503, "busy")), 10),
        ("in conflict with other writers", Outcome::Conflict(failure(409, "conflict")), 20),
    ];
    for (case, bad, attempts) in table {
        let mut sweep = first(&["good", "bad"]);
        drive(&mut sweep, 100, |o| if o.name == "bad" { bad.clone() } else { Outcome::Unchanged });
        let listed = sweep.refusals().listed();
        assert_eq!(listed.iter().map(|r| r.attempts).collect::<Vec<_>>(), [attempts], "{case}");
    }
}

#[test]
fn a_list_that_starts_over_counts_its_refused_objects_once() {
    let mut sweep = Sweep::first(target().unwrap());
    let refuse_bad = |o: &Object| match o.name.as_str() {
        "bad" => Outcome::Refused(failure(422, "invalid")),
        _ => Outcome::Unchanged,
    };
    sweep.list(page(&["a", "bad"], Some("after-bad")));
    drive(&mut sweep, 100, refuse_bad);
    sweep.list_expired(None);
    sweep.list(page(&["a", "bad", "c"], None));
    drive(&mut sweep, 100, refuse_bad);
    let progress = sweep.tally().progress();
    assert_eq!((sweep.refusals().total(), sweep.refusals().listed().len()), (1, 1));
    assert_eq!((progress.unchanged, progress.refused, progress.total), (2, 1, 3));
}

#[test]
fn no_page_is_listed_while_a_thousand_objects_are_postponed() {
    let names: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut sweep = Sweep::first(target().unwrap());
    sweep.list(page(&names, Some("more")));
    drive(&mut sweep, 999, |_| Outcome::Deferred(failure(503, "down")));
    let visit = sweep.next(Duration::ZERO).unwrap();
    assert_eq!(sweep.wanted_page().is_some(), sweep.pending.is_empty());
    sweep.record(visit, Outcome::Deferred(failure(503, "down")), Duration::ZERO);
    assert_eq!((sweep.wanted_page(), sweep.postponed.len()), (None, 1000));
}
