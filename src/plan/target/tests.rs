#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use super::{Drift, Surroundings, Verdict, judge, judge_crd};
use crate::api::{Mode, Reason, StorageMigrationSpec};
use crate::plan::sample::{at, crd, moved, quiet, spec, target, version};
use crate::plan::{Crd, CrdVersion, FieldRisks, Rights, StoredBesides, VersionSchema};

fn trimmed() -> Crd {
    Crd { stored_versions: vec!["v1".to_owned()], ..crd() }
}

fn not_served() -> Crd {
    let storage = CrdVersion { served: false, ..version("v1", true) };
    Crd { versions: vec![version("v1beta1", false), storage], ..crd() }
}

#[test]
fn a_crd_by_itself_is_judged() {
    let always = StorageMigrationSpec { mode: Mode::Always, ..spec() };
    let expects = |v: &str| StorageMigrationSpec { expected_storage_version: Some(v.to_owned()), ..spec() };
    let table = [
        ("it is stale", spec(), Some(crd()), None),
        ("there is none", spec(), None, Some(Reason::TargetNotFound)),
        (
            "it is being deleted",
            spec(),
            Some(Crd { terminating: true, ..crd() }),
            Some(Reason::TargetTerminating),
        ),
        ("it is not Established", spec(), Some(Crd { established: false, ..crd() }), Some(Reason::Waiting)),
        ("it stores no version", spec(), Some(Crd { versions: vec![], ..crd() }), Some(Reason::Waiting)),
        ("it stores the expected version", expects("v1"), Some(crd()), None),
        ("it stores another one than expected", expects("v2"), Some(crd()), Some(Reason::Waiting)),
        (
            "another one than expected, although trimmed",
            expects("v2"),
            Some(trimmed()),
            Some(Reason::Waiting),
        ),
        ("it is trimmed", spec(), Some(trimmed()), Some(Reason::NothingToMigrate)),
        ("it is trimmed, and always to be migrated", always.clone(), Some(trimmed()), None),
        (
            "it doesn't serve what it stores",
            spec(),
            Some(not_served()),
            Some(Reason::StorageVersionNotServed),
        ),
        ("the same, always", always, Some(not_served()), Some(Reason::StorageVersionNotServed)),
    ];
    for (case, spec, crd, reason) in table {
        assert_eq!(judge_crd(&spec, crd.as_ref(), false).map(|f| f.reason), reason, "{case}");
        let begun = reason.filter(|reason| *reason != Reason::NothingToMigrate);
        assert_eq!(judge_crd(&spec, crd.as_ref(), true).map(|f| f.reason), begun, "{case}, in a run");
    }
}

#[test]
fn a_crd_and_what_stands_around_it_are_judged() {
    let lacks = Surroundings {
        rights: Rights { missing: vec!["patch widgets.example.com".to_owned()], by_name: false },
        ..Surroundings::default()
    };
    let busy = Surroundings {
        other_migrator: Some("StorageVersionMigration old".to_owned()),
        ..Surroundings::default()
    };
    let table = [
        ("a right is missing", crd(), lacks.clone(), Reason::AccessDenied, "patch widgets.example.com"),
        ("another migrator is at work", crd(), busy, Reason::AnotherMigrator, "StorageVersionMigration old"),
        ("nothing is to be done, right or no right", trimmed(), lacks, Reason::NothingToMigrate, "[v1]"),
    ];
    for (case, crd, around, reason, says) in table {
        let Verdict::Declined(finding) = judge(&spec(), Some(&crd), false, &around) else {
            unreachable!("{case}: accepted");
        };
        assert_eq!(finding.reason, reason, "{case}");
        assert!(finding.message.contains(says), "{case}: {}", finding.message);
    }
    let target = target().unwrap();
    assert_eq!((target.version(), target.resource().crd_name().as_str()), ("v1", "widgets.example.com"));
    assert_eq!(*target.accepted(), crd());
    assert_eq!(target.other_versions().collect::<Vec<_>>(), ["v1beta1"]);
}

#[test]
fn a_crd_has_drifted_where_it_encodes_objects_otherwise_or_may_have_done() {
    let next = || Crd { generation: 8, resource_version: "101".to_owned(), ..crd() };
    let webhook = r#"{"strategy":"Webhook"}"#.to_owned();
    let more = vec![version("v1beta1", false), version("v1", true), version("v2", false)];
    let missed = Crd { generation: 9, ..crd() };
    let table = [
        ("nothing changed", vec![], Drift::None),
        ("the schema changed", vec![next()], Drift::None),
        ("it changed twice, each time seen", vec![next(), missed.clone()], Drift::None),
        ("it was trimmed", vec![trimmed()], Drift::None),
        ("a generation was missed", vec![missed.clone()], Drift::Moved),
        ("the flag moved away and back", vec![moved(&crd()), missed], Drift::Moved),
        ("it was re-created", vec![Crd { uid: "crd-2".to_owned(), ..crd() }], Drift::Moved),
        (
            "it was re-created and is being deleted",
            vec![Crd { uid: "crd-2".to_owned(), terminating: true, ..crd() }],
            Drift::Moved,
        ),
        ("it is being deleted", vec![Crd { terminating: true, ..crd() }], Drift::Terminating),
        ("the flag moved", vec![moved(&crd())], Drift::Moved),
        ("a version was added", vec![Crd { versions: more, ..next() }], Drift::Moved),
        (
            "a version is not served any more",
            vec![Crd { versions: not_served().versions, ..next() }],
            Drift::Moved,
        ),
        ("the conversion changed", vec![Crd { conversion: webhook.clone(), ..next() }], Drift::Conversion),
        (
            "the flag and the conversion changed",
            vec![Crd { conversion: webhook.clone(), ..moved(&crd()) }],
            Drift::Moved,
        ),
        (
            "the conversion changed and was restored",
            vec![Crd { conversion: webhook, ..next() }, Crd { generation: 9, ..crd() }],
            Drift::Moved,
        ),
    ];
    for (case, sights, drift) in table {
        let mut record = quiet(crd());
        for sight in sights {
            record.observe(sight, at(1));
        }
        assert_eq!(target().unwrap().drift(&record), drift, "{case}");
    }
}

#[test]
fn a_target_knows_what_may_become_of_fields() {
    let schema = |name: &str, type_: &str| VersionSchema {
        name: name.to_owned(),
        schema: serde_json::json!({ "type": "object", "properties": { "size": { "type": type_ } } }),
    };
    let schemas = [schema("v1beta1", "integer"), schema("v1", "string")];
    let stored = ["v1beta1".to_owned()];
    let risks = FieldRisks::new(&schemas, &stored, &StoredBesides::In(Vec::new()), "v1");
    assert!(!risks.is_empty());
    let around = Surroundings { field_risks: risks.clone(), ..Surroundings::default() };
    let Verdict::Accepted(target) = judge(&spec(), Some(&crd()), false, &around) else {
        panic!("it is accepted");
    };
    assert_eq!(*target.field_risks(), risks);
}
