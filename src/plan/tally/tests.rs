use super::Tally;
use crate::api::{Checkpoint, CheckpointPhase, Progress};

fn listed(objects: u64, remaining: Option<u64>) -> Tally {
    let mut tally = Tally::default();
    tally.listed(objects, remaining, false);
    tally
}

fn counted(mut tally: Tally, rewritten: u64, refused: u64) -> Tally {
    (0..rewritten).for_each(|_| tally.stored(true, false));
    (0..refused).for_each(|_| tally.refused(false));
    tally
}

fn carried(count: u64) -> Tally {
    Tally::carried_over(&Checkpoint {
        crd_uid: String::new(),
        storage_version: String::new(),
        crd_generation: 0,
        conversion: String::new(),
        phase: CheckpointPhase::Sweeping,
        continue_token: None,
        rewritten: count,
        unchanged: count,
        gone: count,
        refused: count,
        api_servers_heard: false,
        seal: None,
    })
}

#[test]
fn progress_reads() {
    let mut more_than_listed = listed(3, None);
    more_than_listed.listed(2, Some(5), false);
    let mut retried = counted(listed(10, None), 8, 2);
    retried.retry_starts();
    let mut confirming = counted(listed(2, Some(500)), 2, 0);
    confirming.confirm_starts();
    confirming.listed(2, Some(1), true);
    confirming.stored(true, true);
    confirming.gone(true);
    let mut over = counted(listed(10, None), 4, 2);
    over.starts_over(false, false);
    let mut over_after_restart = carried(3);
    over_after_restart.starts_over(false, true);
    let mut next_page = carried(3);
    next_page.listed(5, None, false);
    let table = [
        ("before the first page nothing is known", Tally::default(), "0/0 0%"),
        ("there are no objects", listed(0, None), "0/0 100%"),
        ("a page of many", listed(500, Some(4500)), "0/5000 0%"),
        ("a part of it was visited", counted(listed(500, Some(4500)), 1240, 10), "1250/5000 25%"),
        ("percents are cut off, not rounded", counted(listed(1000, None), 999, 0), "999/1000 99%"),
        ("all but nothing left", counted(listed(10, None), 9, 1), "10/10 100%"),
        ("more were visited than the server had said", counted(listed(1, None), 3, 0), "3/3 100%"),
        ("the next page counts on", more_than_listed, "0/10 0%"),
        ("a retry takes refused ones out", retried, "8/10 80%"),
        ("a confirm changes nothing", confirming, "2/2 100%"),
        ("a list that starts over takes refused ones out", over, "4/10 40%"),
        ("after a restart the counts go on", next_page, "12/17 70%"),
        ("a list that starts over after a restart starts the counts over", over_after_restart, "0/0 0%"),
        ("numbers that nobody counted", carried(u64::MAX), "18446744073709551615/18446744073709551615 0%"),
    ];
    for (case, tally, summary) in table {
        let Progress { total, visited, rewritten, unchanged, gone, refused, percent, summary: found } =
            tally.progress();
        assert_eq!(found, summary, "{case}");
        assert_eq!(found, format!("{visited}/{total} {percent}%"), "{case}");
        assert!(visited <= total && percent <= 100, "{case}");
        let sum = [rewritten, unchanged, gone, refused].into_iter().fold(0, u64::saturating_add);
        assert_eq!(visited, sum, "{case}");
    }
}

#[test]
fn numbers_that_nobody_counted_overflow_nothing() {
    let mut tally = carried(u64::MAX);
    tally.listed(u64::MAX, Some(u64::MAX), false);
    tally.stored(true, false);
    tally.stored(false, false);
    tally.gone(false);
    tally.refused(false);
    assert_eq!(tally.progress().percent, 100);
}

#[test]
fn outcomes_are_counted_each_in_its_place() {
    let mut tally = listed(4, None);
    tally.stored(true, false);
    tally.stored(false, false);
    tally.gone(false);
    tally.refused(false);
    let p = tally.progress();
    assert_eq!((p.rewritten, p.unchanged, p.gone, p.refused), (1, 1, 1, 1));
}

#[test]
fn the_confirm_counts_what_it_saw_and_what_it_visited_again() {
    let mut tally = counted(listed(3, None), 3, 0);
    tally.confirm_starts();
    tally.listed(2, Some(1), true);
    tally.listed(1, None, true);
    tally.stored(false, true);
    tally.refused(true);
    assert_eq!(tally.confirmed(), (3, 2));
    tally.starts_over(true, false);
    assert_eq!(tally.confirmed().0, 0);
    assert_eq!(tally.progress().refused, 0);
}
