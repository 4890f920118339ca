//! What the kubelet is told: whether the event loop turns, and whether the watches are established. No API server and no
//! target has a say in either, once the watches were there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How often the event loop shows that it turns, and how long it may fail to.
const BEAT: Duration = Duration::from_secs(1);
const BEAT_LATE: Duration = Duration::from_secs(20);

/// One check and how it went.
pub(super) type Check = (&'static str, Result<(), &'static str>);

/// The health of this process.
#[derive(Clone, Debug)]
pub(super) struct Health(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: Instant,
    beat_ms: AtomicU64,
    crds: AtomicBool,
    migrations: AtomicBool,
}

impl Health {
    pub(super) fn new() -> Self {
        Self(Arc::new(Inner {
            started: Instant::now(),
            beat_ms: AtomicU64::new(0),
            crds: AtomicBool::new(false),
            migrations: AtomicBool::new(false),
        }))
    }

    /// All CRDs are known.
    pub(super) fn crds_known(&self) {
        self.0.crds.store(true, Ordering::Release);
    }

    /// All StorageMigrations are known.
    pub(super) fn migrations_known(&self) {
        self.0.migrations.store(true, Ordering::Release);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.readiness().iter().all(|(_, result)| result.is_ok())
    }

    /// Whether work could be done if it came.
    pub(super) fn readiness(&self) -> [Check; 2] {
        let known = |flag: &AtomicBool, problem| flag.load(Ordering::Acquire).then_some(()).ok_or(problem);
        [
            ("crds", known(&self.0.crds, "CustomResourceDefinitions are not known yet")),
            ("migrations", known(&self.0.migrations, "StorageMigrations are not known yet")),
        ]
    }

    /// Whether the loop that drives the controller turns.
    pub(super) fn liveness(&self) -> [Check; 1] {
        self.liveness_at(self.0.started.elapsed())
    }

    fn liveness_at(&self, now: Duration) -> [Check; 1] {
        let beat = Duration::from_millis(self.0.beat_ms.load(Ordering::Acquire));
        let late = now.saturating_sub(beat) > BEAT_LATE;
        [("event-loop", if late { Err("the event loop has stopped turning") } else { Ok(()) })]
    }

    /// Shows for ever that whoever polls this turns.
    pub(super) async fn beat(&self) {
        loop {
            let now = self.0.started.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
            self.0.beat_ms.store(now, Ordering::Release);
            sleep(BEAT).await;
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first thing that is not as it should be")]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_stops_is_dead_after_a_while_and_not_before() {
        let health = Health::new();
        health.0.beat_ms.store(600_000, Ordering::Release);
        let beat = Duration::from_mins(10);
        assert_eq!(health.liveness_at(beat + BEAT_LATE)[0].1, Ok(()));
        assert!(health.liveness_at(beat + BEAT_LATE + BEAT)[0].1.is_err());
    }

    #[tokio::test]
    async fn a_loop_that_turns_shows_it() {
        let health = Health::new();
        let later = Duration::from_hours(1);
        health.0.beat_ms.store(later.as_millis().try_into().unwrap(), Ordering::Release);
        tokio::select! {
            biased;
            () = health.beat() => {}
            () = std::future::ready(()) => {}
        }
        assert!(health.liveness_at(later)[0].1.is_err(), "the first beat is the present time");
    }

    #[test]
    fn it_is_ready_once_both_watches_are_there() {
        let health = Health::new();
        assert!(!health.is_ready());
        health.crds_known();
        assert!(!health.is_ready());
        assert!(health.readiness()[1].1.is_err());
        health.migrations_known();
        assert!(health.is_ready());
    }
}
