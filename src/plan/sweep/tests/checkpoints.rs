//! Sweeps that are taken up where a process before left them.

use std::time::Duration;

use super::{drive, listed_at, stored, unconfirmed};
use crate::api::{Checkpoint, CheckpointPhase, RefusedObject};
use crate::plan::Outcome;
use crate::plan::sample::{crd, failure, object, page, target};
use crate::plan::sweep::{Conclusion, Sweep};

fn checkpoint(phase: CheckpointPhase) -> Checkpoint {
    Checkpoint {
        crd_uid: "crd-1".to_owned(),
        storage_version: "v1".to_owned(),
        crd_generation: 7,
        conversion: crd().conversion,
        phase,
        continue_token: Some("there".to_owned()),
        rewritten: 5,
        unchanged: 4,
        gone: 3,
        refused: 2,
        api_servers_heard: false,
        seal: None,
    }
}

#[test]
fn a_checkpoint_is_taken_up_only_where_it_fits() {
    let good = checkpoint(CheckpointPhase::Sweeping);
    let table = [
        ("it fits", good.clone(), Some(Some("there")), 14),
        ("another CRD", Checkpoint { crd_uid: "crd-2".to_owned(), ..good.clone() }, Some(None), 0),
        ("another version", Checkpoint { storage_version: "v2".to_owned(), ..good.clone() }, Some(None), 0),
        ("another conversion", Checkpoint { conversion: "{}".to_owned(), ..good.clone() }, Some(None), 0),
        ("another generation", Checkpoint { crd_generation: 3, ..good }, Some(Some("there")), 14),
    ];
    for (case, checkpoint, page, visited) in table {
        let sweep = Sweep::resume(target().unwrap(), &checkpoint, false, &[]);
        assert_eq!(sweep.wanted_page(), page, "{case}");
        assert_eq!(sweep.tally().visited(), visited, "{case}");
        assert!(!sweep.is_confirm(), "{case}");
    }
}

#[test]
fn a_sealed_confirm_goes_on_in_its_middle_unless_the_crd_has_changed() {
    let good = Checkpoint { refused: 0, ..checkpoint(CheckpointPhase::Confirming) };
    let sweep = Sweep::resume(target().unwrap(), &good, true, &[]);
    assert!(sweep.is_confirm());
    assert_eq!(sweep.wanted_page(), Some(Some("there")));
    let changed = Checkpoint { crd_generation: 6, ..good };
    let sweep = Sweep::resume(target().unwrap(), &changed, true, &[]);
    assert_eq!((sweep.is_confirm(), sweep.wanted_page()), (false, None));
}

#[test]
fn the_checkpoint_of_a_confirm_stands_still_while_something_is_open_behind_it() {
    let token = |sweep: &Sweep| sweep.checkpoint().continue_token.clone();
    let mut confirm = unconfirmed(Sweep::resume(
        target().unwrap(),
        &Checkpoint { refused: 0, ..checkpoint(CheckpointPhase::Confirming) },
        false,
        &[],
    ))
    .into_confirm(7);
    confirm.list(page(&["a", "b"], Some("after-b")));
    let visit = confirm.next(Duration::ZERO).unwrap();
    confirm.record(visit, Outcome::Deferred(failure(503, "down")), Duration::ZERO);
    let visit = confirm.next(Duration::ZERO).unwrap();
    confirm.record(visit, stored(&object("b", "1")), Duration::ZERO);
    confirm.list(page(&["c"], Some("after-c")));
    assert_eq!(token(&confirm), None);
    drive(&mut confirm, 10, stored);
    confirm.list(page(&["d"], None));
    assert_eq!(token(&confirm).as_deref(), Some("after-c"));
}

#[test]
fn the_checkpoint_of_a_confirm_stands_still_while_a_witness_is_sought_past_open_objects() {
    let forged = Checkpoint { refused: 0, ..checkpoint(CheckpointPhase::Confirming) };
    let mut confirm = unconfirmed(Sweep::resume(target().unwrap(), &forged, false, &[])).into_confirm(7);
    confirm.list(page(&["a", "b", "c", "d"], Some("after-d")));
    drive(&mut confirm, 3, |_| Outcome::Deferred(failure(500, "not decodable")));
    assert!(confirm.seeks_witness());
    assert_eq!(confirm.wanted_page(), Some(Some("after-d")));
    confirm.list(page(&["e", "f"], Some("after-f")));
    assert!(!confirm.seeks_witness(), "one of them is visited first");
    assert_eq!(confirm.next(Duration::ZERO).unwrap().object().name, "e");
    assert_eq!(confirm.checkpoint().continue_token, None);
}

#[test]
fn a_confirm_starts_over_after_a_restart_and_visits_everything() {
    let forged = Checkpoint { refused: 0, ..checkpoint(CheckpointPhase::Confirming) };
    let sweep = Sweep::resume(target().unwrap(), &forged, false, &[]);
    assert_eq!(sweep.wanted_page(), None);
    let mut confirm = unconfirmed(sweep).into_confirm(7);
    assert_eq!(confirm.wanted_page(), Some(None));
    confirm.list(listed_at(&["a", "b"], "2"));
    assert_eq!(drive(&mut confirm, 10, stored), 2);
}

#[test]
fn refusals_from_before_a_restart_still_count_and_those_behind_the_place_are_found_again() {
    let listed: Vec<RefusedObject> = ["a", "b", "c"]
        .map(|name| RefusedObject { name: name.to_owned(), ..RefusedObject::default() })
        .into();
    let sweep = Sweep::resume(target().unwrap(), &checkpoint(CheckpointPhase::Sweeping), false, &listed);
    assert_eq!((sweep.refusals().total(), sweep.refusals().listed().len()), (2, 2));
    let mut sweep = sweep;
    sweep.list(page(&[], None));
    assert!(matches!(sweep.conclude(), Conclusion::Refused(_)));
}

#[test]
fn the_checkpoint_follows_the_pages_and_a_retry_starts_it_over() {
    let mut sweep = Sweep::first(target().unwrap());
    sweep.list(page(&["a"], Some("after-a")));
    assert_eq!(sweep.checkpoint().continue_token, None);
    drive(&mut sweep, 10, stored);
    sweep.list(page(&["b"], None));
    assert_eq!(sweep.checkpoint().continue_token.as_deref(), Some("after-a"));
    assert_eq!(sweep.checkpoint().rewritten, 1);
    drive(&mut sweep, 10, stored);
    let confirm = unconfirmed(sweep).into_confirm(7);
    assert_eq!(confirm.checkpoint().phase, CheckpointPhase::Confirming);
    assert_eq!(confirm.checkpoint().rewritten, 2);
    assert_eq!(confirm.into_retry().checkpoint(), Sweep::first(target().unwrap()).checkpoint());
}
