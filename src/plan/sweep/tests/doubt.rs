//! Whether a failure is the object's or the server's, and who is asked to tell.

use std::time::Duration;

use super::{drive, first, stored, target, unconfirmed};
use crate::plan::sample::{failure, page};
use crate::plan::{Conclusion, Object, Outcome, Sweep};

fn failing(names: &'static [&'static str]) -> impl Fn(&Object) -> Outcome {
    move |object| {
        if names.contains(&object.name.as_str()) {
            Outcome::Deferred(failure(500, "object not decodable"))
        } else {
            Outcome::Unchanged
        }
    }
}

#[test]
fn a_witness_is_asked_for_as_it_was_left() {
    let mut sweep = first(&["a", "b"]);
    let mut now = Duration::ZERO;
    let probe = loop {
        now = sweep.next_due().unwrap_or(now);
        let visit = sweep.next(now).unwrap();
        if visit.is_probe() {
            break visit;
        }
        let outcome = if visit.object().name == "a" {
            Outcome::Rewritten("2".to_owned())
        } else {
            Outcome::Deferred(failure(500, "not decodable"))
        };
        sweep.record(visit, outcome, now);
    };
    assert_eq!((probe.object().name.as_str(), probe.object().resource_version.as_str()), ("a", "2"));
    sweep.record(probe, Outcome::Refused(failure(422, "invalid")), now);
    assert_eq!(sweep.postponed.len(), 1, "b alone: what a probe is refused is held against nobody");
}

#[test]
fn objects_that_always_fail_end_refused_wherever_they_are_in_the_list() {
    let table: [(&str, &[&str]); 4] = [
        ("among others", &["a", "bad", "b"]),
        ("as the last one", &["a", "b", "bad"]),
        ("as the first one", &["bad", "a", "b"]),
        ("as the only one beside one good", &["bad", "a"]),
    ];
    for (case, names) in table {
        let mut sweep = first(names);
        drive(&mut sweep, 100, failing(&["bad"]));
        let Conclusion::Refused(sweep) = sweep.conclude() else { panic!("{case}: not refused") };
        assert_eq!(sweep.refusals().total(), 1, "{case}");
        assert_eq!(sweep.refusals().listed()[0].name, "bad", "{case}");
        assert_eq!(sweep.tally().progress().unchanged, names.len() as u64 - 1, "{case}");
    }
}

#[test]
fn a_server_that_fails_everything_makes_no_object_refused() {
    let mut sweep = first(&["a", "b", "c"]);
    let down = |_: &Object| Outcome::Deferred(failure(500, "failed calling webhook"));
    assert_eq!(drive(&mut sweep, 200, down), 200);
    assert_eq!((sweep.refusals().total(), sweep.tally().progress().visited), (0, 0));
    assert_eq!(sweep.wanted_page(), Some(None), "a witness is looked for");
    sweep.list(page(&["a", "b", "c"], None));
    drive(&mut sweep, 200, down);
    assert_eq!(sweep.wanted_page(), None, "but once only");
    assert_eq!(drive(&mut sweep, 200, stored), 3, "no object is there twice");
    assert_eq!(unconfirmed(sweep).tally().progress().rewritten, 3);
}

#[test]
fn a_server_that_goes_down_after_a_success_makes_no_object_refused() {
    let mut sweep = first(&["a", "b", "c"]);
    drive(&mut sweep, 1, stored);
    drive(&mut sweep, 200, |_| Outcome::Deferred(failure(500, "etcdserver: no space")));
    assert_eq!((sweep.refusals().total(), sweep.tally().progress().visited), (0, 1));
}

/// What a server says whose conversion webhook is gone.
fn silence() -> Outcome {
    Outcome::Deferred(failure(
        500,
        "conversion webhook for v1, Kind=Widget failed: Post \"https://hook\": EOF",
    ))
}

/// Drives a sweep on a server whose webhook doesn't answer for the objects whose names begin with `old`; for a probe it
/// does only if it `converts`.
fn drive_without_a_webhook(sweep: &mut Sweep, converts: bool) {
    let mut now = Duration::ZERO;
    for _ in 0..200 {
        // Others are visited until the next attempt at one that failed.
        now += Duration::from_secs(1);
        let visit = sweep.next(now).or_else(|| {
            now = sweep.next_due()?;
            sweep.next(now)
        });
        let Some(visit) = visit else { break };
        let needs_conversion = visit.object().name.starts_with("old") || (visit.is_probe() && !converts);
        sweep.record(visit, if needs_conversion { silence() } else { Outcome::Unchanged }, now);
    }
}

#[test]
fn a_webhook_that_doesnt_answer_is_held_against_no_object_although_others_need_no_conversion() {
    let mut sweep = first(&["a", "old-1", "b", "old-2", "c", "d", "e", "f", "g"]);
    drive_without_a_webhook(&mut sweep, false);
    assert_eq!((sweep.refusals().total(), sweep.tally().progress().unchanged), (0, 7));
    drive(&mut sweep, 100, |_| Outcome::Unchanged);
    assert_eq!(unconfirmed(sweep).tally().progress().unchanged, 9);
}

#[test]
fn one_that_silences_a_webhook_while_it_converts_another_is_refused() {
    let mut sweep = first(&["a", "old-1", "b"]);
    drive_without_a_webhook(&mut sweep, true);
    let Conclusion::Refused(sweep) = sweep.conclude() else { panic!("not refused") };
    assert_eq!((sweep.refusals().total(), sweep.refusals().listed()[0].name.as_str()), (1, "old-1"));
}

#[test]
fn failing_objects_at_the_start_of_a_list_keep_none_of_the_others_waiting() {
    const BAD: [&str; 8] = ["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"];
    let names: Vec<&str> = BAD.iter().copied().chain(["b1", "b2"]).collect();
    let mut sweep = first(&names);
    let flights: Vec<_> = (0..8).map(|_| sweep.next(Duration::ZERO).unwrap()).collect();
    for visit in flights {
        let outcome = failing(&BAD)(visit.object());
        sweep.record(visit, outcome, Duration::ZERO);
    }
    // The target was left alone for so long that every object is due.
    let visit = sweep.next(Duration::from_mins(1)).unwrap();
    assert_eq!(visit.object().name, "b1");
}

#[test]
fn the_next_page_is_listed_before_objects_in_doubt_are_visited_again() {
    let mut sweep = Sweep::first(target().unwrap());
    sweep.list(page(&["bad"], Some("after-bad")));
    drive(&mut sweep, 1, failing(&["bad"]));
    let later = Duration::from_mins(1);
    assert!(sweep.has_due(later) && !sweep.has_certain(later));
    assert_eq!(sweep.wanted_page(), Some(Some("after-bad")));
}

#[test]
fn after_three_deferred_visits_in_a_row_the_witness_is_asked_first() {
    let mut sweep = first(&["good", "b1", "b2", "b3", "b4"]);
    drive(&mut sweep, 4, failing(&["b1", "b2", "b3", "b4"]));
    assert_eq!(sweep.next(Duration::ZERO).unwrap().object().name, "good");
}

#[test]
fn no_witness_is_asked_before_an_object_is_due() {
    let mut sweep = first(&["good", "b1", "b2", "b3"]);
    drive(&mut sweep, 4, failing(&["b1", "b2", "b3"]));
    assert!(sweep.next(Duration::ZERO).is_none());
    assert!(sweep.next(sweep.next_due().unwrap()).unwrap().is_probe());
}

#[test]
fn each_page_that_is_listed_for_a_witness_is_tried_once() {
    let mut sweep = Sweep::first(target().unwrap());
    sweep.list(page(&["b1", "b2", "b3"], Some("after-b3")));
    drive(&mut sweep, 3, |_| Outcome::Deferred(failure(503, "down")));
    assert!(sweep.seeks_witness(), "none of them tells anything");
    sweep.list(page(&["b1"], Some("after-b1")));
    assert!(sweep.seeks_witness(), "that was known before");
    sweep.list(page(&["b4", "b5"], Some("after-b5")));
    assert!(!sweep.seeks_witness(), "it has not been tried");
    drive(&mut sweep, 1, |_| Outcome::Deferred(failure(503, "down")));
    assert!(sweep.seeks_witness(), "it tells nothing either");
}

#[test]
fn what_tells_something_goes_before_what_is_in_doubt() {
    let mut sweep = first(&["failing", "refused"]);
    assert!(sweep.has_certain(Duration::ZERO), "none was visited");
    drive(&mut sweep, 2, |object| match object.name.as_str() {
        "failing" => Outcome::Deferred(failure(500, "not decodable")),
        _ => Outcome::Refused(failure(422, "invalid")),
    });
    assert!(!sweep.has_certain(Duration::ZERO), "none is due");
    let later = Duration::from_mins(1);
    assert!(sweep.has_certain(later));
    assert_eq!(sweep.next(later).unwrap().object().name, "refused");
    assert!(!sweep.has_certain(later), "nothing has succeeded since the other failed");
}

#[test]
fn no_witness_is_sought_while_five_thousand_objects_wait() {
    for (objects, seeks) in [(5002, true), (5003, false)] {
        let names: Vec<String> = (0..objects).map(|n| n.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut sweep = Sweep::first(target().unwrap());
        sweep.list(page(&names, Some("more")));
        drive(&mut sweep, 3, |_| Outcome::Deferred(failure(503, "down")));
        assert_eq!(sweep.seeks_witness(), seeks, "{objects}");
    }
}

#[test]
fn where_the_witness_is_gone_the_list_is_gone_through_for_another() {
    let mut sweep = first(&["bad", "a", "b"]);
    drive(&mut sweep, 3, failing(&["bad"]));
    // Three times: the last object to be stored was b.
    let later = Duration::from_mins(1);
    let visit = sweep.next(later).unwrap();
    sweep.record(visit, Outcome::Deferred(failure(500, "not decodable")), later);
    let probe = sweep.next(later * 2).unwrap();
    assert_eq!(probe.object().name, "b");
    sweep.record(probe, Outcome::Gone, later * 2);
    assert_eq!(sweep.wanted_page(), Some(None));
    sweep.list(page(&["a", "bad"], None));
    drive(&mut sweep, 100, failing(&["bad"]));
    assert!(matches!(sweep.conclude(), Conclusion::Refused(_)));
}

#[test]
fn a_run_taken_up_at_a_page_that_always_fails_ends_refused() {
    let mut before = Sweep::first(target().unwrap());
    before.list(page(&["a"], Some("after-a")));
    drive(&mut before, 10, stored);
    before.list(page(&["bad"], None));
    let mut sweep = Sweep::resume(target().unwrap(), before.checkpoint(), true, &[]);
    assert_eq!(sweep.wanted_page(), Some(Some("after-a")));
    sweep.list(page(&["bad"], None));
    drive(&mut sweep, 1, failing(&["bad"]));
    assert_eq!(sweep.wanted_page(), Some(None), "nothing here can tell: a witness is looked for");
    sweep.list(page(&["a", "bad"], None));
    drive(&mut sweep, 100, failing(&["bad"]));
    let Conclusion::Refused(sweep) = sweep.conclude() else { panic!("not refused") };
    let progress = sweep.tally().progress();
    assert_eq!((progress.visited, progress.refused), (2, 1), "nothing is counted twice");
}
