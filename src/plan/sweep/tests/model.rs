//! A server that knows how each object is really stored, and a driver that sweeps it while everything happens at once.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::plan::sample::{at, crd, failure, moved, no_leases, object, quiet, target_of};
use crate::plan::{
    Conclusion, Crd, CrdRecord, Drift, Object, Outcome, Page, Sweep, Target, TrimVerdict, Visit, judge_trim,
};

/// How an object is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    Old,
    New,
}

#[derive(Clone, Debug)]
struct Item {
    uid: u64,
    resource_version: u64,
    stored: Stored,
}

/// The server and the sweep of it.
#[derive(Debug)]
pub(super) struct World {
    target: Target,
    items: BTreeMap<u8, Item>,
    counter: u64,
    live: Crd,
    record: CrdRecord,
    sweep: Option<Sweep>,
    flights: Vec<Visit>,
    now: Duration,
    pub(super) trims: u32,
}

impl World {
    pub(super) fn new(target: Target, objects: u8) -> Self {
        let mut world = Self {
            sweep: Some(Sweep::first(target.clone())),
            target,
            items: BTreeMap::new(),
            counter: 0,
            live: crd(),
            record: quiet(crd()),
            flights: Vec::new(),
            now: Duration::ZERO,
            trims: 0,
        };
        (0..objects).for_each(|key| world.write(key, Stored::Old));
        world
    }

    /// Does one thing that can happen.
    pub(super) fn happen(&mut self, what: u8, arg: u8) {
        self.now += Duration::from_millis(u64::from(arg) * 20);
        self.guard();
        match what {
            0..=3 => self.list(usize::from(arg % 4) + 1),
            4 => self.expire(arg.is_multiple_of(2)),
            5..=10 => self.take_off(),
            11..=17 => self.land(arg, arg),
            18 => self.client_writes(arg % 12),
            19 => drop(self.items.remove(&(arg % 12))),
            20 if !self.is_confirming() => self.write(arg % 12, Stored::Old),
            21 => self.flip(arg.is_multiple_of(2)),
            22 => self.restart(),
            _ => self.conclude(),
        }
        self.check_progress();
    }

    /// Lets everything go well from here on, and says after how many steps the trim was made.
    pub(super) fn calm_down(&mut self) -> Option<u32> {
        if self.is_away() {
            self.flip(true);
        }
        let trims = self.trims;
        for step in 0..2000 {
            self.now += Duration::from_secs(1);
            self.guard();
            self.list(3);
            self.take_off();
            self.land(0, 0);
            self.conclude();
            self.check_progress();
            if self.trims > trims {
                return Some(step);
            }
        }
        None
    }

    fn sweep(&mut self) -> &mut Sweep {
        self.sweep.get_or_insert_with(|| Sweep::first(self.target.clone()))
    }

    /// What `Run` does before each step: it starts over where the CRD is not known to be the one that was accepted. A visit
    /// that is under way then is answered, but nobody hears of it.
    fn guard(&mut self) {
        if self.target.drift(&self.record) != Drift::None {
            self.look_up();
            self.take_up();
        }
    }

    /// Takes up the checkpoint; while the flag is away there is nothing to be accepted.
    fn take_up(&mut self) {
        let sweep = self.sweep();
        let (checkpoint, refused) = (sweep.checkpoint().clone(), sweep.refusals().listed().to_vec());
        if let Some(target) = target_of(&self.live).filter(|_| !self.is_away()) {
            self.flights.clear();
            self.target = target.clone();
            self.sweep = Some(Sweep::resume(target, &checkpoint, true, &refused));
        }
    }

    fn is_confirming(&mut self) -> bool {
        self.sweep().is_confirm()
    }

    fn is_away(&self) -> bool {
        self.live.versions != crd().versions
    }

    fn write(&mut self, key: u8, stored: Stored) {
        self.counter += 1;
        let (uid, resource_version) = (self.counter, self.counter);
        let item = self.items.entry(key).or_insert(Item { uid, resource_version, stored });
        item.resource_version = resource_version;
        item.stored = stored;
    }

    /// A server that is awake encodes as the CRD says now.
    fn client_writes(&mut self, key: u8) {
        let stored = if self.is_away() { Stored::Old } else { Stored::New };
        self.write(key, stored);
    }

    /// The storage flag moves away or back; the watch tells of it or does not.
    fn flip(&mut self, seen: bool) {
        self.live = moved(&self.live);
        if seen {
            self.look_up();
        }
    }

    fn look_up(&mut self) {
        self.record.observe(self.live.clone(), at(self.now.as_secs()));
    }

    fn restart(&mut self) {
        self.record = quiet(self.live.clone());
        self.take_up();
    }

    fn list(&mut self, limit: usize) {
        let Some(token) = self.sweep().wanted_page() else { return };
        let after = token.and_then(|t| t.parse::<u8>().ok());
        let mut rest = self.items.iter().filter(|(key, _)| after.is_none_or(|after| **key > after));
        let objects: Vec<(u8, Object)> = rest.by_ref().take(limit).map(|(k, i)| (*k, shown(*k, i))).collect();
        let remaining = rest.count() as u64;
        let continue_token = objects.last().filter(|_| remaining > 0).map(|(key, _)| key.to_string());
        let objects = objects.into_iter().map(|(_, object)| object).collect();
        self.sweep().list(Page { objects, continue_token, remaining: Some(remaining) });
    }

    fn expire(&mut self, with_token: bool) {
        let Some(token) = self.sweep().wanted_page() else { return };
        let token = token.map(str::to_owned).filter(|_| with_token);
        self.sweep().list_expired(token);
    }

    fn take_off(&mut self) {
        let now = self.now;
        if let Some(visit) = self.sweep().next(now) {
            self.flights.push(visit);
        }
    }

    /// One of the visits under way is answered.
    fn land(&mut self, which: u8, how: u8) {
        if self.flights.is_empty() {
            return;
        }
        let visit = self.flights.swap_remove(usize::from(which) % self.flights.len());
        let outcome = match how % 16 {
            0..=8 => self.answer(visit.object()),
            9 => Outcome::Conflict(failure(409, "conflict")),
            10 | 11 => Outcome::Refused(failure(422, "invalid")),
            12 => {
                // The server did it, but the answer was lost.
                let _ = self.answer(visit.object());
                Outcome::Deferred(failure(504, "timeout"))
            }
            _ => Outcome::Deferred(failure(500, "down")),
        };
        let now = self.now;
        self.sweep().record(visit, outcome, now);
    }

    /// What the server makes of a visit, by the version that it stores at the moment.
    fn answer(&mut self, object: &Object) -> Outcome {
        let stored = if self.is_away() { Stored::Old } else { Stored::New };
        let Some(key) = object.name.parse::<u8>().ok().filter(|k| self.items.contains_key(k)) else {
            return Outcome::Gone;
        };
        if self.items[&key].stored != stored {
            self.write(key, stored);
        }
        let now = shown(key, &self.items[&key]);
        if now == *object { Outcome::Unchanged } else { Outcome::Rewritten(now.resource_version) }
    }

    fn conclude(&mut self) {
        self.look_up();
        let now = self.now;
        let sweep = self.sweep();
        let open = sweep.wanted_page().is_some() || sweep.next_due().is_some() || sweep.has_due(now);
        if open || !self.flights.is_empty() || self.is_away() {
            return;
        }
        self.sweep = match self.sweep.take().map(Sweep::conclude) {
            None => None,
            Some(Conclusion::Open(sweep) | Conclusion::Refused(sweep)) => Some(sweep.into_retry()),
            Some(Conclusion::Unconfirmed(sweep)) => Some(sweep.into_confirm(self.live.generation)),
            Some(Conclusion::Complete(complete)) => match judge_trim(complete, &self.record, &no_leases()) {
                TrimVerdict::Trim(_) => {
                    let old: Vec<_> = self.items.iter().filter(|(_, i)| i.stored == Stored::Old).collect();
                    assert!(old.is_empty(), "trimmed with {old:?} stored in the old version");
                    self.trims += 1;
                    None
                }
                TrimVerdict::Trimmed(_) | TrimVerdict::Wait(..) | TrimVerdict::Drifted => None,
            },
        };
    }

    fn check_progress(&mut self) {
        let p = self.sweep().tally().progress();
        assert_eq!(p.visited, p.rewritten + p.unchanged + p.gone + p.refused, "{p:?}");
        assert!(p.percent <= 100 && p.visited <= p.total, "{p:?}");
        assert_eq!(p.summary, format!("{}/{} {}%", p.visited, p.total, p.percent));
    }
}

fn shown(key: u8, item: &Item) -> Object {
    Object { uid: item.uid.to_string(), ..object(&key.to_string(), &item.resource_version.to_string()) }
}
