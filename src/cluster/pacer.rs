//! Keeps all writes of this process to its pace. The arithmetic lives in `plan::pace`.

#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as FairMutex, Notify};
use tokio::time::{Instant, sleep};

use crate::plan::{AdaptivePace, Gear, Heard, Latencies, Limits, Round, Spacing};

/// The pace of this process, shared by all migrations.
#[derive(Debug)]
pub struct Pacer {
    limits: Limits,
    places: Arc<Places>,
    rate: Rate,
    /// Whoever has it is next. It is had in the order in which it was asked for, so that migrations take turns.
    turn: FairMutex<()>,
}

/// The right to have one write under way. It ends when it is dropped.
#[derive(Debug)]
pub struct Permit {
    places: Arc<Places>,
    round: Round,
}

/// At most so many a second, one after another: no burst, not even at the start.
#[derive(Debug)]
pub struct Rate {
    spacing: Option<Mutex<Spacing>>,
    began: Instant,
}

#[derive(Debug)]
struct Places {
    pace: Mutex<AdaptivePace>,
    ended: Notify,
    began: Instant,
}

impl Rate {
    /// A rate; `None` is no limit.
    #[must_use]
    pub fn new(per_second: Option<NonZeroU32>) -> Self {
        let spacing = per_second.map(|rate| Mutex::new(Spacing::new(rate)));
        Self { spacing, began: Instant::now() }
    }

    /// Waits until a write may be sent. Whoever waits no longer has used up nothing.
    async fn ready(&self) {
        let Some(spacing) = &self.spacing else { return };
        loop {
            let wait = locked(spacing).wait(self.began.elapsed());
            if wait.is_zero() {
                return;
            }
            sleep(wait).await;
        }
    }

    fn send(&self) {
        if let Some(spacing) = &self.spacing {
            locked(spacing).send(self.began.elapsed());
        }
    }
}

impl Pacer {
    /// A pacer that keeps to `limits`.
    #[must_use]
    pub fn new(limits: Limits, gear: Gear) -> Self {
        let pace = Mutex::new(AdaptivePace::new(gear, limits.max_in_flight.get()));
        let places = Places { pace, ended: Notify::new(), began: Instant::now() };
        Self {
            limits,
            places: Arc::new(places),
            rate: Rate::new(limits.writes_per_second),
            turn: FairMutex::new(()),
        }
    }

    /// What it keeps to.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// How many writes may be under way at once as the server answers now.
    #[must_use]
    pub fn allowed(&self) -> u32 {
        locked(&self.places.pace).allowed()
    }

    /// How many writes are under way.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        locked(&self.places.pace).in_flight()
    }

    /// Waits until one more write may be sent, by the pace of the process and by `own`, that of one migration.
    ///
    /// Migrations that wait take turns; one that is slower by its own pace doesn't keep the others waiting. One that waits no
    /// longer has used up nothing.
    pub async fn permit(&self, own: &Rate) -> Permit {
        own.ready().await;
        let _turn = self.turn.lock().await;
        self.rate.ready().await;
        let round = self.places.next().await;
        self.rate.send();
        own.send();
        Permit { places: Arc::clone(&self.places), round }
    }
}

impl Places {
    /// Waits for a place. There is never more than one who waits.
    async fn next(&self) -> Round {
        loop {
            let sent = locked(&self.pace).send(self.began.elapsed());
            match sent {
                Some(round) => return round,
                None => self.ended.notified().await,
            }
        }
    }
}

impl Permit {
    /// Takes in what the answer tells of the server.
    pub fn hear(&self, latencies: &mut Latencies, heard: Heard) {
        let now = self.places.began.elapsed();
        locked(&self.places.pace).hear(self.round, latencies, heard, now);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        locked(&self.places.pace).end();
        self.places.ended.notify_one();
    }
}

/// Each change is one call, so a panic elsewhere leaves nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
