//! Scripted runs. The scripts say every step, so that one more or one less shows.

mod afterwards;
mod refused;
mod servers;
mod stage;

use crate::api::{Reason, StoredVersions};
use crate::plan::sample::{at, crd, failure, moved, quiet};
use crate::plan::{Crd, CrdRecord, Outcome, PageRequest, Rights, Step, Surroundings};
use stage::{SETTLE, Stage};

/// A run with nothing in its way, from its first page on.
const SWEEP: &str = "list, visit, list after b, visit";
const CONFIRM: &str = "inspect, list, list after b, trim";

fn whole_run() -> String {
    format!("review, inspect, {SWEEP}, {CONFIRM}, Migrated")
}

fn generation(generation: i64) -> Crd {
    Crd { generation, ..crd() }
}

fn conversion(generation: i64) -> Crd {
    Crd { conversion: r#"{"strategy":"Webhook"}"#.to_owned(), generation, ..crd() }
}

fn lacking(right: &str) -> Rights {
    Rights { missing: vec![right.to_owned()], by_name: false }
}

/// A stage at the end of a run.
fn done() -> Stage {
    let mut stage = Stage::new();
    assert_eq!(stage.go(), whole_run());
    stage
}

/// A stage in the middle of the first sweep.
fn sweeping() -> Stage {
    let mut stage = Stage::new();
    assert_eq!(stage.go_until("list after"), "review, inspect, list, visit, list after b");
    stage
}

/// A stage in the middle of the confirm.
fn confirming() -> Stage {
    let mut stage = Stage::new();
    stage.go_until("list after");
    stage.act(&Step::List(PageRequest { continue_token: Some("b".to_owned()), limit: 2 }));
    assert_eq!(stage.go_until("list after"), "visit, inspect, list, list after b");
    stage
}

#[test]
fn a_run_sweeps_confirms_trims_and_is_done() {
    let stage = done();
    let status = stage.status();
    let target = status.target.clone().unwrap_or_default();
    assert_eq!(target.stored_versions_before, ["v1beta1", "v1"]);
    assert_eq!(target.stored_versions_after, ["v1"]);
    assert_eq!(status.progress.as_ref().map(|p| p.summary.as_str()), Some("3/3 100%"));
    assert!(status.completion_time.is_some() && status.checkpoint.is_none());
}

#[test]
fn after_a_move_of_the_storage_version_it_settles_first() {
    let mut stage = Stage { crd: Some(CrdRecord::new(crd(), at(0))), ..Stage::new() };
    assert_eq!(stage.go(), "review, inspect, Settling until 5");
    stage.secs = 4;
    assert_eq!(stage.go(), "Settling until 5");
    for secs in (5..SETTLE).step_by(5) {
        stage.secs = secs;
        assert_eq!(stage.go(), format!("inspect, Settling until {}", secs + 5));
    }
    // A server that runs was heard of by now, but not after that.
    stage.secs = SETTLE;
    assert_eq!(stage.go(), "inspect, WaitingForAPIServer until 70");
    stage.secs = SETTLE + 5;
    assert_eq!(stage.go(), format!("inspect, {SWEEP}, {CONFIRM}, Migrated"));
}

#[test]
#[expect(clippy::large_stack_arrays, reason = "a table of stages, each a whole run")]
fn it_does_not_begin_where() {
    let denied = || Surroundings { rights: lacking("list widgets"), ..Surroundings::default() };
    let busy = || Surroundings { other_migrator: Some("other".to_owned()), ..Surroundings::default() };
    let trimmed = Crd { stored_versions: vec!["v1".to_owned()], ..crd() };
    let with = |crd: Crd| Stage { crd: Some(quiet(crd)), ..Stage::new() };
    let table = [
        ("there is no CRD", Stage { crd: None, ..Stage::new() }, "TargetNotFound"),
        ("it is being deleted", with(Crd { terminating: true, ..crd() }), "TargetTerminating"),
        ("there is nothing to do", with(trimmed), "NothingToMigrate"),
        ("an older migration is in charge", Stage { rival: Some("old"), ..Stage::new() }, "AnotherMigrator"),
        ("a right is missing", Stage { around: denied(), ..Stage::new() }, "review, AccessDenied until 30"),
        (
            "another migrator is at work",
            Stage { around: busy(), ..Stage::new() },
            "review, AnotherMigrator until 30",
        ),
        ("the server is down", Stage { down: true, ..Stage::new() }, "review, BackingOff until 1"),
    ];
    for (case, mut stage, said) in table {
        assert_eq!(stage.go(), said, "{case}");
    }
}

#[test]
fn what_stood_in_the_way_is_asked_for_again_in_time_or_when_something_changes() {
    let denied = Surroundings { rights: lacking("list widgets"), ..Surroundings::default() };
    let held = || {
        let mut stage = Stage { around: denied.clone(), ..Stage::new() };
        stage.go();
        stage
    };
    assert_eq!(held().at(29), "AccessDenied until 30");
    assert_eq!(held().at(30), "review");
    let mut edited = held();
    edited.edit(|_| {});
    assert_eq!(edited.at(1), "review");
    let mut touched = held();
    touched.see(Crd { resource_version: "101".to_owned(), ..crd() });
    assert_eq!(touched.at(1), "review");
}

#[test]
fn a_suspended_run_goes_on_from_the_same_place() {
    let mut stage = sweeping();
    stage.edit(|spec| spec.suspend = true);
    assert_eq!(stage.go(), "Suspended");
    stage.edit(|spec| spec.suspend = false);
    assert_eq!(stage.go(), format!("list after b, visit, {CONFIRM}, Migrated"));
}

#[test]
fn a_migrator_that_begins_during_the_run_is_seen_by_its_condition() {
    let mut stage = sweeping();
    stage.around.other_migrator = Some("other".to_owned());
    stage.see(Crd { migrating: true, resource_version: "101".to_owned(), ..crd() });
    assert_eq!(stage.go(), "review, AnotherMigrator until 30");
    // It is gone, and its condition left over.
    stage.around.other_migrator = None;
    stage.secs = 30;
    assert_eq!(stage.go(), whole_run());
}

#[test]
fn a_rival_holds_a_run_that_is_under_way() {
    let mut stage = sweeping();
    stage.rival = Some("old");
    assert_eq!(stage.go(), "AnotherMigrator");
    stage.rival = None;
    assert_eq!(stage.at(0), "list after b");
}

#[test]
fn a_drift_during_a_run_leads_to() {
    let table: [(&str, &[Crd], String); 10] = [
        ("nothing changed", &[], "list after b".to_owned()),
        ("the schema changed", &[generation(8)], "list after b".to_owned()),
        ("a generation was missed", &[generation(9)], "review, inspect, Settling until 5".to_owned()),
        ("the flag moved", &[moved(&crd())], "review, inspect, Settling until 5".to_owned()),
        (
            "the flag moved away and back",
            &[moved(&crd()), generation(9)],
            "review, inspect, Settling until 5".to_owned(),
        ),
        ("the conversion changed", &[conversion(8)], "ConversionChanged".to_owned()),
        ("and was restored", &[conversion(8), generation(9)], "review, inspect, Settling until 5".to_owned()),
        ("it is being deleted", &[Crd { terminating: true, ..crd() }], "TargetTerminating".to_owned()),
        (
            "it was re-created",
            &[Crd { uid: "crd-2".to_owned(), ..crd() }],
            "review, inspect, Settling until 5".to_owned(),
        ),
        ("it is not Established", &[Crd { established: false, ..crd() }], "Waiting".to_owned()),
    ];
    for (case, sights, said) in table {
        for mut stage in [sweeping(), confirming()] {
            for sight in sights {
                stage.see(sight.clone());
            }
            assert_eq!(stage.go_until("list after"), said, "{case}");
        }
    }
    for mut stage in [sweeping(), confirming()] {
        stage.crd = None;
        assert_eq!(stage.go(), "TargetNotFound");
        assert_eq!(stage.status().checkpoint, None);
    }
}

#[test]
fn a_flag_that_moved_away_and_back_makes_every_object_be_visited_again() {
    let mut stage = confirming();
    stage.see(generation(9));
    // The first sweep stays done; the confirm relies on nothing.
    assert_eq!(stage.go(), "review, inspect, Settling until 5");
    assert_eq!(stage.settle(), "inspect, inspect, list, visit, list after b, visit, trim, Migrated");
    assert_eq!(stage.secs, SETTLE + 5);
}

#[test]
fn a_flag_that_moved_away_and_back_just_before_the_trim_is_noticed() {
    for kind in [StoredVersions::Trim, StoredVersions::Keep] {
        let mut stage = Stage::new();
        stage.spec.stored_versions = kind;
        assert!(stage.go_until("trim").ends_with("trim"), "{kind:?}");
        // The live read shows it.
        stage.see(generation(9));
        stage.act(&Step::Trim);
        assert_eq!(stage.go(), "review, inspect, Settling until 5", "{kind:?}");
    }
}

#[test]
fn a_loss_that_is_accepted_starts_a_run_over_once() {
    let mut stage = sweeping();
    stage.edit(|spec| spec.accept_field_loss = true);
    assert_eq!(stage.go(), whole_run());
}

#[test]
fn a_run_that_keeps_stored_versions_ends_where_it_would_trim() {
    let mut stage = Stage::new();
    stage.spec.stored_versions = StoredVersions::Keep;
    assert_eq!(stage.go(), whole_run().replace(" Migrated", " MigratedNotTrimmed"));
    assert_eq!(stage.crd.as_ref().map(|r| r.crd().stored_versions.len()), Some(2));
    assert_eq!(stage.restarted().go(), "MigratedNotTrimmed");
}

#[test]
fn a_changed_conversion_holds_until_it_is_restored_or_accepted_by_a_new_generation() {
    let held = || {
        let mut stage = sweeping();
        stage.see(conversion(8));
        assert_eq!(stage.go(), "ConversionChanged");
        stage.secs = 1000;
        stage
    };
    assert_eq!(held().at(100_000), "ConversionChanged");
    assert_eq!(held().restarted().go(), "review, ConversionChanged until 30");
    let mut accepted = held();
    accepted.edit(|_| {});
    assert_eq!(accepted.go(), "review, inspect, WaitingForAPIServer until 1005");
    assert_eq!(accepted.settle(), whole_run().replace("review, ", ""));
    let mut restarted = held().restarted();
    restarted.edit(|_| {});
    assert_eq!(restarted.go(), whole_run());
}

#[test]
fn an_accepted_conversion_stays_accepted_where_a_request_fails_in_between() {
    let mut stage = sweeping();
    stage.see(conversion(8));
    assert_eq!(stage.go(), "ConversionChanged");
    stage.secs = 1000;
    stage.edit(|_| {});
    stage.down = true;
    assert_eq!(stage.go(), "review, BackingOff until 1001");
    stage.down = false;
    stage.secs = 1001;
    assert_eq!(stage.go(), "review, inspect, WaitingForAPIServer until 1006");
    assert_eq!(stage.settle(), whole_run().replace("review, ", ""));
}

#[test]
fn a_server_that_is_down_is_left_alone_and_the_place_is_kept() {
    let mut stage = sweeping();
    stage.down = true;
    assert_eq!(stage.go(), "list after b, BackingOff until 1");
    stage.secs = 1;
    assert_eq!(stage.go(), "list after b, BackingOff until 3");
    stage.down = false;
    stage.secs = 3;
    assert_eq!(stage.go(), format!("list after b, visit, {CONFIRM}, Migrated"));
}

#[test]
fn a_page_on_which_every_object_fails_does_not_keep_the_next_one_from_being_listed() {
    let mut stage = Stage::new();
    stage.answer = |object| (object.name != "c").then(|| Outcome::Deferred(failure(500, "not decodable")));
    assert_eq!(stage.go(), "review, inspect, list, visit, list after b, visit, Sweeping until 1");
    let mut waiting = Stage::new();
    waiting.answer = stage.answer;
    waiting.go_until("list after");
    assert_eq!(waiting.at(100), "list after b", "although a and b are due");
}

#[test]
fn a_trim_that_fails_is_tried_again() {
    let at_trim = || {
        let mut stage = Stage::new();
        stage.go_until("trim");
        stage
    };
    let mut denied = at_trim();
    denied.trim_fails(&failure(403, "forbidden"));
    assert_eq!(denied.go(), "AccessDenied until 30");
    denied.secs = 30;
    assert_eq!(denied.go(), "trim, Migrated");
    let mut beaten = at_trim();
    beaten.trim_conflicts();
    assert_eq!(beaten.go(), "Trimming until 1");
    beaten.secs = 1;
    assert_eq!(beaten.go(), "trim, Migrated");
    let mut down = at_trim();
    down.trim_fails(&failure(500, "down"));
    assert_eq!(down.go(), "BackingOff until 1");
    down.secs = 1;
    assert_eq!(down.go(), "trim, Migrated");
}

#[test]
fn denied_listing_holds_the_run_and_keeps_its_place() {
    let mut stage = sweeping();
    stage.deny_list();
    assert_eq!(stage.go(), "AccessDenied until 30");
    assert_eq!(stage.at(30), "list after b");
    assert_eq!(stage.run.phase(at(stage.secs)).reason, Reason::Sweeping);
}
