//! Keeps all writes of this process to its pace. The arithmetic lives in `plan::pace`.

use std::num::NonZeroU32;
use std::sync::Arc;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::plan::Limits;

/// The pace of this process, shared by all migrations.
#[derive(Clone, Debug)]
pub struct Pacer {
    limits: Limits,
    rate: Rate,
    slots: Arc<Semaphore>,
}

/// The right to have one write under way. It ends when it is dropped.
#[derive(Debug)]
pub struct Permit {
    _slot: Option<OwnedSemaphorePermit>,
}

/// At most so many a second, one after another: no burst, not even at the start.
#[derive(Clone, Debug)]
pub struct Rate(Option<Arc<DefaultDirectRateLimiter>>);

impl Rate {
    /// A rate; `None` is no limit.
    #[must_use]
    pub fn new(per_second: Option<NonZeroU32>) -> Self {
        let quota = |rate| Quota::per_second(rate).allow_burst(NonZeroU32::MIN);
        Self(per_second.map(|rate| Arc::new(RateLimiter::direct(quota(rate)))))
    }

    async fn ready(&self) {
        if let Some(limiter) = &self.0 {
            limiter.until_ready().await;
        }
    }
}

impl Pacer {
    /// A pacer that keeps to `limits`.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let slots = Arc::new(Semaphore::new(limits.max_in_flight.get() as usize));
        Self { limits, rate: Rate::new(limits.writes_per_second), slots }
    }

    /// What it keeps to.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Waits until one more write may be sent, by the pace of the process and by `own`, that of one migration.
    pub async fn permit(&self, own: &Rate) -> Permit {
        // Its own pace first: a slow migration must not hold a place that a fast one could use.
        own.ready().await;
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
        self.rate.ready().await;
        Permit { _slot: slot }
    }
}
