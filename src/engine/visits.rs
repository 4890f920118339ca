//! Visiting the objects that are due: several at once, at the pace of the process and of the migration, for a second at most.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};

use super::{Engine, Pacing};
use crate::api::StorageMigrationSpec;
use crate::cluster::Permit;
use crate::plan::{Heard, Outcome, Run, Target, Visit};

/// How long one step sends visits before it looks up.
const STEP_TIME: Duration = Duration::from_secs(1);

/// A visit that is over.
struct Landed {
    visit: Visit,
    outcome: Outcome,
    permit: Permit,
    took: Duration,
}

impl Engine {
    /// Sends visits until none is due, a second has passed or the target is to be left alone; then waits for the answers.
    pub(super) async fn visit_due(&self, run: &mut Run, pacing: &mut Pacing, spec: &StorageMigrationSpec) {
        let Some((sweep, health)) = run.sweep() else { return };
        let Pacing { pace: _, rate, latencies } = pacing;
        let target = sweep.target().clone();
        let ceiling = self.pacer.limits().max_in_flight(spec.pace.as_ref());
        let enough = Instant::now() + STEP_TIME;
        let mut open = true;
        let mut held_since = None;
        let mut flights = FuturesUnordered::new();
        let mut permit = pin!(self.pacer.permit(rate));
        loop {
            let now = self.clock.now().uptime;
            let places = if health.is_doubtful() || self.is_out() { 1 } else { ceiling };
            open &= health.held(now).is_none()
                && self.held(target.resource()).is_none()
                && Instant::now() < enough;
            let room = open && flights.len() < places && sweep.has_due(now);
            if room {
                held_since = held_since.or_else(|| Some(Instant::now()));
            } else {
                // Nobody else waits for one that has no use for its turn.
                held_since = None;
                permit.set(self.pacer.permit(rate));
            }
            tokio::select! {
                Some(Landed { visit, outcome, permit, took }) = flights.next(), if !flights.is_empty() => {
                    let now = self.clock.now().uptime;
                    permit.hear(latencies, Heard::of(&outcome, took));
                    self.note(&outcome);
                    match &outcome {
                        Outcome::Deferred(failure) => health.visit_failed(failure, now),
                        Outcome::Rewritten(_) | Outcome::Unchanged | Outcome::Gone
                        | Outcome::Refused(_) | Outcome::Conflict(_) => health.succeeded(),
                    }
                    sweep.record(visit, outcome, now);
                }
                granted = permit.as_mut(), if room => {
                    permit.set(self.pacer.permit(rate));
                    let held = held_since.take().map(|since| since.elapsed());
                    self.cluster.metrics().throttled(held.unwrap_or_default());
                    if let Some(visit) = sweep.next(self.clock.now().uptime) {
                        flights.push(self.fly(&target, visit, granted));
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

    async fn fly(&self, target: &Target, visit: Visit, permit: Permit) -> Landed {
        let sent = Instant::now();
        let outcome = if visit.is_probe() {
            self.cluster.probe(target, visit.object()).await
        } else {
            self.cluster.visit(target, visit.object()).await
        };
        let took = sent.elapsed();
        self.cluster.metrics().visited(&target.resource().to_string(), &outcome, took);
        Landed { visit, outcome, permit, took }
    }
}
