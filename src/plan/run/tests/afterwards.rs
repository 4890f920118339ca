//! What becomes of a run that has ended, or whose process has.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::{Mode, Pace, StorageMigrationStatus, StoredVersions};
use crate::plan::sample::{at, crd, failure, moved, quiet};
use crate::plan::{Crd, Outcome, PageRequest, Seal, Step, StoredBesides};

use super::stage::Stage;
use super::{confirming, done, sweeping, whole_run};

#[test]
fn a_result_that_is_undone_is_repeated_after_a_minute_and_later_each_time() {
    let undo = |stage: &mut Stage, secs, resource_version: &str| {
        stage.secs = secs;
        stage.see(Crd { resource_version: resource_version.to_owned(), ..crd() });
        stage.go()
    };
    let mut stage = done();
    assert_eq!(undo(&mut stage, 10, "102"), "Waiting until 60");
    stage.secs = 60;
    assert_eq!(stage.go(), whole_run());
    assert_eq!(undo(&mut stage, 61, "104"), "Waiting until 180");
    stage.secs = 180;
    assert_eq!(stage.go(), whole_run());
    assert_eq!(undo(&mut stage, 181, "106"), "Waiting until 420");
    // Whoever has stopped the other writer need not wait.
    stage.edit(|_| {});
    assert_eq!(stage.go(), whole_run());
    assert_eq!(undo(&mut stage, 200, "108"), "Waiting until 241");
    // Long afterwards it is not the same fight any more.
    assert_eq!(undo(&mut stage, 100_000, "110"), whole_run());
    assert_eq!(undo(&mut stage, 100_001, "112"), "Waiting until 100060");
    for (after, wait) in [(7199, 120), (7200, 60)] {
        let mut stage = done();
        assert_eq!(undo(&mut stage, after, "102"), whole_run());
        assert_eq!(undo(&mut stage, after + 1, "104"), format!("Waiting until {}", after + wait));
    }
}

#[test]
fn objects_may_be_stored_in_what_was_named_when_the_run_began_until_it_has_ended() {
    let names = |names: &[&str]| StoredBesides::In(names.iter().map(|&name| name.to_owned()).collect());
    let mut begun = sweeping().restarted();
    begun.see(Crd { stored_versions: vec!["v1".to_owned()], resource_version: "101".to_owned(), ..crd() });
    assert_eq!(begun.stored_besides(), names(&["v1beta1", "v1"]));
    begun.see(Crd { uid: "another".to_owned(), ..crd() });
    assert_eq!(begun.stored_besides(), names(&[]), "objects of another CRD");
    let mut ended = done();
    assert_eq!(ended.stored_besides(), names(&[]));
    ended.edit(|spec| spec.mode = Mode::Always);
    assert_eq!(ended.stored_besides(), StoredBesides::Any);
}

#[test]
fn a_migration_that_is_done_is_left_alone_until_the_storage_version_moves() {
    let mut stage = done();
    let before = stage.status().clone();
    assert_eq!(stage.at(1000), "Migrated");
    let mut restarted = stage.restarted();
    assert_eq!(restarted.at(5000), "Migrated");
    assert_eq!(*restarted.status(), before);
    restarted.see(Crd { stored_versions: vec!["v1".to_owned(), "v1beta1".to_owned()], ..moved(&crd()) });
    assert_eq!(restarted.at(5000), "review");
}

#[test]
fn a_migration_that_is_done_is_deleted_when_its_time_is_over() {
    let mut stage = done();
    stage.edit(|spec| spec.ttl_seconds_after_finished = Some(60));
    assert_eq!(stage.at(59), "Migrated until 60");
    assert_eq!(stage.at(60), "expire");
    assert_eq!(stage.restarted().at(61), "expire");
    let mut at_work = sweeping();
    at_work.edit(|spec| spec.ttl_seconds_after_finished = Some(60));
    assert_eq!(at_work.at(1000), "list after b");
}

#[test]
fn a_time_to_live_of_ages_is_no_trouble_where_the_clock_was_set_back() {
    let mut stage = done();
    stage.edit(|spec| spec.ttl_seconds_after_finished = Some(i64::MAX));
    let ended_later = Some(Time(at(100).wall));
    let status = StorageMigrationStatus { completion_time: ended_later, ..stage.status().clone() };
    let mut restarted = Stage { crd: stage.crd, spec: stage.spec, generation: 2, ..Stage::from(status) };
    assert!(restarted.at(0).starts_with("Migrated until"));
}

#[test]
fn a_migration_that_is_done_is_not_done_with_a_crd_that_was_created_anew() {
    let trimmed = || Crd { uid: "crd-2".to_owned(), stored_versions: vec!["v1".to_owned()], ..crd() };
    let mut stage = done();
    stage.see(trimmed());
    assert_eq!(stage.go(), "NothingToMigrate");
    let mut stage = done();
    stage.see(Crd { stored_versions: crd().stored_versions, ..trimmed() });
    assert_eq!(stage.go(), "review, inspect, Settling until 5");
}

#[test]
fn always_makes_one_full_run_for_each_generation() {
    let mut stage = done();
    assert_eq!(stage.at(100), "Migrated");
    stage.edit(|spec| spec.mode = Mode::Always);
    assert_eq!(stage.go(), whole_run());
    assert_eq!(stage.at(200), "Migrated");
    assert_eq!(stage.restarted().at(300), "Migrated");
    stage.edit(|_| {});
    assert_eq!(stage.go(), whole_run());
}

#[test]
fn always_runs_again_where_an_old_version_is_back_in_stored_versions() {
    let mut stage = Stage::new();
    stage.edit(|spec| spec.mode = Mode::Always);
    assert_eq!(stage.go(), whole_run());
    let mut restarted = stage.restarted();
    // The flag moved away and back while nobody looked.
    restarted.crd = Some(quiet(Crd { generation: 9, ..crd() }));
    assert_eq!(restarted.go(), whole_run());
    stage.secs = 10;
    stage.see(Crd { resource_version: "102".to_owned(), ..crd() });
    assert_eq!(stage.go(), "Waiting until 60");
}

#[test]
fn a_full_run_asked_for_during_another_is_made_in_full() {
    let ask = |stage: &mut Stage| stage.edit(|spec| (spec.mode, spec.page_size) = (Mode::Always, Some(7)));
    let mut stage = sweeping();
    ask(&mut stage);
    assert_eq!(stage.go(), whole_run());

    let mut refused = Stage::new();
    refused.answer = |object| (object.name == "a").then(|| Outcome::Refused(failure(422, "invalid")));
    for secs in [0, 1, 3] {
        refused.secs = secs;
        refused.go();
    }
    ask(&mut refused);
    assert_eq!(refused.go_until("list after"), "review, inspect, list, visit, list after b");

    let mut restarted = confirming().restarted();
    ask(&mut restarted);
    assert_eq!(restarted.go(), whole_run());
    let mut down = confirming().restarted();
    ask(&mut down);
    down.down = true;
    down.go();
    (down.down, down.secs) = (false, 60);
    assert_eq!(down.go(), whole_run());
}

#[test]
fn a_full_run_goes_on_at_the_same_place_after_a_break_and_at_another_pace() {
    let mut stage = Stage::new();
    stage.edit(|spec| spec.mode = Mode::Always);
    stage.go_until("list after");
    stage.edit(|spec| spec.suspend = true);
    assert_eq!(stage.go(), "Suspended");
    stage.edit(|spec| {
        spec.suspend = false;
        spec.pace = Some(Pace { writes_per_second: Some(5), max_in_flight: None });
    });
    assert_eq!(stage.at(1), "list after b");
}

#[test]
fn a_kept_result_stands_until_the_flag_may_have_moved_away_and_back() {
    for mode in [Mode::IfStale, Mode::Always] {
        let mut stage = Stage::new();
        (stage.spec.stored_versions, stage.spec.mode) = (StoredVersions::Keep, mode);
        stage.go();
        assert_eq!(stage.at(100), "MigratedNotTrimmed");
        // A change that was seen to be harmless, and one that nobody saw.
        stage.see(Crd { generation: 8, ..crd() });
        assert_eq!(stage.at(200), "MigratedNotTrimmed");
        let mut restarted = stage.restarted();
        assert_eq!(restarted.at(300), "MigratedNotTrimmed");
        restarted = stage.restarted();
        restarted.crd = Some(quiet(Crd { generation: 10, ..crd() }));
        assert_eq!(
            restarted.go(),
            "review, inspect, list, visit, list after b, visit, inspect, list, list after b, trim, MigratedNotTrimmed"
        );
    }
}

#[test]
fn a_result_stands_for_whoever_expects_its_version_and_for_nobody_else() {
    let mut stage = Stage::new();
    stage.spec.expected_storage_version = Some("v1".to_owned());
    stage.go();
    assert_eq!(stage.at(100), "Migrated");
    stage.edit(|spec| spec.expected_storage_version = Some("v2".to_owned()));
    assert_ne!(stage.at(200), "Migrated");
}

#[test]
fn a_run_is_taken_up_at_its_checkpoint_after_a_restart() {
    let mut restarted = sweeping().restarted();
    // The checkpoint is that of the latest page that was listed: the first one.
    assert_eq!(restarted.go_until("list"), "review, inspect, list");
    let mut stage = sweeping();
    stage.act(&Step::List(PageRequest { continue_token: Some("b".to_owned()), limit: 2 }));
    stage.go_until("visit");
    let mut restarted = stage.restarted();
    assert_eq!(
        restarted.go(),
        "review, inspect, list after b, visit, inspect, list, visit, list after b, trim, Migrated",
        "the confirm visits what this process has not"
    );
    assert_eq!(restarted.status().progress.as_ref().map(|p| p.summary.as_str()), Some("3/3 100%"));
}

#[test]
fn a_run_that_has_begun_is_brought_to_its_end_although_somebody_else_trimmed() {
    let trimmed = || Crd { stored_versions: vec!["v1".to_owned()], ..crd() };
    let mut restarted = sweeping().restarted();
    restarted.see(trimmed());
    assert_eq!(restarted.go(), whole_run());
    let mut refused = Stage::new();
    refused.answer = |object| (object.name == "a").then(|| Outcome::Refused(failure(422, "invalid")));
    for secs in [0, 1, 3] {
        refused.secs = secs;
        refused.go();
    }
    assert_eq!(refused.at(4), "ObjectsRefused until 63");
    let mut restarted = refused.restarted();
    restarted.see(trimmed());
    assert_eq!(restarted.go_until("list"), "review, inspect, list after b");
    // One that was created anew is another one, on which nothing has begun.
    restarted.crd = Some(quiet(Crd { uid: "crd-2".to_owned(), ..trimmed() }));
    assert_eq!(restarted.go(), "NothingToMigrate");
}

#[test]
fn a_confirm_starts_over_after_a_restart_and_visits_everything() {
    let mut restarted = confirming().restarted();
    assert_eq!(restarted.go(), "review, inspect, inspect, list, visit, list after b, visit, trim, Migrated");
}

#[test]
fn a_confirm_that_carries_the_seal_goes_on_in_its_middle() {
    let sealed = |key: u8| Stage { seal: Some(Seal::new(&[key; 64], "migration-1")), ..Stage::new() };
    let mut stage = sealed(1);
    stage.go_until("list after");
    stage.act(&Step::List(PageRequest { continue_token: Some("b".to_owned()), limit: 2 }));
    assert_eq!(stage.go_until("list after"), "visit, inspect, list, list after b");
    stage.act(&Step::List(PageRequest { continue_token: Some("b".to_owned()), limit: 2 }));
    stage.decide();
    assert_eq!(stage.restarted().go(), "review, inspect, list after b, visit, trim, Migrated");

    let mut other_key = Stage { seal: sealed(2).seal, ..stage.restarted() };
    assert_eq!(other_key.go(), "review, inspect, inspect, list, visit, list after b, visit, trim, Migrated");
    let mut moved_meanwhile = stage.restarted();
    moved_meanwhile.crd = Some(quiet(Crd { generation: 8, ..crd() }));
    assert_eq!(
        moved_meanwhile.go(),
        "review, inspect, inspect, list, visit, list after b, visit, trim, Migrated"
    );
}

#[test]
fn a_forged_checkpoint_is_not_sealed_by_being_taken_up() {
    let mut stage = Stage { seal: Some(Seal::new(&[1; 64], "migration-1")), ..confirming() };
    let mut forged = stage.status().clone();
    if let Some(checkpoint) = &mut forged.checkpoint {
        checkpoint.continue_token = Some("c".to_owned());
    }
    let mut taken_up = Stage { seal: stage.seal.take(), ..Stage::from(forged) };
    assert_eq!(taken_up.go_until("inspect"), "review, inspect");
    // What restow made of it is a confirm from its first page.
    assert_eq!(
        taken_up.restarted().go(),
        "review, inspect, list, visit, list after b, visit, trim, Migrated"
    );
}

#[test]
fn after_a_restart_refused_objects_are_found_again_and_nothing_is_trimmed() {
    let mut stage = Stage::new();
    stage.answer = |object| (object.name == "a").then(|| Outcome::Refused(failure(422, "invalid")));
    let refused = |stage: &mut Stage| {
        for secs in [0, 1, 3] {
            stage.secs = secs;
            assert!(!stage.go().contains("trim"));
        }
        assert_eq!(stage.at(4), "ObjectsRefused until 63");
        assert_eq!(stage.status().refusals.len(), 1);
        assert_eq!(stage.status().progress.as_ref().map(|p| (p.refused, p.visited)), Some((1, 3)));
    };
    refused(&mut stage);
    refused(&mut Stage { answer: stage.answer, ..stage.restarted() });
}

#[test]
fn a_run_is_given_up_at_its_deadline_and_taken_up_by_a_new_generation() {
    let mut stage = sweeping();
    stage.edit(|spec| spec.active_deadline_seconds = Some(100));
    assert_eq!(stage.at(100), "list after b");
    assert_eq!(stage.at(101), "DeadlineExceeded");
    assert_eq!(stage.restarted().at(0), "DeadlineExceeded");
    stage.edit(|spec| spec.active_deadline_seconds = Some(200));
    assert!(stage.at(102).starts_with("review"));
    stage.go();
    assert_eq!(stage.status().start_time.as_ref().map(|t| t.0), Some(at(102).wall), "it has its time anew");
}

#[test]
fn a_run_suspended_after_its_deadline_has_its_time_anew() {
    let mut stage = sweeping();
    stage.edit(|spec| spec.active_deadline_seconds = Some(100));
    assert_eq!(stage.at(101), "DeadlineExceeded");
    stage.edit(|spec| spec.suspend = true);
    assert_eq!(stage.at(102), "Suspended");
    stage.edit(|spec| spec.suspend = false);
    stage.secs = 200;
    stage.go_until("list");
    assert_eq!(stage.at(299), "list");
    assert_eq!(stage.at(301), "DeadlineExceeded");
}
