//! Pure decisions: which CRD is a target, what an answer means, when a sweep is complete, when to trim, what the status says.
//!
//! Data and a time go in, data comes out. No async, no client, no clock, no environment, no logging lives here, and no
//! `Result` either: a refusal is a decision like any other.

mod answer;
#[cfg(test)]
mod check;
mod checkpoint;
mod crd;
mod election;
mod finding;
mod health;
mod leftover;
mod loss;
mod memory;
mod moment;
mod object;
mod outage;
mod outcome;
mod pace;
mod refusals;
mod report;
mod rights;
mod rival;
mod run;
#[cfg(test)]
mod sample;
mod seal;
mod sentence;
mod servers;
mod step;
mod sweep;
mod tally;
mod target;
mod trim;
mod visit;

pub use answer::{Cause, Details, Failure, Scope};
pub use crd::{Crd, CrdRecord, CrdVersion};
pub use election::{Election, ElectionTimes, LeaseSight};
pub use finding::Finding;
pub use health::Health;
pub use leftover::{LastingVersion, Leftover, Manager, Mentions, Owner};
pub use loss::{FieldRisks, Retyped, StoredBesides, VersionSchema, lost_fields};
pub use memory::Memory;
pub use moment::Moment;
pub use object::{Object, Page, PageRequest};
pub use outage::Outage;
pub use outcome::{Listing, Outcome, Reading, Written, read_list, read_second_look, read_visit};
pub use pace::{AdaptivePace, Gear, Heard, Latencies, Limits, Round, Spacing};
pub use refusals::Refusals;
pub use rights::Rights;
pub use rival::rival;
pub use run::Run;
pub use seal::Seal;
pub use servers::{ApiServer, ApiServers, Look, ServerWatch};
pub use step::{Observation, Step};
pub use sweep::{CompleteSweep, Conclusion, Sweep};
pub use tally::Tally;
pub use target::{Drift, Surroundings, Target, Verdict, judge, judge_crd};
pub use trim::{Trim, TrimVerdict, judge_trim};
pub use visit::Visit;
