//! What is counted, and the closed sets of words that it is counted by. Each has its row in `docs/metrics.md`.
//!
//! What can be told from the present state, such as how many migrations there are, is not counted here: it is gathered
//! when somebody asks (`controller::gathered`).

mod labels;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::plan::Outcome;
pub use labels::Verb;
use labels::{OUTCOMES, outcome, refusal};

/// What all metrics are named after.
pub const PREFIX: &str = "restow";

/// Upper bounds of a visit's time, in seconds. On an idle server a visit takes 4 ms; one that takes a minute was given up by
/// the server.
const VISIT_SECONDS: [f64; 13] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Labels, by name and value.
type Labels<const N: usize> = [(&'static str, String); N];

/// The counters of this process.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    visits: Family<Labels<2>, Counter>,
    visit_seconds: Histogram,
    refusals: Family<Labels<1>, Counter>,
    requests: Family<Labels<2>, Counter>,
    throttled: Counter<f64, std::sync::atomic::AtomicU64>,
    trims: Family<Labels<1>, Counter>,
}

/// What came of a trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimResult {
    /// It was made.
    Done,
    /// Somebody wrote the CRD meanwhile.
    Conflict,
    /// It failed.
    Failed,
}

impl Default for Metrics {
    fn default() -> Self {
        Self(Arc::new(Counted {
            visits: Family::default(),
            visit_seconds: Histogram::new(VISIT_SECONDS),
            refusals: Family::default(),
            requests: Family::default(),
            throttled: Counter::default(),
            trims: Family::default(),
        }))
    }
}

impl Metrics {
    /// Counts a visit of an object of `resource`, `<plural>.<group>`.
    pub fn visited(&self, resource: &str, found: &Outcome, took: Duration) {
        let labels = [("resource", resource.to_owned()), ("outcome", outcome(found).to_owned())];
        self.0.visits.get_or_create(&labels).inc();
        self.0.visit_seconds.observe(took.as_secs_f64());
        if let Outcome::Refused(failure) = found {
            self.0.refusals.get_or_create(&[("reason", refusal(failure).to_owned())]).inc();
        }
    }

    /// Counts a request and the code of its answer; `None` where none came.
    pub fn requested(&self, verb: Verb, code: Option<u16>) {
        let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        self.0.requests.get_or_create(&[("verb", verb.as_str().to_owned()), ("code", code)]).inc();
    }

    /// Counts time for which a visit was held back by the pace.
    pub fn throttled(&self, time: Duration) {
        self.0.throttled.inc_by(time.as_secs_f64());
    }

    /// Counts a trim.
    pub fn trimmed(&self, result: TrimResult) {
        let result = match result {
            TrimResult::Done => "done",
            TrimResult::Conflict => "conflict",
            TrimResult::Failed => "failed",
        };
        self.0.trims.get_or_create(&[("result", result.to_owned())]).inc();
    }

    /// Forgets a resource that is gone.
    pub fn forget(&self, resource: &str) {
        for outcome in OUTCOMES {
            self.0.visits.remove(&[("resource", resource.to_owned()), ("outcome", outcome.to_owned())]);
        }
    }

    /// Has all of them exported.
    pub fn register(&self, registry: &mut Registry) {
        let Counted { visits, visit_seconds, refusals, requests, throttled, trims } = &*self.0;
        registry.register("visits", "Visits of objects, by what was found", visits.clone());
        let seconds = Unit::Seconds;
        registry.register_with_unit("visit_duration", "How long visits took", seconds, visit_seconds.clone());
        registry.register("refusals", "Visits that the API server refused, by its reason", refusals.clone());
        registry.register("api_requests", "Requests, by verb and code of the answer", requests.clone());
        let text = "How long visits that were due were held back by the pace";
        registry.register_with_unit("pace_throttled", text, Unit::Seconds, throttled.clone());
        registry.register("trims", "Patches that dropped old versions from storedVersions", trims.clone());
    }
}
