//! A command line that makes no sense ends at once, says why, and reaches for no cluster.

use std::process::Command;

use crate::scene::BINARY;

/// What `restow controller` says to flags and variables that it doesn't accept.
fn refused(args: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(BINARY);
    // Whoever tried to connect would fail with another code.
    command.env("KUBECONFIG", "/nonexistent").arg("controller").args(args).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?} {variables:?}: {said}");
    assert!(output.stdout.is_empty());
    said
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    let said = refused(&["--leader-election-renew-deadline=15s"], &[]);
    assert!(said.contains("the renew deadline must be shorter than the lease duration"), "{said}");
    let said = refused(&["--leader-election-lease-duration=20s", "--leader-election-retry-period=6s"], &[]);
    assert!(said.contains("the retry period must be half the renew deadline at most"), "{said}");
    let said = refused(&["--leader-election-lease-duration=15500ms"], &[]);
    assert!(said.contains("a whole number of seconds"), "{said}");
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    for (flag, value) in [
        ("--settle", "-5s"),
        ("--settle", "soon"),
        ("--writes-per-second", "-1"),
        ("--max-in-flight", "0"),
        ("--page-size", "2001"),
        ("--admin-address", "here"),
        ("--log-format", "xml"),
        ("--leader-elect", "perhaps"),
    ] {
        let said = refused(&[&format!("{flag}={value}")], &[]);
        assert!(said.contains(flag) && said.contains(value), "{said}");
    }
    let said = refused(&["--no-such-flag"], &[]);
    assert!(said.contains("--no-such-flag"), "{said}");
}

#[test]
fn the_environment_is_held_to_the_same() {
    let said = refused(&[], &[("RESTOW_PAGE_SIZE", "many")]);
    assert!(said.contains("many") && said.contains("--page-size"), "{said}");
    let said = refused(&[], &[("RESTOW_LEADER_ELECTION_RENEW_DEADLINE", "1h")]);
    assert!(said.contains("renew deadline must be shorter"), "{said}");
}
