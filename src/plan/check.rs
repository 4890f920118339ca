//! A model check: the real `Run` in a small world in which everything that can happen does, in every order.
//!
//! Whenever a trim is made, no object may be stored in another version and no server may still write one; and every story
//! comes to its end. Each guard and each assumption is then dropped in turn: the search must find what goes wrong without.
//! What is modelled and what is assumed is told in docs/model.md.

mod event;
mod search;
mod story;
mod world;

use event::Cast;
use search::{Found, search};
use world::Rules;

const NOTHING: Cast = Cast {
    moves: 0,
    swings: false,
    writers: false,
    faults: false,
    restarts: false,
    seals: false,
    sleeps: false,
    events: 0,
};

/// How many more events than usual are played, from the environment.
fn more() -> usize {
    std::env::var("RESTOW_CHECK_MORE").ok().and_then(|more| more.parse().ok()).unwrap_or(0)
}

#[expect(clippy::print_stderr, reason = "how large a search was is worth knowing; shown with --nocapture")]
fn look(what: &str, rules: Rules, cast: Cast) -> Found {
    let started = std::time::Instant::now();
    let cast = Cast { events: cast.events + more(), ..cast };
    let found = search(rules, cast, &["a", "b"]);
    let Found { states, ends, harm } = &found;
    eprintln!("{what}: {states} states, {ends} ends, {:?}", started.elapsed());
    if let Some(harm) = harm {
        eprintln!("{harm}");
    }
    found
}

fn holds(what: &str, rules: Rules, cast: Cast) {
    let found = look(what, rules, cast);
    assert!(found.ends > 0 && found.harm.is_none(), "{}", found.harm.unwrap_or_default());
}

fn breaks(what: &str, rules: Rules, cast: Cast) {
    let found = look(what, rules, cast);
    assert!(found.harm.is_some_and(|harm| harm.contains("trimmed to")), "{what}: nothing goes wrong");
}

#[test]
fn nothing_goes_wrong_whatever_happens() {
    let cast = Cast {
        moves: 2,
        swings: true,
        writers: true,
        faults: true,
        restarts: true,
        seals: true,
        sleeps: true,
        events: 2,
    };
    holds("everything", Rules::default(), cast);
}

#[test]
fn settling_is_enough_where_no_leases_are_kept() {
    let rules = Rules { leases: (false, false), ..Rules::default() };
    holds("no Leases", rules, Cast { moves: 2, writers: true, events: 2, ..NOTHING });
}

#[test]
fn without_settling_an_object_is_left_behind() {
    let rules = Rules { settle: 0, leases: (false, false), ..Rules::default() };
    breaks("no settle", rules, NOTHING);
}

#[test]
fn a_server_that_lags_for_longer_than_settle_leaves_an_object_behind() {
    let rules = Rules { lag: 60, leases: (false, false), ..Rules::default() };
    breaks("long lag", rules, NOTHING);
}

#[test]
fn without_the_leases_a_sleeping_server_writes_the_old_version() {
    let rules = Rules { leases: (false, false), ..Rules::default() };
    breaks("no Lease check", rules, Cast { sleeps: true, events: 1, ..NOTHING });
}

#[test]
fn without_the_leases_before_the_first_sweep_a_visit_is_believed_that_did_nothing() {
    let rules = Rules { leases: (false, true), ..Rules::default() };
    breaks("no Lease check before the first sweep", rules, Cast { sleeps: true, events: 3, ..NOTHING });
}

#[test]
fn without_the_generations_a_visit_in_the_other_version_is_remembered() {
    let rules = Rules { notices_gaps: false, ..Rules::default() };
    breaks("no check of generations", rules, Cast { moves: 2, events: 2, ..NOTHING });
}

#[test]
fn without_a_confirm_what_a_restart_skipped_is_left_behind() {
    let rules = Rules { confirms: false, ..Rules::default() };
    breaks("no confirm", rules, Cast { faults: true, restarts: true, seals: true, events: 2, ..NOTHING });
}

#[test]
fn a_short_pause_that_is_no_part_of_the_lag_is_not_noticed() {
    let rules = Rules { pause: 0, ..Rules::default() };
    breaks("short pauses", rules, Cast { sleeps: true, events: 2, ..NOTHING });
}
