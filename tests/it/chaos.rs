//! Everything at once, by chance: faults of every kind while objects are written and the flag moves. Whenever
//! `storedVersions` loses a version no object may be stored in it, no object may be lost or changed, and once everything is
//! healed the migration must come to its end.
//!
//! Told in docs/chaos.md. `RESTOW_CHAOS_SEEDS` is how many seeds are run, `RESTOW_CHAOS_SEED` the only one.

mod cluster;
mod faults;
mod historian;
mod journal;
mod plan;
mod run;
mod servers;
mod stand;
mod writers;

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::Runtime;

use cluster::Clusters;
use journal::Journal;
use plan::Plan;

/// Seeds in an ordinary run of the tests.
const SEEDS: usize = 8;

/// Seeds at a time.
const LANES: usize = 6;

#[test]
fn whatever_happens_no_trim_forgets_an_object_and_the_run_comes_to_its_end() {
    let seeds = seeds();
    let runtime = Runtime::new().expect("a runtime");
    let clusters = runtime.block_on(Clusters::start(runtime.handle().clone()));
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..LANES.min(seeds.len()) {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !is_right(&clusters, *seed, seeds.len() == 1) {
                        failed.lock().expect("no panic").push(*seed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic");
    assert!(failed.is_empty(), "of {} seeds these failed: {failed:?}", seeds.len());
}

fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|it| it.parse().expect("a number"));
    match (number("RESTOW_CHAOS_SEED"), number("RESTOW_CHAOS_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, seeds) => (0..seeds.unwrap_or(SEEDS as u64)).collect(),
    }
}

/// Runs one seed. Tells what happened if something went wrong, or if it is the only one.
fn is_right(clusters: &Clusters, seed: u64, tells_all: bool) -> bool {
    let (plan, journal) = (Plan::of(seed), Journal::begin());
    thread::scope(|scope| {
        // A thread of its own, so that one that panics ends no other.
        let ran = scope.spawn(|| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let cluster = clusters.take(plan.stage.has_two_servers).await;
                run::run(&cluster, seed, &plan, &journal).await;
                clusters.give_back(cluster);
            });
        });
        if ran.join().is_err() {
            journal.wrong("the test itself panicked");
        }
    });
    let wrongs = journal.wrongs();
    let mut out = std::io::stderr();
    if tells_all || !wrongs.is_empty() {
        writeln!(out, "chaos: seed {seed}: {:?}\n{}", Plan::of(seed).stage, journal.text()).expect("write");
    }
    match &wrongs[..] {
        [] => writeln!(out, "chaos: seed {seed} is right: {}", journal.last()),
        _ => writeln!(
            out,
            "chaos: seed {seed} is WRONG; to run it again: RESTOW_CHAOS_SEED={seed}\n{wrongs:#?}"
        ),
    }
    .expect("write");
    wrongs.is_empty()
}
