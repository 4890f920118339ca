//! The flags of leader election.

use std::time::Duration;

use clap::{ArgAction, Args};

use super::pace::duration;
use crate::controller::ElectionSettings;
use crate::plan::ElectionTimes;

/// How the one controller at work is found.
// The defaults are those of Kubernetes' own controllers (k8s.io/component-base `config/v1alpha1/defaults.go`,
// `RecommendedDefaultLeaderElectionConfiguration`), the names of the flags those of cert-manager.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_field_names, reason = "the flags are named after the fields")]
pub(super) struct ElectionArgs {
    /// Whether to elect a leader among the controllers that share a Lease, so that one of them is at work; with false there
    /// must be no other
    #[arg(long, value_name = "BOOL", env = "RESTOW_LEADER_ELECT", default_value_t = true, action = ArgAction::Set,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    leader_elect: bool,

    /// The name of the Lease, in the namespace of this controller. Controllers with different label selectors need
    /// different ones
    #[arg(long, value_name = "NAME", env = "RESTOW_LEADER_ELECTION_LEASE_NAME", default_value = "restow")]
    leader_election_lease_name: String,

    /// How long a Lease that is not renewed keeps the others away, in whole seconds
    #[arg(long, value_name = "DURATION", env = "RESTOW_LEADER_ELECTION_LEASE_DURATION", default_value = "15s",
          value_parser = duration)]
    leader_election_lease_duration: Duration,

    /// How long after its last renewal the leader still writes; shorter than the lease duration
    #[arg(long, value_name = "DURATION", env = "RESTOW_LEADER_ELECTION_RENEW_DEADLINE", default_value = "10s",
          value_parser = duration)]
    leader_election_renew_deadline: Duration,

    /// How often the Lease is renewed, or looked at; half the renew deadline at most
    #[arg(long, value_name = "DURATION", env = "RESTOW_LEADER_ELECTION_RETRY_PERIOD", default_value = "2s",
          value_parser = duration)]
    leader_election_retry_period: Duration,
}

impl ElectionArgs {
    /// What was asked for, or what is wrong with it.
    pub(super) fn settings(self, instance: Option<&str>) -> Result<Option<ElectionSettings>, &'static str> {
        let times = ElectionTimes {
            lease: self.leader_election_lease_duration,
            renew_deadline: self.leader_election_renew_deadline,
            retry: self.leader_election_retry_period,
        };
        if let Some(fault) = times.fault() {
            return Err(fault);
        }
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|_| "no random numbers are to be had")?;
        // Also a container that is started anew in the same pod is another candidate.
        let identity = format!("{}_{:016x}", instance.unwrap_or("restow"), u64::from_le_bytes(random));
        let lease_name = self.leader_election_lease_name;
        Ok(self.leader_elect.then_some(ElectionSettings { lease_name, identity, times }))
    }
}
