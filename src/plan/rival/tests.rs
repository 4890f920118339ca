use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::rival;
use crate::api::TargetStatus;
use crate::api::{
    Conditions, Reason, StorageMigration, StorageMigrationSpec, StorageMigrationStatus, TargetResource,
};
use crate::plan::Crd;
use crate::plan::sample::{clock, crd, moved, spec};

fn migration(name: &str, created: i64, says: Option<Reason>) -> StorageMigration {
    let status = says.map(|reason| StorageMigrationStatus {
        observed_generation: Some(3),
        conditions: Conditions::build(&[], reason, "", 3, clock(0)),
        target: Some(TargetStatus {
            crd_generation: None,
            storage_version: "v1".to_owned(),
            crd_uid: "crd-1".to_owned(),
            ..TargetStatus::default()
        }),
        ..StorageMigrationStatus::default()
    });
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        uid: Some(format!("uid-{name}")),
        generation: Some(3),
        creation_timestamp: Some(Time(clock(created))),
        ..ObjectMeta::default()
    };
    StorageMigration { metadata, spec: spec(), status }
}

#[test]
fn the_oldest_that_is_not_done_is_in_charge() {
    let own = migration("own", 10, None);
    let elsewhere = StorageMigration {
        spec: StorageMigrationSpec::for_resource(TargetResource {
            group: "example.com".to_owned(),
            resource: "gadgets".to_owned(),
        }),
        ..migration("old", 0, None)
    };
    let edited = |mut other: StorageMigration| {
        other.metadata.generation = Some(4);
        other
    };
    let old = |says| migration("old", 0, says);
    let recreated = Crd { uid: "crd-2".to_owned(), ..crd() };
    let table = [
        ("there is no other", vec![], Some(crd()), None),
        ("a younger one", vec![migration("young", 20, None)], Some(crd()), None),
        ("an older one that has not begun", vec![old(None)], Some(crd()), Some("old")),
        ("an older one for another resource", vec![elsewhere], Some(crd()), None),
        ("an older one at work", vec![old(Some(Reason::Sweeping))], Some(crd()), Some("old")),
        (
            "an older one that needs a human",
            vec![old(Some(Reason::ObjectsRefused))],
            Some(crd()),
            Some("old"),
        ),
        ("an older one that has given up", vec![old(Some(Reason::DeadlineExceeded))], Some(crd()), None),
        (
            "one that had given up, and was edited",
            vec![edited(old(Some(Reason::DeadlineExceeded)))],
            Some(crd()),
            Some("old"),
        ),
        ("an older one that is done", vec![old(Some(Reason::Migrated))], Some(crd()), None),
        (
            "one that was done, and was edited",
            vec![edited(old(Some(Reason::Migrated)))],
            Some(crd()),
            Some("old"),
        ),
        (
            "one done with the version before",
            vec![old(Some(Reason::Migrated))],
            Some(moved(&crd())),
            Some("old"),
        ),
        ("one done with the CRD before", vec![old(Some(Reason::Migrated))], Some(recreated), Some("old")),
        ("one that is done while there is no CRD", vec![old(Some(Reason::Migrated))], None, Some("old")),
        ("two older ones", vec![migration("second", 5, None), old(None)], Some(crd()), Some("old")),
        (
            "an older one that is done and one that is not",
            vec![old(Some(Reason::Migrated)), migration("second", 5, None)],
            Some(crd()),
            Some("second"),
        ),
        (
            "one of the same second with a lower uid",
            vec![migration("aaa", 10, None)],
            Some(crd()),
            Some("aaa"),
        ),
        ("one of the same second with a higher uid", vec![migration("zzz", 10, None)], Some(crd()), None),
    ];
    for (case, mut all, crd, expected) in table {
        all.push(own.clone());
        assert_eq!(rival(&own, &all, crd.as_ref()), expected, "{case}");
    }
}
