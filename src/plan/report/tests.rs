#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use std::num::NonZeroU32;
use std::time::Duration;

use insta::assert_yaml_snapshot;

use super::{started, status};
use crate::api::{REFUSALS_LISTED_MAX, Reason, StorageMigrationStatus, TargetStatus};
use crate::plan::sample::{at, crd, failure, object, page, quiet, server, spec, target};
use crate::plan::{
    ApiServer, CompleteSweep, Conclusion, Crd, CrdRecord, Failure, Finding, Limits, Object, Observation,
};
use crate::plan::{Outcome, Page, Sweep, sentence};

/// The status after `finding` at that second, the run having started at second 0.
fn say(sweep: Option<&Sweep>, finding: &Finding, secs: u64) -> StorageMigrationStatus {
    let before = started(&StorageMigrationStatus::default(), false, at(0).wall);
    next(&before, sweep, finding, secs)
}

fn next(
    before: &StorageMigrationStatus,
    sweep: Option<&Sweep>,
    finding: &Finding,
    secs: u64,
) -> StorageMigrationStatus {
    with(Some(&quiet(crd())), |seen| status(before, sweep.map(Into::into), seen, finding, at(secs).wall))
}

fn with<T>(crd: Option<&CrdRecord>, tell: impl FnOnce(&Observation<'_>) -> T) -> T {
    let limits = Limits { writes_per_second: None, max_in_flight: NonZeroU32::MIN, page_size: 500 };
    let settle = Duration::from_secs(65);
    tell(&Observation {
        spec: &spec(),
        generation: 2,
        retry: None,
        ignored_servers: None,
        crd,
        rival: None,
        outage: None,
        settle,
        limits,
    })
}

fn visit_all(sweep: &mut Sweep, answer: impl Fn(&Object) -> Outcome) {
    let mut now = Duration::ZERO;
    while let Some(visit) = sweep.next(now).or_else(|| {
        now = sweep.next_due()?;
        sweep.next(now)
    }) {
        let outcome = answer(visit.object());
        sweep.record(visit, outcome, now);
    }
}

/// Two of five objects are visited.
fn under_way() -> Sweep {
    let mut sweep = Sweep::first(target().unwrap());
    sweep.list(Page { remaining: Some(3), ..page(&["a", "b"], Some("after-b")) });
    visit_all(&mut sweep, |_| Outcome::Rewritten("2".to_owned()));
    sweep
}

fn at_its_end(answer: impl Fn(&Object) -> Outcome) -> Sweep {
    let mut sweep = under_way();
    sweep.list(page(&["bad", "c", "gone"], None));
    visit_all(&mut sweep, answer);
    sweep
}

fn good(object: &Object) -> Outcome {
    if object.name == "gone" { Outcome::Gone } else { Outcome::Unchanged }
}

fn refused() -> Sweep {
    at_its_end(|o| match o.name.as_str() {
        "bad" => Outcome::Refused(Failure {
            reason: "Invalid".to_owned(),
            ..failure(422, "spec.size: Required value")
        }),
        _ => good(o),
    })
}

fn complete() -> CompleteSweep {
    let Conclusion::Unconfirmed(sweep) = at_its_end(good).conclude() else { panic!("open") };
    let mut confirm = sweep.into_confirm(7);
    confirm.list(Page::default());
    let Conclusion::Complete(complete) = confirm.conclude() else { panic!("open") };
    complete
}

#[test]
fn a_status_before_the_first_visit() {
    let sweep = Sweep::first(target().unwrap());
    let finding = sentence::settling(sweep.target(), Duration::from_millis(59_200));
    assert_yaml_snapshot!(say(Some(&sweep), &finding, 5));
}

#[test]
fn a_status_in_the_middle_of_the_first_sweep() {
    let sweep = under_way();
    assert_yaml_snapshot!(say(Some(&sweep), &sentence::sweeping(&sweep), 200));
}

#[test]
fn a_status_in_the_confirm() {
    let Conclusion::Unconfirmed(sweep) = at_its_end(good).conclude() else { panic!("open") };
    let mut confirm = sweep.into_confirm(7);
    confirm.list(page(&["a"], Some("after-a")));
    visit_all(&mut confirm, good);
    assert_yaml_snapshot!(say(Some(&confirm), &sentence::sweeping(&confirm), 200));
}

#[test]
fn a_status_with_a_refused_object() {
    let sweep = refused();
    assert_yaml_snapshot!(say(Some(&sweep), &sentence::refused(&sweep), 200));
}

#[test]
fn a_status_that_is_done() {
    let complete = complete();
    let before = say(None, &sentence::trimming(&complete), 0);
    let trimmed = Crd { stored_versions: vec!["v1".to_owned()], ..crd() };
    let done = with(Some(&quiet(trimmed)), |seen| {
        status(&before, Some((&complete).into()), seen, &sentence::migrated(&complete), at(200).wall)
    });
    assert_yaml_snapshot!(done);
}

#[test]
fn a_status_with_nothing_to_migrate_and_one_without_a_crd() {
    let nothing = Finding::new(Reason::NothingToMigrate, "nothing to do");
    assert_yaml_snapshot!("nothing_to_migrate", say(None, &nothing, 0));
    let sweep = under_way();
    let before = say(Some(&sweep), &sentence::sweeping(&sweep), 10);
    let gone = Finding::new(Reason::TargetNotFound, "there is no such CustomResourceDefinition");
    assert_yaml_snapshot!("target_not_found", next(&before, None, &gone, 20));
}

#[test]
fn each_sentence_says_what_is_the_matter_and_what_to_do() {
    let spec = spec();
    let (sweep, complete) = (refused(), complete());
    let on_host = ApiServer { host: Some("host-1".to_owned()), ..server("a", 0) };
    let said = [
        sentence::settling(sweep.target(), Duration::from_millis(1)),
        sentence::sweeping(&under_way()),
        sentence::backing_off(Duration::from_millis(1500), "503: down"),
        sentence::refused(&sweep),
        sentence::waiting_for_servers(&[&on_host, &server("b", 0)], &[], Duration::from_secs(85)),
        sentence::waiting_for_servers(&[], &[&on_host], Duration::from_secs(85)),
        sentence::waiting_for_servers(&[&on_host], &[&server("b", 0)], Duration::from_secs(85)),
        sentence::servers_ignored(sentence::migrated(&complete), &["a on host-1".to_owned()]),
        sentence::trimming(&complete),
        sentence::migrated(&complete),
        sentence::migrated_not_trimmed(&complete),
        sentence::conversion_changed(&spec),
        sentence::undone(&spec, &[], Duration::from_mins(1)),
        sentence::undone(&spec, &["gitops".to_owned()], Duration::from_mins(2)),
        sentence::rival(&spec, "old"),
        sentence::deadline_exceeded(jiff::SignedDuration::from_secs(3600)),
    ];
    let said: Vec<String> = said.iter().map(|f| format!("{}: {}", f.reason, f.message)).collect();
    assert_yaml_snapshot!(said);
}

#[test]
fn a_status_with_ten_thousand_refusals_of_the_longest_kind_stays_small() {
    let said = Failure { reason: "R".repeat(100_000), ..failure(422, &"\"".repeat(100_000)) };
    let names: Vec<String> = (0..10_000).map(|n| format!("{n:0>253}")).collect();
    let mut sweep = Sweep::first(target().unwrap());
    for names in names.chunks(500) {
        let objects =
            names.iter().map(|n| Object { namespace: Some("n".repeat(63)), ..object(n, "1") }).collect();
        sweep.list(Page { objects, continue_token: Some("t".repeat(400)), remaining: None });
        visit_all(&mut sweep, |_| Outcome::Refused(said.clone()));
    }
    let status = say(Some(&sweep), &sentence::refused(&sweep), 10);
    assert_eq!(status.progress.as_ref().map(|p| p.refused), Some(10_000));
    assert_eq!(status.refusals.len(), REFUSALS_LISTED_MAX);
    let bytes = serde_json::to_vec(&status).unwrap().len();
    assert!(bytes < 32 * 1024, "{bytes} bytes");
}

#[test]
fn a_status_says_the_same_until_something_changes() {
    let sweep = under_way();
    let first = say(Some(&sweep), &sentence::rival(&spec(), "old"), 10);
    assert_eq!(next(&first, Some(&sweep), &sentence::rival(&spec(), "old"), 500), first);
    let changed = next(&first, Some(&sweep), &sentence::sweeping(&sweep), 500);
    let since = |status: &StorageMigrationStatus| status.conditions[0].last_transition_time.0;
    assert_eq!((since(&first), since(&changed)), (at(10).wall, at(500).wall));
    let later = next(&changed, Some(&sweep), &sentence::backing_off(Duration::from_secs(1), "down"), 600);
    assert_eq!(since(&later), at(500).wall, "it is Unknown since then, whatever the reason");
}

#[test]
fn a_run_that_starts_keeps_what_it_takes_up_and_nothing_else() {
    let sweep = refused();
    let before = say(Some(&sweep), &sentence::refused(&sweep), 10);
    let resumed = started(&before, true, at(50).wall);
    assert_eq!((&resumed.start_time, &resumed.checkpoint), (&before.start_time, &before.checkpoint));
    let anew = started(&before, false, at(50).wall);
    assert_eq!(anew.start_time.map(|t| t.0), Some(at(50).wall));
    assert_eq!((anew.target, anew.progress, anew.checkpoint, anew.refusals.len()), (None, None, None, 0));
}

#[test]
fn what_was_stored_before_is_remembered_for_as_long_as_crd_and_storage_version_are_the_same() {
    let sweep = under_way();
    let before = say(Some(&sweep), &sentence::sweeping(&sweep), 10);
    let told = before.target.clone().unwrap();
    let older = vec!["v0".to_owned()];
    let of = |crd_uid: &str, storage_version: &str| {
        let (crd_uid, storage_version) = (crd_uid.to_owned(), storage_version.to_owned());
        let target =
            TargetStatus { crd_uid, storage_version, stored_versions_before: older.clone(), ..told.clone() };
        let before = StorageMigrationStatus { target: Some(target), ..before.clone() };
        let after = next(&before, Some(&sweep), &sentence::sweeping(&sweep), 20);
        after.target.unwrap().stored_versions_before
    };
    assert_eq!(of(&told.crd_uid, &told.storage_version), older);
    assert_eq!(of("another", &told.storage_version), told.stored_versions_before);
    assert_eq!(of(&told.crd_uid, "v9"), told.stored_versions_before);
}
