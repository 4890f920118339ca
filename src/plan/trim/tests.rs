#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use super::{TrimVerdict, judge_trim};
use crate::plan::sample::{at, crd, moved, no_leases, page, quiet, server, servers, target};
use crate::plan::{ApiServers, CompleteSweep, Conclusion, Crd, CrdRecord, Sweep};

fn proof() -> CompleteSweep {
    let mut sweep = Sweep::first(target().unwrap());
    sweep.list(page(&[], None));
    let Conclusion::Unconfirmed(sweep) = sweep.conclude() else { panic!("open") };
    let mut confirm = sweep.into_confirm(7);
    confirm.list(page(&[], None));
    let Conclusion::Complete(complete) = confirm.conclude() else { panic!("open") };
    complete
}

fn word(verdict: TrimVerdict) -> String {
    match verdict {
        TrimVerdict::Trim(_) => "trim".to_owned(),
        TrimVerdict::Trimmed(_) => "trimmed".to_owned(),
        TrimVerdict::Wait(_, servers) => {
            format!("wait for {}", servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
        TrimVerdict::Drifted => "drifted".to_owned(),
    }
}

fn later(sight: Crd) -> CrdRecord {
    let mut record = quiet(crd());
    record.observe(sight, at(1));
    record
}

fn awake() -> ApiServers {
    servers(vec![server("a", 990), server("b", 1000)], 1000)
}

#[test]
fn the_guard_says() {
    let generation = |generation| Crd { generation, ..crd() };
    let stored =
        |names: &[&str]| Crd { stored_versions: names.iter().map(|&n| n.to_owned()).collect(), ..crd() };
    let silent = || servers(vec![server("a", 900), server("b", 1000)], 1000);
    let mut there_and_back = later(moved(&crd()));
    there_and_back.observe(generation(9), at(2));
    let table = [
        ("nothing changed", quiet(crd()), awake(), "trim"),
        ("Leases can't be read", quiet(crd()), no_leases(), "trim"),
        ("a harmless change was seen", later(generation(8)), awake(), "trim"),
        ("a generation was missed", later(generation(9)), awake(), "drifted"),
        ("the flag was seen to move away and back", there_and_back, awake(), "drifted"),
        ("the record is a new one, two generations later", quiet(generation(9)), awake(), "drifted"),
        ("a server is silent", quiet(crd()), silent(), "wait for a"),
        ("a server is silent, and a generation was missed", later(generation(9)), silent(), "drifted"),
        ("somebody trimmed it", later(stored(&["v1"])), awake(), "trimmed"),
        (
            "trimmed, but a generation was missed",
            later(Crd { generation: 9, ..stored(&["v1"]) }),
            awake(),
            "drifted",
        ),
        ("storedVersions is empty", later(stored(&[])), awake(), "trim"),
        ("the flag moved", later(moved(&crd())), awake(), "drifted"),
        (
            "the conversion changed",
            later(Crd { conversion: "{}".to_owned(), ..generation(8) }),
            awake(),
            "drifted",
        ),
        ("it is being deleted", later(Crd { terminating: true, ..crd() }), awake(), "drifted"),
        ("it was re-created", later(Crd { uid: "crd-2".to_owned(), ..crd() }), awake(), "drifted"),
    ];
    for (case, live, servers, expected) in table {
        assert_eq!(word(judge_trim(proof(), &live, &servers)), expected, "{case}");
    }
}

#[test]
fn the_trim_names_the_crd_that_was_judged_and_the_storage_version_alone() {
    let live = later(Crd { resource_version: "105".to_owned(), ..crd() });
    let TrimVerdict::Trim(trim) = judge_trim(proof(), &live, &awake()) else { panic!("no trim") };
    assert_eq!((trim.crd_name(), trim.resource_version()), ("widgets.example.com", "105"));
    assert_eq!(trim.stored_versions(), ["v1"]);
    assert_eq!(trim.give_back().target().version(), "v1");
}
