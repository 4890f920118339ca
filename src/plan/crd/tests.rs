use std::time::Duration;

use super::{Crd, CrdRecord};
use crate::plan::sample::{at, crd, moved, quiet};

fn generation(generation: i64) -> Crd {
    Crd { generation, ..crd() }
}

fn flipped(generation: i64) -> Crd {
    Crd { generation, ..moved(&crd()) }
}

/// Sights of a CRD one second after the other, the first at second 1, as an hour-old record takes them in.
fn record(sights: &[Crd]) -> CrdRecord {
    let mut record = quiet(crd());
    for (second, sight) in (1..).zip(sights) {
        record.observe(sight.clone(), at(second));
    }
    record
}

#[test]
fn a_record_is_unbroken_while_every_generation_was_seen_to_encode_alike() {
    let status_only = Crd { resource_version: "101".to_owned(), stored_versions: vec![], ..crd() };
    let ca_bundle = Crd { resource_version: "101".to_owned(), ..generation(8) };
    let conversion = Crd { conversion: "{}".to_owned(), ..generation(8) };
    let recreated = Crd { uid: "crd-2".to_owned(), ..generation(8) };
    let table: [(&str, &[Crd], bool); 11] = [
        ("nothing more was seen", &[], true),
        ("the same was seen again", &[generation(7)], true),
        ("only the status changed", &[status_only], true),
        ("only the CA bundle or the schema changed", &[ca_bundle], true),
        ("such changes one after the other", &[generation(8), generation(9), generation(10)], true),
        ("an older sight is ignored", &[generation(8), flipped(6), generation(9)], true),
        ("a generation was missed", &[generation(9)], false),
        ("the flag moved", &[flipped(8)], false),
        ("the flag moved away and back", &[flipped(8), generation(9)], false),
        ("the conversion changed", &[conversion], false),
        ("it was re-created", &[recreated], false),
    ];
    for (case, sights, unbroken) in table {
        let record = record(sights);
        assert_eq!(record.is_unbroken_since(7), unbroken, "{case}");
        let quiet_for = record.quiet_for(at(100));
        assert_eq!(quiet_for > Duration::from_hours(1) - Duration::from_secs(2), unbroken, "{case}");
        assert!(unbroken || quiet_for == Duration::from_secs(100 - sights.len() as u64), "{case}");
        assert!(record.is_unbroken_since(record.crd().generation), "{case}: the present one was seen");
    }
}

#[test]
fn the_latest_sight_is_kept_and_an_older_one_is_not() {
    assert_eq!(record(&[generation(8), generation(7)]).crd().generation, 8);
    let recreated = Crd { uid: "crd-2".to_owned(), ..generation(1) };
    assert_eq!(record(&[recreated]).crd().uid, "crd-2", "generations of another CRD say nothing");
}

#[test]
fn an_age_told_by_the_server_counts_less_what_its_clock_cuts_off() {
    let secs = Duration::from_secs;
    let table = [
        ("nothing was told", None, 0, 10),
        ("an age of 60 s at second 0", Some(60), 0, 68),
        ("the same at second 10", Some(60), 10, 58),
        ("less than what was seen", Some(5), 10, 10),
        ("less than the clock cuts off", Some(1), 0, 10),
    ];
    for (case, age, told_at, quiet_at_10) in table {
        let mut record = CrdRecord::new(crd(), at(0));
        if let Some(age) = age {
            record.observe_age(secs(age), at(told_at));
        }
        assert_eq!(record.quiet_for(at(10)), secs(quiet_at_10), "{case}");
        assert_eq!(record.quiet_for(at(20)), secs(quiet_at_10 + 10), "{case}: it goes on counting");
    }
}

#[test]
fn a_crd_is_trimmed_if_it_names_its_storage_version_alone() {
    let names = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect();
    let table: [(&[&str], bool); 5] = [
        (&["v1"], true),
        (&["v1beta1", "v1"], false),
        (&["v1beta1"], false),
        (&[], false),
        (&["v1", "v1"], false),
    ];
    for (stored, trimmed) in table {
        let crd = Crd { stored_versions: names(stored), ..crd() };
        assert_eq!(crd.is_trimmed(), trimmed, "{stored:?}");
    }
}
