//! The world of the check: one CRD, two API servers that lag behind it, and how each object is really stored.
//!
//! A server's knowledge is kept as a floor: the oldest generation of the CRD that it may still encode by. Each write through
//! it picks any generation from there on, which covers handlers that lag, handlers retired one after the other and
//! requests that were under way when the flag moved.

use std::collections::BTreeMap;

use crate::plan::sample::{crd, moved, object, server, servers};
use crate::plan::{ApiServers, Crd, Object, Page};

/// One step of the clock, in seconds: the time between two renewals of a Lease.
pub(super) const TICK: u64 = 10;
/// The settle time that restow is given where the rules don't say otherwise.
pub(super) const SETTLE: u64 = 20;
/// The longest sleep of a server.
const SLEEP_MAX: u64 = 60;
/// The longest pause that is part of a server's lag: its Lease doesn't tell of a shorter one.
const PAUSE_MAX: u64 = 20;
/// When the story begins; the CRD was created long before.
const START: u64 = 1000;
/// The server that can fall asleep.
const SLEEPER: usize = 1;

/// What holds in this world, and which of restow's guards work. Each test drops one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The settle time that restow keeps.
    pub(super) settle: u64,
    /// The longest lag of a server that runs, requests under way and short pauses included.
    pub(super) lag: u64,
    /// Whether restow can read the Leases: before the first sweep, and later on.
    pub(super) leases: (bool, bool),
    /// The longest pause that a server's lag is not counted anew from.
    pub(super) pause: u64,
    /// Whether the record of the CRD tells that a generation was missed.
    pub(super) notices_gaps: bool,
    /// Whether the confirm is made.
    pub(super) confirms: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            settle: SETTLE,
            lag: SETTLE,
            leases: (true, true),
            pause: PAUSE_MAX,
            notices_gaps: true,
            confirms: true,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Server {
    /// The oldest generation, as a place in the history, that it may still encode by.
    floor: usize,
    renewed_at: u64,
    /// Asleep since then.
    asleep: Option<u64>,
    /// When it last woke up from more than a short pause.
    runs_since: u64,
}

/// An object in etcd.
#[derive(Clone, Debug)]
struct Item {
    uid: u32,
    writes: u32,
    version: String,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) rules: Rules,
    pub(super) secs: u64,
    /// Each generation of the CRD, and when it began.
    history: Vec<(Crd, u64)>,
    servers: [Server; 2],
    items: BTreeMap<&'static str, Item>,
    /// What the first page of a list saw: the pages that follow show the same.
    snapshots: Vec<Vec<Object>>,
    uids: u32,
}

impl World {
    /// The flag has moved to v1 just now; all objects are stored in v1beta1.
    pub(super) fn new(rules: Rules, names: &[&'static str]) -> Self {
        let new = crd();
        let old = Crd { generation: new.generation - 1, ..moved(&new) };
        let awake = Server { floor: 0, renewed_at: START, asleep: None, runs_since: 0 };
        let mut world = Self {
            rules,
            secs: START,
            history: vec![(old, 0), (new, START)],
            servers: [awake; 2],
            items: BTreeMap::new(),
            snapshots: Vec::new(),
            uids: 0,
        };
        for name in names {
            world.create(name, "v1beta1");
        }
        world
    }

    pub(super) fn crd(&self) -> &Crd {
        &self.history[self.history.len() - 1].0
    }

    /// The CRD as it was at that place of its history.
    pub(super) fn seen_at(&self, place: usize) -> &Crd {
        &self.history[place].0
    }

    pub(super) fn latest(&self) -> usize {
        self.history.len() - 1
    }

    /// How old the latest change of the CRD's spec is.
    pub(super) fn age(&self) -> u64 {
        self.secs - self.history[self.latest()].1
    }

    pub(super) fn move_flag(&mut self) {
        let last = self.crd();
        let mut next = moved(last);
        next.resource_version = bump(&last.resource_version);
        let name = next.storage_version().map(|v| v.name.clone()).unwrap_or_default();
        if !next.stored_versions.contains(&name) {
            next.stored_versions.push(name);
        }
        self.history.push((next, self.secs));
    }

    /// What a trim leaves.
    pub(super) fn trim(&mut self, stored: Vec<String>) {
        let last = self.latest();
        let crd = &mut self.history[last].0;
        crd.stored_versions = stored;
        crd.resource_version = bump(&crd.resource_version);
    }

    /// The versions that a write could be encoded in now.
    pub(super) fn encodings(&self) -> Vec<String> {
        self.encodings_of(self.servers.iter().filter(|s| s.asleep.is_none()))
    }

    fn encodings_of<'a>(&self, servers: impl Iterator<Item = &'a Server>) -> Vec<String> {
        let floor = servers.map(|s| s.floor).min().unwrap_or(0);
        let mut all: Vec<String> = self.history[floor..]
            .iter()
            .filter_map(|(crd, _)| crd.storage_version().map(|v| v.name.clone()))
            .collect();
        all.sort();
        all.dedup();
        all
    }

    /// What is wrong with trimming to `version` now.
    pub(super) fn harm_of_trim(&self, version: &str) -> Option<String> {
        if let Some((name, item)) = self.items.iter().find(|(_, item)| item.version != version) {
            return Some(format!("trimmed to {version} while {name} is stored in {}", item.version));
        }
        let may = self.encodings_of(self.servers.iter());
        let other = may.iter().find(|v| *v != version)?;
        Some(format!("trimmed to {version} while a server may still write {other}"))
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.items.keys().copied().collect()
    }

    pub(super) fn create(&mut self, name: &'static str, version: &str) {
        self.uids += 1;
        self.items.insert(name, Item { uid: self.uids, writes: 1, version: version.to_owned() });
    }

    /// A client changes an object.
    pub(super) fn write(&mut self, name: &str, version: &str) {
        if let Some(item) = self.items.get_mut(name) {
            item.writes += 1;
            version.clone_into(&mut item.version);
        }
    }

    /// An empty patch, which is written only if the bytes differ: the object as it is then.
    pub(super) fn touch(&mut self, name: &str, version: &str) -> Option<Object> {
        if self.items.get(name)?.version != version {
            self.write(name, version);
        }
        self.items.get_key_value(name).map(|(name, item)| shown(name, item))
    }

    /// One object a page. A token stands for a list's snapshot and the last name; without a snapshot it reads what is there.
    pub(super) fn page(&mut self, token: Option<&str>) -> Page {
        let (snapshot, after) = match token.and_then(|t| t.split_once('/')) {
            None => {
                self.snapshots.push(self.listed());
                (Some(self.snapshots.len() - 1), "")
            }
            Some((snapshot, after)) => (snapshot.parse::<usize>().ok(), after),
        };
        let all = snapshot.and_then(|s| self.snapshots.get(s).cloned()).unwrap_or_else(|| self.listed());
        let mut rest = all.into_iter().filter(|o| o.name.as_str() > after);
        let objects: Vec<Object> = rest.next().into_iter().collect();
        let remaining = rest.count() as u64;
        let place = snapshot.map_or_else(|| "now".to_owned(), |s| s.to_string());
        let continue_token = objects.last().filter(|_| remaining > 0).map(|o| format!("{place}/{}", o.name));
        Page { objects, continue_token, remaining: Some(remaining) }
    }

    fn listed(&self) -> Vec<Object> {
        self.items.iter().map(|(name, item)| shown(name, item)).collect()
    }

    pub(super) fn can_sleep(&self) -> bool {
        self.servers[SLEEPER].asleep.is_none()
    }

    pub(super) fn sleep(&mut self) {
        self.servers[SLEEPER].asleep = Some(self.secs);
    }

    /// It goes on with what it knew.
    pub(super) fn wake(&mut self) {
        let due = self.due();
        let sleeper = &mut self.servers[SLEEPER];
        let slept_since = sleeper.asleep.take().unwrap_or(self.secs);
        if self.secs - slept_since > self.rules.pause {
            sleeper.runs_since = self.secs;
        } else if sleeper.runs_since + self.rules.lag <= self.secs {
            sleeper.floor = sleeper.floor.max(due);
        }
        // At once, with what it knew, and with the requests that it had under way.
        sleeper.renewed_at = self.secs;
    }

    /// The generation that a server which lags for as long as it may knows by now.
    fn due(&self) -> usize {
        let is_old = |since: u64| since + self.rules.lag <= self.secs;
        self.history.iter().rposition(|(_, since)| is_old(*since)).unwrap_or(0)
    }

    /// Whether a server has something to catch up with before the next tick.
    pub(super) fn lags(&self) -> bool {
        self.servers.iter().any(|s| s.asleep.is_none() && s.floor < self.latest())
    }

    /// Time passes. Servers that run catch up if they are `quick`, or if they have lagged for as long as they may.
    pub(super) fn tick(&mut self, quick: bool) {
        self.secs += TICK;
        let now = self.secs;
        if self.servers[SLEEPER].asleep.is_some_and(|since| since + SLEEP_MAX <= now) {
            self.wake();
        }
        let (lag, due, latest) = (self.rules.lag, self.due(), self.latest());
        for server in self.servers.iter_mut().filter(|s| s.asleep.is_none()) {
            if server.runs_since + lag <= now {
                server.floor = server.floor.max(due);
            }
            if quick {
                server.floor = latest;
            }
            server.renewed_at = now;
        }
    }

    pub(super) fn leases(&self, is_first: bool) -> ApiServers {
        let (first, later) = self.rules.leases;
        if !(if is_first { first } else { later }) {
            return ApiServers::Unknown("they can't be read".to_owned());
        }
        let secs = |at: u64| i64::try_from(at).unwrap_or(i64::MAX);
        let all = ["one", "two"].iter().zip(&self.servers);
        servers(all.map(|(name, s)| server(name, secs(s.renewed_at))).collect(), secs(self.secs))
    }

    /// How things are, for a trace.
    pub(super) fn summary(&self) -> String {
        let items: Vec<String> = self.items.iter().map(|(name, i)| format!("{name}={}", i.version)).collect();
        let servers: Vec<String> = self
            .servers
            .iter()
            .map(|s| format!("{}{}", self.encodings_of([s].into_iter()).join("|"), asleep(s)))
            .collect();
        let flag = self.crd().storage_version().map(|v| v.name.as_str()).unwrap_or_default();
        format!("flag={flag} servers={} {}", servers.join(","), items.join(" "))
    }
}

fn asleep(server: &Server) -> &'static str {
    if server.asleep.is_some() { " (asleep)" } else { "" }
}

fn shown(name: &str, item: &Item) -> Object {
    Object { uid: item.uid.to_string(), ..object(name, &format!("{}.{}", item.uid, item.writes)) }
}

fn bump(resource_version: &str) -> String {
    (resource_version.parse::<u32>().unwrap_or(0) + 1).to_string()
}
