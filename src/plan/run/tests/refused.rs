//! Objects that the server refuses: when they are tried again.

use crate::plan::sample::{failure, page};
use crate::plan::{Cause, Details, Failure, Listing, Outcome, Page, Rights};

use std::time::Duration;

use super::stage::Stage;
use super::{CONFIRM, generation, lacking};

#[test]
fn refused_objects_are_tried_again_ever_more_slowly_until_they_are_stored() {
    let mut stage = Stage::new();
    stage.answer = |object| (object.name == "b").then(|| Outcome::Refused(failure(422, "invalid")));
    let mut waits = Vec::new();
    for _ in 0..9 {
        for _ in 0..10 {
            let said = stage.go();
            let until = said.rsplit(' ').next().and_then(|s| s.parse::<u64>().ok()).unwrap_or_default();
            if said.ends_with(&format!("ObjectsRefused until {until}")) {
                waits.push((until - stage.secs) / 60);
                stage.secs = until;
                break;
            }
            stage.secs = until;
        }
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    assert_eq!(stage.status().progress.as_ref().map(|p| (p.refused, p.visited)), Some((1, 3)));
    stage.answer = |_| None;
    assert_eq!(stage.go(), format!("list, visit, list after b, {CONFIRM}, Migrated"));
    assert!(stage.status().refusals.is_empty());
}

#[test]
fn refused_objects_are_tried_again_at_once_when_asked_or_when_the_migration_or_the_crd_changes() {
    let refused = || {
        let mut stage = Stage::new();
        stage.objects = [("b".to_owned(), 1)].into();
        stage.answer = |_| Some(Outcome::Refused(failure(422, "invalid")));
        for secs in [0, 1, 3] {
            stage.secs = secs;
            stage.go();
        }
        assert_eq!(stage.at(4), "ObjectsRefused until 63");
        stage
    };
    let mut edited = refused();
    edited.edit(|_| {});
    assert_eq!(edited.at(4), "list");
    let mut schema = refused();
    schema.see(generation(8));
    assert_eq!(schema.at(4), "list");
    let mut asked = refused();
    asked.retry = Some("1");
    for secs in [4, 5, 7] {
        asked.secs = secs;
        asked.go();
    }
    assert_eq!(asked.at(8), "ObjectsRefused until 127", "one value asks once");
    asked.retry = Some("2");
    assert_eq!(asked.at(8), "list");
}

#[test]
fn one_object_that_always_fails_ends_refused_and_holds_up_nobody() {
    let mut stage = Stage::new();
    stage.answer = |object| (object.name == "a").then(|| Outcome::Deferred(failure(500, "not decodable")));
    for secs in 0..60 {
        stage.secs = secs;
        stage.go();
    }
    assert!(stage.at(60).starts_with("ObjectsRefused"));
    assert_eq!(stage.status().refusals.len(), 1);
    assert_eq!(stage.status().progress.as_ref().map(|p| p.summary.as_str()), Some("3/3 100%"));
}

#[test]
fn in_an_outage_of_the_cluster_nothing_is_sent_and_nothing_held_against_an_object() {
    let mut stage = Stage::new();
    stage.outage = Some((Duration::from_secs(8), "500: etcdserver: mvcc: database space exceeded"));
    assert_eq!(stage.at(0), "BackingOff until 8");
    let message = &stage.status().conditions[0].message;
    assert!(message.contains("no migration") && message.contains("space exceeded"), "{message}");
    stage.outage = None;
    assert_eq!(stage.go_until("visit"), "review, inspect, list, visit");
    // Objects that need no write succeed all the while.
    stage.answer = |object| {
        let full = Outcome::Deferred(failure(500, "etcdserver: mvcc: database space exceeded"));
        Some(if object.name == "a" { full } else { Outcome::Unchanged })
    };
    for secs in 9..200 {
        stage.secs = secs;
        stage.go();
    }
    assert_eq!(stage.status().progress.as_ref().map(|p| (p.refused, p.unchanged)), Some((0, 2)));
    for step in ["a wait", "a sweep"] {
        stage.outage = Some((Duration::from_secs(8), "Connection refused"));
        assert_eq!(stage.at(300), "BackingOff until 308", "{step}");
    }
}

fn denied() -> Outcome {
    let said = r#"widgets.example.com "a" is forbidden: User "restow" cannot patch resource "widgets""#;
    Outcome::Refused(failure(403, said))
}

#[test]
fn what_changes_while_refused_objects_are_tried_again_is_not_lost() {
    let mut stage = Stage::new();
    stage.objects = [("b".to_owned(), 1)].into();
    stage.answer = |_| Some(Outcome::Refused(failure(422, "invalid")));
    for secs in [0, 1] {
        stage.secs = secs;
        stage.go();
    }
    stage.retry = Some("1");
    assert_eq!(stage.at(3), "visit");
    assert!(
        stage.go().ends_with("list, visit, Sweeping until 4"),
        "it was asked for in the middle of the sweep"
    );
}

#[test]
fn a_right_that_is_withdrawn_is_missed_by_name_and_all_goes_on_once_it_is_back() {
    let mut stage = Stage::new();
    stage.go_until("visit");
    stage.answer = |_| Some(denied());
    stage.around.rights = lacking("patch widgets.example.com");
    for secs in 0..3 {
        stage.secs = secs;
        stage.go();
    }
    assert_eq!(stage.at(3), "AccessDenied until 30");
    let message = &stage.status().conditions[0].message;
    assert!(message.contains("patch widgets.example.com"), "{message}");
    assert_eq!(stage.at(30), "ask");
    assert_eq!(stage.go(), "ask, AccessDenied until 60");
    stage.answer = |_| None;
    stage.around.rights = Rights::default();
    stage.secs = 60;
    assert!(stage.go().starts_with("ask, "));
    stage.secs = 62;
    assert!(stage.go().ends_with("Migrated"));
    assert_eq!(stage.status().progress.as_ref().map(|p| p.refused), Some(0));
}

#[test]
fn rights_that_never_lacked_are_no_reason_to_start_over() {
    let mut stage = Stage::new();
    stage.page_size = 4;
    stage.objects = ["a", "b", "c", "d", "e"].map(|name| (name.to_owned(), 1)).into();
    // The server refuses one for good, and denies three by what no review of rights knows of.
    stage.answer = |object| match object.name.as_str() {
        "a" => Some(Outcome::Refused(failure(413, "too large"))),
        "b" | "c" | "d" => Some(denied()),
        _ => None,
    };
    for secs in 0..3 {
        stage.secs = secs;
        stage.go();
    }
    stage.secs = 3;
    assert_eq!(stage.go(), "visit, ask, ObjectsRefused until 63");
}

#[test]
fn rights_that_are_back_before_anything_was_refused_are_no_reason_to_start_over() {
    let mut stage = Stage::new();
    stage.go_until("visit");
    stage.answer = |_| Some(denied());
    stage.around.rights = lacking("patch widgets.example.com");
    assert_eq!(stage.go(), "visit, list after b, visit, ask, AccessDenied until 30");
    stage.answer = |_| None;
    stage.around.rights = Rights::default();
    stage.secs = 60;
    assert_eq!(stage.go(), "ask, visit, inspect, list, list after b, trim, Migrated");
}

#[test]
fn rights_on_single_objects_refuse_the_others_until_they_are_granted() {
    let mut stage = Stage::new();
    stage.around.rights.by_name = true;
    stage.answer = |object| (object.name == "b").then(denied);
    for secs in 0..4 {
        stage.secs = secs;
        stage.go();
    }
    assert_eq!(stage.at(4), "ObjectsRefused until 30");
    assert_eq!(stage.status().progress.as_ref().map(|p| (p.refused, p.rewritten)), Some((1, 2)));
    stage.secs = 30;
    assert_eq!(stage.go(), "ask, ObjectsRefused until 60");
    stage.answer = |_| None;
    stage.around.rights.by_name = false;
    stage.secs = 60;
    assert!(stage.go().ends_with("Migrated"), "its own next try is a few seconds later");
}

#[test]
fn a_right_by_name_that_is_withdrawn_is_asked_for_again_every_half_minute() {
    let mut stage = Stage::new();
    stage.around.rights.by_name = true;
    stage.answer = |object| (object.name == "b").then(denied);
    for secs in 0..5 {
        stage.secs = secs;
        stage.go();
    }
    stage.around.rights = lacking("patch widgets.example.com");
    for secs in [30, 60] {
        stage.secs = secs;
        assert_eq!(stage.go(), format!("ask, AccessDenied until {}", secs + 30));
    }
    stage.answer = |_| None;
    stage.around.rights = Rights::default();
    stage.secs = 90;
    assert!(stage.go().ends_with("Migrated"));
}

#[test]
fn first_pages_on_which_every_object_fails_dont_keep_the_others_waiting_for_long() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "y", "z"];
    let mut stage = Stage { page_size: 6, ..Stage::new() };
    stage.objects = names.map(|name| (name.to_owned(), 1)).into();
    stage.answer = |object| (*object.name < *"y").then(|| Outcome::Deferred(failure(500, "not decodable")));
    let mut stored_at = None;
    let mut ended_at = None;
    for secs in 0..600 {
        stage.secs = secs;
        let said = stage.go();
        if stored_at.is_none() && stage.objects["y"] > 1 {
            stored_at = Some(secs);
        }
        if said.contains("ObjectsRefused") {
            ended_at = Some(secs);
            break;
        }
    }
    assert!(stored_at.is_some_and(|secs| secs <= 10), "the first to be stored was at {stored_at:?}");
    assert!(ended_at.is_some_and(|secs| secs <= 25), "it ended at {ended_at:?}");
    assert_eq!(stage.status().progress.as_ref().map(|p| (p.refused, p.rewritten)), Some((12, 2)));
}

#[test]
fn what_was_refused_for_lack_of_a_right_is_tried_again_as_soon_as_it_is_back() {
    let mut stage = Stage::new();
    stage.objects = [("b".to_owned(), 1)].into();
    stage.answer = |_| Some(denied());
    stage.around.rights = Rights::default();
    for secs in [0, 1, 2] {
        stage.secs = secs;
        stage.go();
    }
    stage.around.rights = lacking("patch widgets.example.com");
    stage.secs = 3;
    assert!(stage.go().ends_with("ask, AccessDenied until 33"));
    assert_eq!(stage.status().progress.as_ref().map(|p| p.refused), Some(1));
    stage.answer = |_| None;
    stage.around.rights = Rights::default();
    stage.secs = 33;
    assert!(stage.go().ends_with("Migrated"));
}

/// How long it waits, so many times one after the other.
fn waits(stage: &mut Stage, times: usize) -> Vec<u64> {
    let wait = || {
        let said = stage.go();
        let until = said.rsplit(' ').next().and_then(|s| s.parse::<u64>().ok()).unwrap_or_default();
        until.saturating_sub(std::mem::replace(&mut stage.secs, until))
    };
    std::iter::repeat_with(wait).take(times).collect()
}

#[test]
fn a_webhook_that_is_down_is_asked_ever_more_rarely_although_the_end_of_the_list_can_be_read() {
    let mut stage = Stage::new();
    stage.listing = Some(|request| {
        // All objects are before the first token.
        if request.continue_token.is_some() {
            return Listing::Listed(Page::default());
        }
        let cause = Cause { field: "/registry/example.com/widgets/shop/a".to_owned(), ..Cause::default() };
        let details = Some(Details { causes: vec![cause], ..Details::default() });
        Listing::Unreadable(Failure {
            details,
            ..failure(500, "conversion webhook for v1, Kind=Widget failed: Post \"https://hook\": EOF")
        })
    });
    assert_eq!(waits(&mut stage, 7), [1, 2, 4, 8, 16, 32, 60]);
    assert!(stage.status().refusals.is_empty());
}

#[test]
fn a_page_that_can_be_read_in_another_version_alone_is_no_sign_that_the_webhook_is_back() {
    const SAID: &str = "conversion webhook for v1, Kind=Widget failed: Post \"https://hook\": EOF";
    let mut stage = Stage::new();
    stage.answer = |_| Some(Outcome::Deferred(failure(500, SAID)));
    // As servers before Kubernetes 1.37 do: a list of one object is tried in each version.
    stage.listing = Some(|request| match request.limit {
        1 => {
            let name = format!("{}a", request.continue_token.as_deref().unwrap_or_default());
            Listing::ListedElsewhere(page(&[&name], Some(&name)))
        }
        _ => Listing::Deferred(failure(500, SAID)),
    });
    assert_eq!(waits(&mut stage, 8), [1, 2, 4, 8, 16, 32, 60, 60]);
}
