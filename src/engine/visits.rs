//! Visiting the objects that are due: several at once, at the pace of the process and of the migration, for a second at most.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};

use super::Engine;
use crate::api::StorageMigrationSpec;
use crate::cluster::{Permit, Rate};
use crate::plan::{Outcome, Run, Target, Visit};

/// How long one step sends visits before it looks up.
const STEP_TIME: Duration = Duration::from_secs(1);

impl Engine {
    /// Sends visits until none is due, a second has passed or the target is to be left alone; then waits for the answers.
    pub(super) async fn visit_due(&self, run: &mut Run, rate: &Rate, spec: &StorageMigrationSpec) {
        let Some((sweep, health)) = run.sweep() else { return };
        let target = sweep.target().clone();
        let ceiling = self.pacer.limits().max_in_flight(spec.pace.as_ref());
        let enough = Instant::now() + STEP_TIME;
        let mut open = true;
        let mut held_since = None;
        let mut flights = FuturesUnordered::new();
        loop {
            let now = self.clock.now().uptime;
            let places = if health.is_doubtful() || self.is_out() { 1 } else { ceiling };
            open &= health.held(now).is_none()
                && self.held(target.resource()).is_none()
                && Instant::now() < enough;
            let room = open && flights.len() < places && sweep.has_due(now);
            held_since = if room { held_since.or_else(|| Some(Instant::now())) } else { None };
            tokio::select! {
                Some((visit, outcome)) = flights.next(), if !flights.is_empty() => {
                    let now = self.clock.now().uptime;
                    self.note(&outcome);
                    match &outcome {
                        Outcome::Deferred(failure) => health.visit_failed(failure, now),
                        Outcome::Rewritten(_) | Outcome::Unchanged | Outcome::Gone
                        | Outcome::Refused(_) | Outcome::Conflict(_) => health.succeeded(),
                    }
                    sweep.record(visit, outcome, now);
                }
                permit = self.pacer.permit(rate), if room => {
                    let held = held_since.take().map(|since| since.elapsed());
                    self.cluster.metrics().throttled(held.unwrap_or_default());
                    if let Some(visit) = sweep.next(self.clock.now().uptime) {
                        flights.push(self.fly(&target, visit, permit));
                    }
                }
                () = sleep_until(enough), if room => open = false,
                else => break,
            }
        }
    }

    fn note(&self, outcome: &Outcome) {
        match outcome {
            Outcome::Rewritten(_) => self.note_stored(),
            Outcome::Deferred(failure) => self.note_failed(failure),
            Outcome::Unchanged | Outcome::Gone | Outcome::Refused(_) | Outcome::Conflict(_) => {
                self.note_answered();
            }
        }
    }

    async fn fly(&self, target: &Target, visit: Visit, permit: Permit) -> (Visit, Outcome) {
        let sent = Instant::now();
        let outcome = self.cluster.visit(target, visit.object()).await;
        self.cluster.metrics().visited(&target.resource().to_string(), &outcome, sent.elapsed());
        drop(permit);
        (visit, outcome)
    }
}
