//! One round: one contestant, from stale objects to migrated ones, and what that took.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use testbed::audit::{AuditLog, Entry, Filter};
use tokio::time::{Instant, sleep};

use crate::bed::Bed;
use crate::contestant::Who;
use crate::counter::Counter;
use crate::meter;

/// An entry is written when its request has ended, so the last one may come an instant late.
const AUDIT_LOG_PATIENCE: Duration = Duration::from_secs(20);

/// So many points are drawn of a run.
const POINTS: usize = 60;

/// What was seen of a contestant while it ran.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pid: Option<i32>,
    began: Timestamp,
    ended: Timestamp,
    before: [f64; 3],
    servers: [f64; 3],
    migrator_before: f64,
    migrator: f64,
    peak_kib: u64,
}

/// What a round came to.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) who: String,
    pub(crate) objects: usize,
    /// From the order to its success, or of the bare loop to its end.
    pub(crate) to_succeeded: f64,
    /// When the first patch came in and when the last was answered.
    pub(crate) swept: [Timestamp; 2],
    /// Seconds from the one to the other.
    pub(crate) sweep: f64,
    /// From the first request about the objects to the last write, the trim included.
    pub(crate) whole: f64,
    pub(crate) requests: usize,
    pub(crate) patches: usize,
    pub(crate) lists: usize,
    pub(crate) writes: i64,
    pub(crate) conversions: u64,
    /// Of the migrator, the API server, etcd and the webhook.
    pub(crate) cpu_seconds: [f64; 4],
    pub(crate) peak_kib: u64,
    /// Up and down, where they were counted.
    pub(crate) bytes: Option<[u64; 2]>,
    /// Seconds since the first patch, and patches answered by then.
    pub(crate) progress: Vec<(f64, usize)>,
}

impl Watched {
    pub(crate) fn begin(bed: &Bed, pid: Option<i32>) -> Self {
        let (before, now) = (servers(bed), Timestamp::now());
        let migrator_before = pid.and_then(meter::cpu_seconds).unwrap_or_default();
        Self {
            pid,
            began: now,
            ended: now,
            before,
            servers: before,
            migrator_before,
            migrator: migrator_before,
            peak_kib: 0,
        }
    }

    /// Looks at the migrator, which may be gone at the next look.
    pub(crate) fn look(&mut self) {
        let Some(pid) = self.pid else { return };
        self.migrator = meter::cpu_seconds(pid).unwrap_or(self.migrator).max(self.migrator);
        self.peak_kib = meter::peak_kib(pid).unwrap_or(self.peak_kib).max(self.peak_kib);
    }

    pub(crate) fn ended(mut self, bed: &Bed) -> Self {
        self.look();
        self.ended = Timestamp::now();
        self.servers = servers(bed);
        self
    }
}

/// The seconds of CPU of the API server, etcd and the webhook.
fn servers(bed: &Bed) -> [f64; 3] {
    let of = |pid: Option<i32>| pid.and_then(meter::cpu_seconds).unwrap_or_default();
    let webhook = if bed.webhook.is_some() { meter::webhook_seconds() } else { 0.0 };
    [of(bed.plane.api_server().pid()), of(bed.plane.etcd_server().pid()), webhook]
}

impl Round {
    /// Makes all objects stale, has one contestant migrate them, and looks into etcd whether it did.
    pub(crate) async fn run(bed: &mut Bed, who: Who, in_flight: usize, counter: Option<&Counter>) -> Self {
        bed.make_stale().await;
        let (before, _) = bed.writes().await;
        let (asked, bytes) = (asked(bed), counter.map(Counter::bytes));
        let audit = bed.plane.audit().from_now();
        let watched = who.run(bed, in_flight, counter).await;
        let (writes, is_right) = bed.writes().await;
        assert!(is_right, "not every object is stored in {}, says etcd", bed.version());
        let entries = entries(&audit, bed, who).await;
        let bytes = bytes.zip(counter.map(Counter::bytes));
        Self {
            writes: writes - before,
            conversions: self::asked(bed) - asked,
            bytes: bytes.map(|([up, down], [up_now, down_now])| [up_now - up, down_now - down]),
            ..Self::read(bed, who, &watched, &entries)
        }
    }

    fn read(bed: &Bed, who: Who, watched: &Watched, entries: &[Entry]) -> Self {
        let about = |entry: &&Entry| entry.object.as_ref().is_some_and(|it| it.api_group == bed.kind.group);
        let patches: Vec<_> = entries.iter().filter(about).filter(|entry| entry.verb == "patch").collect();
        let lists = entries.iter().filter(about).filter(|entry| entry.verb == "list").count();
        let first = patches.iter().map(|entry| entry.received).min().expect("patches");
        let mut answered: Vec<_> = patches.iter().map(|entry| entry.answered).collect();
        answered.sort();
        let last = *answered.last().expect("patches");
        let begun = entries.iter().filter(about).map(|entry| entry.received).min().unwrap_or(first);
        let trimmed = entries.iter().filter(|entry| {
            entry.verb == "patch"
                && entry.object.as_ref().is_some_and(|it| it.subresource == "status")
                && entry.object.as_ref().is_some_and(|it| it.resource == "customresourcedefinitions")
        });
        let done = trimmed.map(|entry| entry.answered).max().map_or(last, |trim| trim.max(last));
        let [api_server, etcd, webhook] = [0, 1, 2].map(|at| watched.servers[at] - watched.before[at]);
        let since = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64();
        let step = answered.len().div_ceil(POINTS).max(1);
        Self {
            who: who.name(),
            objects: bed.keys.len(),
            to_succeeded: since(watched.began, watched.ended),
            swept: [first, last],
            sweep: since(first, last),
            whole: since(begun, done),
            requests: entries.len(),
            patches: patches.len(),
            lists,
            writes: 0,
            conversions: 0,
            cpu_seconds: [watched.migrator - watched.migrator_before, api_server, etcd, webhook],
            peak_kib: watched.peak_kib,
            bytes: None,
            progress: (0..answered.len())
                .step_by(step)
                .chain([answered.len() - 1])
                .map(|at| (since(first, answered[at]), at + 1))
                .collect(),
        }
    }

    /// A run that was watched by somebody else. What was written and converted was not counted.
    pub(crate) async fn watched(bed: &Bed, who: Who, watched: &Watched, audit: &AuditLog) -> Self {
        Self::read(bed, who, watched, &entries(audit, bed, who).await)
    }

    pub(crate) fn json(&self) -> Value {
        let Self {
            who,
            objects,
            to_succeeded,
            swept: _,
            sweep,
            whole,
            requests,
            patches,
            lists,
            writes,
            conversions,
            cpu_seconds,
            peak_kib,
            bytes,
            progress,
        } = self;
        json!({
            "who": who, "objects": objects, "secondsToSucceeded": to_succeeded, "secondsOfSweep": sweep,
            "secondsOfWhole": whole, "requests": requests, "patches": patches, "lists": lists, "writes": writes,
            "conversions": conversions,
            "cpuSeconds": {
                "migrator": cpu_seconds[0], "apiServer": cpu_seconds[1], "etcd": cpu_seconds[2],
                "webhook": cpu_seconds[3],
            },
            "peakKiB": peak_kib, "bytesUpAndDown": bytes, "progress": progress,
        })
    }
}

fn asked(bed: &Bed) -> u64 {
    bed.webhook.as_ref().map_or(0, |webhook| webhook.asked().objects)
}

/// All that a contestant asked for, once each of its patches is in the log.
async fn entries(audit: &AuditLog, bed: &Bed, who: Who) -> Vec<Entry> {
    let filter = Filter::default().user_agent(who.agent());
    let patches = Filter::group(&bed.kind.group).user_agent(who.agent()).verb("patch");
    let deadline = Instant::now() + AUDIT_LOG_PATIENCE;
    while audit.count(&patches) < bed.keys.len() {
        assert!(Instant::now() < deadline, "the audit log lacks patches");
        sleep(Duration::from_millis(200)).await;
    }
    audit.entries(&filter)
}
