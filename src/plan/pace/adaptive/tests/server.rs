//! A server on paper: so many workers, each busy for so long with one visit, and a migration that keeps them at it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::plan::pace::{AdaptivePace, Heard, Latencies, Round};

pub(super) struct Server {
    pace: AdaptivePace,
    latencies: Latencies,
    workers: usize,
    takes: Duration,
    slower: u32,
    now: Duration,
    queue: VecDeque<(Duration, Round)>,
    /// When each visit that is worked on will be done, when it was sent, and in which round.
    busy: Vec<(Duration, Duration, Round)>,
}

/// What was seen while it ran.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) answers: u64,
    pub(super) in_flight_max: u32,
}

impl Server {
    pub(super) fn new(pace: AdaptivePace, workers: usize, takes: Duration) -> Self {
        let (latencies, now) = (Latencies::default(), Duration::ZERO);
        Self { pace, latencies, workers, takes, slower: 1, now, queue: VecDeque::new(), busy: Vec::new() }
    }

    /// From now on each visit takes so many times as long: others need the server.
    pub(super) fn slow_down(&mut self, times: u32) {
        self.slower = times;
    }

    pub(super) fn run_for(&mut self, time: Duration) -> Seen {
        let (end, mut seen) = (self.now + time, Seen::default());
        while self.now < end {
            while let Some(round) = self.pace.send(self.now) {
                self.queue.push_back((self.now, round));
            }
            seen.in_flight_max = seen.in_flight_max.max(self.pace.in_flight());
            while self.busy.len() < self.workers {
                let Some((sent, round)) = self.queue.pop_front() else { break };
                self.busy.push((self.now + self.takes * self.slower, sent, round));
            }
            let next = (0..self.busy.len()).min_by_key(|at| self.busy[*at].0).expect("one is under way");
            let (done, sent, round) = self.busy.remove(next);
            self.now = done;
            self.pace.hear(round, &mut self.latencies, Heard::Rewritten(done.saturating_sub(sent)), done);
            self.pace.end();
            seen.answers += 1;
        }
        seen
    }
}
