//! The adaptive pace: how many visits may be under way at once, by how fast the server answers them.
//!
//! It is the gradient of Netflix' concurrency-limits: what a visit takes on a server with nothing else to do, by what it takes
//! now. While that is about 1, more are let go; as it falls, the limit falls in proportion and at once. What a visit takes
//! unloaded is measured as BBR measures the least round trip: now and then all but one place is given up for a moment.
//! `docs/pace.md` says why, and where each constant is from. Several migrations share one limit; each has its own
//! [`Latencies`], since the objects of one may be a hundred times larger than those of another.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::plan::{Failure, Outcome, Scope};

/// Visits that take so many times as long as unloaded are no sign of a queue (Gradient2, `rttTolerance`).
const TOLERANCE: f64 = 1.5;

/// The limit falls to no less than so much of itself by one look at latencies (Gradient2).
const GRADIENT_MIN: f64 = 0.5;

/// What is left of the limit when the server says that it has too much to do (RFC 5681, section 3.1).
const LEFT_BY_OVERLOAD: f64 = 0.5;

/// By so much the limit grows once it is known where the server slows down (RFC 5681, section 3.1).
const STEP: f64 = 1.0;

/// The fewest answers that are judged together (concurrency-limits, `WindowedLimit`).
const WINDOW_MIN: usize = 10;

/// How often, and for how long, one visit at a time shows what it takes (BBR, `RTpropFilterLen` and `ProbeRTTDuration`).
const LULL_EVERY: Duration = Duration::from_secs(10);
const LULL: Duration = Duration::from_millis(200);

/// After so long without an answer nothing is known any more (RFC 5681, section 4.1, with the least timeout of RFC 6298).
const IDLE: Duration = Duration::from_secs(1);

/// How many visits may be under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gear {
    /// As many as the limits say.
    Fixed,
    /// As many as the server answers readily, within the limits.
    Adaptive,
}

/// What is known of a server, and what it is given to do.
#[derive(Clone, Debug)]
pub struct AdaptivePace {
    gear: Gear,
    ceiling: u32,
    limit: f64,
    in_flight: u32,
    /// Whether the limit doubles: nothing has shown yet where the server slows down.
    starts: bool,
    /// Whether as many as are allowed were under way since the limit was set.
    reached: bool,
    round: Round,
    /// When the present lull ends or the next one begins.
    turns_at: Duration,
    heard_at: Duration,
}

/// A time in which the limit did not fall. What was sent in another one tells nothing of this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    number: u64,
    is_lull: bool,
}

/// What the visits of one migration take.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    rewritten: Series,
    unchanged: Series,
}

/// What one kind of visit takes. The server writes in one of them and not in the other, which differs several times over.
#[derive(Clone, Debug, Default)]
struct Series {
    round: Round,
    window: Vec<Duration>,
    /// The least of the present and of the one before, each from one lull to the next.
    unloaded: [Option<Duration>; 2],
}

/// What an answer tells of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// How long it takes to write an object.
    Rewritten(Duration),
    /// How long it takes to find an object unchanged.
    Unchanged(Duration),
    /// It has too much to do.
    Overload,
    /// Nothing.
    Nothing,
}

impl Heard {
    /// What the outcome of a visit tells that took so long.
    #[must_use]
    pub fn of(outcome: &Outcome, took: Duration) -> Self {
        match outcome {
            Outcome::Rewritten(_) => Self::Rewritten(took),
            Outcome::Unchanged => Self::Unchanged(took),
            Outcome::Deferred(failure) if is_overload(failure) => Self::Overload,
            Outcome::Gone | Outcome::Refused(_) | Outcome::Conflict(_) | Outcome::Deferred(_) => {
                Self::Nothing
            }
        }
    }
}

/// Whether the server asks for patience, or gave up on a request that has reached it. A webhook that fails is not meant.
fn is_overload(failure: &Failure) -> bool {
    match failure.code {
        Some(408 | 429 | 503 | 504) => true,
        Some(code) => failure.retry_after.is_some() || (code >= 500 && failure.scope() == Scope::Cluster),
        None => !failure.unreached,
    }
}

impl AdaptivePace {
    /// A pace that never has more than `ceiling` visits under way. An adaptive one starts with one.
    #[must_use]
    pub fn new(gear: Gear, ceiling: u32) -> Self {
        Self {
            gear,
            ceiling,
            limit: 1.0,
            in_flight: 0,
            starts: true,
            reached: false,
            round: Round::default(),
            turns_at: Duration::ZERO,
            heard_at: Duration::ZERO,
        }
    }

    /// How many may be under way now.
    #[must_use]
    pub fn allowed(&self) -> u32 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at least 1, at most a u32"
        )]
        let limit = self.limit as u32;
        match self.gear {
            Gear::Fixed => self.ceiling,
            Gear::Adaptive if self.round.is_lull => 1,
            Gear::Adaptive => limit.clamp(1, self.ceiling),
        }
    }

    /// How many are under way.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Takes in that one more is sent, if one may be.
    pub fn send(&mut self, now: Duration) -> Option<Round> {
        if self.in_flight == 0 && now >= self.heard_at + IDLE {
            (self.limit, self.starts) = (1.0, true);
            self.begin_lull(now);
        } else if now >= self.turns_at && self.round.is_lull {
            self.turns_at = now + LULL_EVERY;
            self.next_round(false);
        } else if now >= self.turns_at {
            self.begin_lull(now);
        }
        if self.in_flight >= self.allowed() {
            return None;
        }
        self.in_flight += 1;
        self.reached |= self.in_flight == self.allowed();
        Some(self.round)
    }

    /// Takes in that one that was sent is over, whatever came of it.
    pub fn end(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Takes in what the answer to one that was sent in `round` tells.
    pub fn hear(&mut self, round: Round, latencies: &mut Latencies, heard: Heard, now: Duration) {
        self.heard_at = now;
        if round != self.round {
            return;
        }
        let (series, took) = match heard {
            Heard::Rewritten(took) => (&mut latencies.rewritten, took),
            Heard::Unchanged(took) => (&mut latencies.unchanged, took),
            Heard::Overload => return self.fall(LEFT_BY_OVERLOAD),
            Heard::Nothing => return,
        };
        let enough = WINDOW_MIN.max(self.allowed() as usize);
        if let Some(slower) = series.take_in(round, took, enough) {
            self.judge(TOLERANCE / slower);
        }
    }

    fn judge(&mut self, gradient: f64) {
        if gradient < 1.0 {
            self.fall(gradient.max(GRADIENT_MIN));
        } else if self.reached {
            self.limit = if self.starts { self.limit * 2.0 } else { self.limit + STEP };
            self.limit = self.limit.min(f64::from(self.ceiling));
            self.reached = false;
        }
    }

    fn fall(&mut self, left: f64) {
        self.limit = (self.limit * left).max(1.0);
        self.starts = false;
        self.next_round(self.round.is_lull);
    }

    fn begin_lull(&mut self, now: Duration) {
        self.turns_at = now + LULL;
        self.next_round(true);
    }

    fn next_round(&mut self, is_lull: bool) {
        self.round = Round { number: self.round.number + 1, is_lull };
        self.reached = false;
    }
}

impl Series {
    /// Takes in one more. Once they are enough, says how many times as long as unloaded they take.
    fn take_in(&mut self, round: Round, took: Duration, enough: usize) -> Option<f64> {
        if round != self.round {
            self.close();
            self.round = round;
        }
        if self.window.len() < enough {
            self.window.push(took);
        }
        if self.round.is_lull || self.window.len() < enough {
            return None;
        }
        let now = self.median()?;
        let least = self.unloaded.iter().flatten().min().map_or(now, |least| now.min(*least));
        self.unloaded[0] = Some(self.unloaded[0].map_or(least, |known| known.min(now)));
        Some(now.as_secs_f64() / least.as_secs_f64().max(f64::MIN_POSITIVE))
    }

    /// Ends a round: a lull has shown what a visit takes unloaded, however few there were.
    fn close(&mut self) {
        if let (true, Some(shown)) = (self.round.is_lull, self.median()) {
            self.unloaded = [Some(shown), self.unloaded[0]];
        }
        self.window.clear();
    }

    /// The median of the window, which is empty after that.
    fn median(&mut self) -> Option<Duration> {
        self.window.sort_unstable();
        let median = self.window.get(self.window.len() / 2).copied();
        self.window.clear();
        median
    }
}
