//! Scripts of API servers that sleep: who is waited for, and for how long.

use super::stage::Stage;
use super::{CONFIRM, SWEEP, generation, whole_run};
use crate::plan::sample::{at, crd, server, servers};
use crate::plan::{ApiServers, Crd, CrdRecord, Seal, Step};

/// A stage at second 900, when the flag has just moved, with two servers that renewed their Leases a moment ago.
fn moved_at_900() -> Stage {
    let mut stage = Stage { secs: 900, crd: Some(CrdRecord::new(crd(), at(900))), ..Stage::new() };
    stage.servers = Some(servers(vec![server("a", 895), server("b", 890)], 900));
    stage.seal = Some(Seal::new(&[7; 64], "migration"));
    stage.go();
    stage
}

/// Looks every five seconds until a second, while a renews its Lease each time and b like that, and says where the migration is
/// then.
fn look_until(stage: &mut Stage, until: u64, renewed: impl Fn(u64) -> u64) -> String {
    let mut said = String::new();
    while stage.secs < until {
        stage.secs += 5;
        let second = |secs| i64::try_from(secs).unwrap_or(i64::MAX);
        let (a, b) = (server("a", second(stage.secs)), server("b", second(renewed(stage.secs))));
        stage.servers = Some(servers(vec![a, b], second(stage.secs)));
        said = stage.go();
    }
    said
}

/// Goes on until both servers were heard of, at second 970.
fn hear(stage: &mut Stage) {
    look_until(stage, 965, |secs| secs);
    stage.secs = 970;
    stage.servers = Some(servers(vec![server("a", 970), server("b", 970)], 970));
    stage.act(&Step::Inspect);
}

#[test]
fn the_first_sweep_starts_once_every_server_was_seen_to_run_for_the_settle_time() {
    let mut stage = moved_at_900();
    assert_eq!(look_until(&mut stage, 960, |secs| secs), "inspect, Settling until 965");
    assert_eq!(look_until(&mut stage, 965, |secs| secs), "inspect, WaitingForAPIServer until 970");
    assert_eq!(look_until(&mut stage, 970, |secs| secs), format!("inspect, {SWEEP}, {CONFIRM}, Migrated"));
}

#[test]
fn a_server_that_wakes_up_is_waited_for_until_it_ran_for_the_settle_time() {
    let mut stage = moved_at_900();
    assert_eq!(look_until(&mut stage, 1100, |_| 890), "inspect, WaitingForAPIServer until 1105");
    assert_eq!(look_until(&mut stage, 1170, |secs| secs), "inspect, WaitingForAPIServer until 1175");
    assert_eq!(look_until(&mut stage, 1175, |secs| secs), format!("inspect, {SWEEP}, {CONFIRM}, Migrated"));
}

/// It was heard of since the move, but may have had a request under way that is older.
#[test]
fn a_server_that_fell_asleep_while_others_settled_is_waited_for() {
    let mut stage = moved_at_900();
    assert_eq!(look_until(&mut stage, 1000, |secs| secs.min(960)), "inspect, WaitingForAPIServer until 1005");
    let message = &stage.status().conditions[0].message;
    assert!(message.starts_with("API server b is silent and "), "{message}");
    assert!(message.contains("restow.dev/ignore-api-server=b "), "{message}");
}

#[test]
fn a_server_that_is_gone_for_good_is_ignored_as_asked_and_no_other() {
    let mut stage = moved_at_900();
    stage.ignored_servers = Some("c");
    assert_eq!(look_until(&mut stage, 1000, |_| 890), "inspect, WaitingForAPIServer until 1005");
    stage.ignored_servers = Some("b");
    assert_eq!(look_until(&mut stage, 1005, |_| 890), format!("inspect, {SWEEP}, {CONFIRM}, Migrated"));
    let message = &stage.status().conditions[0].message;
    assert!(message.ends_with("; ignored, as asked: API server b"), "{message}");
}

#[test]
fn a_server_that_is_not_ignored_any_more_is_waited_for_before_the_next_sweep() {
    let mut stage = moved_at_900();
    stage.ignored_servers = Some("b");
    look_until(&mut stage, 965, |_| 890);
    (stage.secs, stage.servers) = (970, Some(servers(vec![server("a", 970), server("b", 890)], 970)));
    assert_eq!(stage.go_until("visit"), "inspect, list, visit");
    stage.ignored_servers = None;
    assert_eq!(stage.go(), "visit, list after b, visit, inspect, WaitingForAPIServer until 975");
}

/// Whoever has caught up stays so, as long as the CRD stays as it is.
#[test]
fn a_server_that_falls_asleep_once_it_was_heard_of_holds_the_trim_alone() {
    let mut stage = moved_at_900();
    hear(&mut stage);
    assert_eq!(stage.go_until("visit"), "list, visit");
    stage.secs = 1000;
    stage.servers = Some(servers(vec![server("a", 1000), server("b", 965)], 1000));
    assert_eq!(stage.go(), format!("visit, list after b, visit, {CONFIRM}, WaitingForAPIServer until 1005"));
    stage.ignored_servers = Some("b");
    stage.secs = 1005;
    assert_eq!(stage.go(), "trim, Migrated");
    let message = &stage.status().conditions[0].message;
    assert!(message.ends_with("; ignored, as asked: API server b"), "{message}");
}

#[test]
fn the_trim_waits_for_a_server_that_fell_silent() {
    let mut stage = Stage { secs: 1000, ..Stage::new() };
    stage.go_until("trim");
    stage.servers = Some(servers(vec![server("a", 1000), server("b", 960)], 1000));
    assert_eq!(stage.go(), "trim, WaitingForAPIServer until 1005");
    stage.secs = 1005;
    stage.servers = None;
    assert_eq!(stage.go(), "trim, Migrated");
}

#[test]
fn where_no_lease_can_be_read_settling_alone_counts() {
    let servers = Some(ApiServers::Unknown("forbidden".to_owned()));
    let mut stage = Stage { servers, ..Stage::new() };
    assert_eq!(stage.go(), whole_run());
    let message = &stage.status().conditions[0].message;
    assert!(message.contains("Leases can't be read (forbidden)"), "{message}");
}

/// A restarted controller has seen no renewal itself.
#[test]
fn what_was_seen_of_the_servers_is_believed_after_a_restart_where_restow_sealed_it() {
    let restarted = |generation| {
        let mut stage = moved_at_900();
        hear(&mut stage);
        assert_eq!(stage.go_until("list after"), "list, visit, list after b");
        let crd = Crd { generation, ..crd() };
        Stage { crd: Some(CrdRecord::new(crd, at(0))), secs: 65, ..stage.restarted() }
    };
    let as_sealed = restarted(7).go();
    assert_eq!(as_sealed, whole_run());
    let unsealed = Stage { seal: None, ..restarted(7) }.go();
    assert_eq!(unsealed, "review, inspect, WaitingForAPIServer until 70");
    let of_another_generation = restarted(8).go();
    assert_eq!(of_another_generation, "review, inspect, WaitingForAPIServer until 70");
}

/// The look itself is what shows that the flag moved: what came of it may be the last that is reported for a while.
#[test]
fn what_was_seen_of_the_servers_is_void_once_the_flag_moved_away_and_back_unseen() {
    let heard = |stage: &Stage| stage.status().checkpoint.as_ref().map(|c| c.api_servers_heard);
    let mut stage = moved_at_900();
    hear(&mut stage);
    assert_eq!(stage.go_until("inspect"), format!("{SWEEP}, inspect"));
    assert_eq!(heard(&stage), Some(true));
    stage.see(Crd { resource_version: "102".to_owned(), ..generation(9) });
    stage.act(&Step::Inspect);
    stage.report();
    assert_eq!(stage.status().checkpoint.as_ref().map(|c| c.crd_generation), Some(7), "not that of the look");
    assert_eq!(stage.go(), "review, inspect, Settling until 975");
    assert_eq!(heard(&stage), Some(false));
    assert_eq!(look_until(&mut stage, 1040, |_| 970), "inspect, WaitingForAPIServer until 1045");
}
