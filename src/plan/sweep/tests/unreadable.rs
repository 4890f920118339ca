//! Objects that fail the page that they are on.

use std::time::Duration;

use super::{complete, drive, first, listed_at, stored, swept, unconfirmed};
use crate::plan::sample::{failure, page};
use crate::plan::{Cause, Conclusion, Details, Failure, Sweep};

/// The server can't read an object of this name.
fn cant_read(name: &str) -> Failure {
    let field = format!("/registry/example.com/widgets/shop/{name}");
    let causes = vec![Cause { field, message: "object not decodable".to_owned() }];
    let reason = "StorageReadError".to_owned();
    Failure {
        reason,
        details: Some(Details { causes, ..Details::default() }),
        ..failure(500, "failed to read")
    }
}

/// The rest of the list fails, and fails with one object, too.
fn come_upon(sweep: &mut Sweep, name: &str) {
    for limit in [500, 62, 7, 1] {
        assert_eq!(sweep.request(500).limit, limit);
        assert_eq!(sweep.list_failed(cant_read(name)), None);
    }
}

#[test]
fn an_object_that_cant_be_read_is_refused_and_the_list_goes_on_after_it() {
    let mut sweep = Sweep::first(super::target().unwrap());
    come_upon(&mut sweep, "bad");
    assert!(sweep.wanted_page().is_some_and(|token| token.is_some()));
    sweep.list(page(&["good"], None));
    assert_eq!(drive(&mut sweep, 10, stored), 1);
    let Conclusion::Refused(sweep) = sweep.conclude() else { panic!("not refused") };
    let [refusal] = sweep.refusals().listed() else { panic!("not one refusal") };
    assert_eq!((refusal.namespace.as_deref(), refusal.name.as_str()), (Some("shop"), "bad"));
    assert_eq!((refusal.code, refusal.message.as_str()), (500, "object not decodable"));
    let progress = sweep.tally().progress();
    assert_eq!((progress.total, progress.rewritten, progress.refused), (2, 1, 1));

    let mut retry = sweep.into_retry();
    retry.list(listed_at(&["bad"], "1"));
    assert_eq!(drive(&mut retry, 10, stored), 1);
    assert_eq!(unconfirmed(retry).tally().progress().refused, 0);
}

#[test]
fn what_is_listed_on_the_way_to_one_that_is_not_named_is_no_progress() {
    let mut sweep = Sweep::first(super::target().unwrap());
    for _ in [500, 62, 7, 1] {
        assert!(sweep.is_on_course());
        sweep.request(500);
        sweep.list_failed(failure(500, "object not decodable"));
    }
    assert!(!sweep.is_on_course());
    let before = sweep.checkpoint().clone();
    sweep.request(500);
    sweep.list(page(&["good"], None));
    assert!(!sweep.has_due(Duration::MAX) && *sweep.checkpoint() == before);
}

#[test]
fn one_that_cant_be_read_in_the_confirm_blocks_as_well() {
    let mut confirm = swept(&["a", "bad"]).into_confirm(7);
    confirm.list(page(&[], Some("after-a")));
    come_upon(&mut confirm, "bad");
    confirm.list(page(&[], None));
    assert!(!confirm.has_due(Duration::MAX));
    assert!(matches!(confirm.conclude(), Conclusion::Refused(_)));
}

#[test]
fn a_list_that_fails_for_another_reason_refuses_nobody() {
    let mut sweep = first(&["a"]);
    drive(&mut sweep, 10, stored);
    let mut confirm = unconfirmed(sweep).into_confirm(7);
    assert_eq!(confirm.list_failed(failure(503, "down")), Some(failure(503, "down")));
    confirm.list(listed_at(&["a"], "2"));
    assert_eq!(complete(confirm).tally().confirmed(), (1, 0));
}
