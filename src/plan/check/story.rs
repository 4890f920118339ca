//! One course of events: the real `Run`, driven as the engine drives it, and a world in which things happen meanwhile.

use std::fmt::Write;
use std::num::NonZeroU32;
use std::time::Duration;

use super::event::{Cast, Event};
use super::world::{Rules, World};
use crate::api::{Reason, StorageMigrationSpec, StorageMigrationStatus};
use crate::plan::sample::{at, failure, look, spec};
use crate::plan::{
    Crd, CrdRecord, Finding, Limits, Listing, Moment, Object, Observation, Outcome, PageRequest, Reading,
    Rights, Run, Seal, Step, Surroundings, Trim, Written, read_visit,
};

pub(super) struct Story {
    pub(super) world: World,
    cast: Cast,
    run: Run,
    record: CrdRecord,
    spec: StorageMigrationSpec,
    /// Only where a checkpoint may be taken up: to make one at each step takes long.
    seal: Option<Seal>,
    step: Step,
    /// The status as it was written last, and the one before.
    written: StorageMigrationStatus,
    before: StorageMigrationStatus,
    /// What the run remembers as stored: its own memory is hashed at random, and can't be compared.
    remembered: Vec<String>,
    /// Whether a sweep has started since the latest review.
    has_listed: bool,
    played: Vec<Event>,
    /// What went wrong.
    pub(super) harm: Option<String>,
}

impl Story {
    pub(super) fn new(rules: Rules, cast: Cast, names: &[&'static str]) -> Self {
        let world = World::new(rules, names);
        let mut story = Self {
            record: CrdRecord::new(world.crd().clone(), at(world.secs)),
            world,
            cast,
            run: Run::new(StorageMigrationStatus::default()),
            spec: spec(),
            seal: cast.seals.then(|| Seal::new(&[7; 64], "migration")),
            step: Step::Review,
            written: StorageMigrationStatus::default(),
            before: StorageMigrationStatus::default(),
            remembered: Vec::new(),
            has_listed: false,
            played: Vec::new(),
            harm: None,
        };
        story.decide();
        story
    }

    /// Whether the migration has ended well.
    pub(super) fn is_over(&self) -> bool {
        matches!(&self.step, Step::Hold(finding, None) if finding.reason == Reason::Migrated)
    }

    /// Everything that can happen next; what a fair course would bring comes first.
    pub(super) fn options(&self) -> Vec<Event> {
        let world = &self.world;
        let mut all = Vec::new();
        let encodings = world.encodings();
        match &self.step {
            Step::Hold(..) => all.extend(self.ticks()),
            Step::Visit => all.extend(encodings.iter().rev().cloned().map(|v| Event::Act(Some(v)))),
            Step::Review | Step::AskRights | Step::List(_) | Step::Inspect | Step::Trim | Step::Expire => {
                all.push(Event::Act(None));
            }
        }
        if !world.can_sleep() {
            all.push(Event::Wake);
        }
        let known = self.record.crd().generation - world.seen_at(0).generation;
        let known = usize::try_from(known).unwrap_or(0);
        all.extend((known + 1..=world.latest()).map(Event::Deliver));
        if self.played.len() < self.cast.events {
            self.extras(&encodings, &mut all);
        }
        all
    }

    fn ticks(&self) -> Vec<Event> {
        if self.world.lags() { vec![Event::Tick(true), Event::Tick(false)] } else { vec![Event::Tick(true)] }
    }

    fn extras(&self, encodings: &[String], all: &mut Vec<Event>) {
        let Cast { moves, swings, writers, faults, restarts, sleeps, .. } = self.cast;
        let played = |is: fn(&Event) -> bool| self.played.iter().filter(|e| is(e)).count();
        if played(|e| matches!(e, Event::MoveFlag | Event::MoveUnderTrim)) < moves {
            all.push(Event::MoveFlag);
            if self.step == Step::Trim {
                all.push(Event::MoveUnderTrim);
            }
        }
        if swings && played(|e| matches!(e, Event::SwingFlag)) == 0 {
            all.push(Event::SwingFlag);
        }
        if writers {
            for version in encodings {
                if played(|e| matches!(e, Event::Write(..))) == 0 {
                    let names = self.world.names();
                    all.extend(names.into_iter().map(|name| Event::Write(name, version.clone())));
                }
                if played(|e| matches!(e, Event::Create(..))) == 0 {
                    all.push(Event::Create(version.clone()));
                }
                if played(|e| matches!(e, Event::Recreate(..))) == 0 {
                    all.push(Event::Recreate("a", version.clone()));
                }
            }
        }
        if faults && self.step == Step::Visit {
            if played(|e| matches!(e, Event::Refuse)) == 0 {
                all.push(Event::Refuse);
            }
            if played(|e| matches!(e, Event::LoseAnswer(_))) == 0 {
                all.extend(encodings.iter().cloned().map(Event::LoseAnswer));
            }
        }
        let with_token = matches!(&self.step, Step::List(PageRequest { continue_token: Some(_), .. }));
        if faults && with_token && played(|e| matches!(e, Event::Expire(_))) == 0 {
            all.extend([Event::Expire(false), Event::Expire(true)]);
        }
        if restarts && played(|e| matches!(e, Event::Restart(_))) == 0 {
            all.extend([Event::Restart(false), Event::Restart(true)]);
        }
        if sleeps && self.world.can_sleep() && played(|e| matches!(e, Event::Sleep)) == 0 {
            all.push(Event::Sleep);
        }
        if sleeps && !matches!(self.step, Step::Hold(..)) {
            all.extend(self.ticks());
        }
    }

    pub(super) fn play(&mut self, event: &Event) {
        let is_waiting = matches!(self.step, Step::Hold(..));
        match event {
            Event::Act(version) => {
                self.act(version.as_deref());
                self.tell();
            }
            Event::Refuse => self.visit(&|_, _| Err(failure(403, "denied by policy"))),
            Event::LoseAnswer(version) => self.visit(&|world, object| {
                world.touch(&object.name, version);
                Err(failure(504, "timeout"))
            }),
            Event::Expire(has_token) => self.expire(*has_token),
            Event::MoveUnderTrim => self.trim(true),
            Event::Tick(quick) => self.world.tick(*quick),
            Event::Deliver(place) => self.see(self.world.seen_at(*place).clone()),
            Event::MoveFlag => self.world.move_flag(),
            Event::SwingFlag => {
                self.world.move_flag();
                self.world.move_flag();
            }
            Event::Write(name, version) => self.world.write(name, version),
            Event::Create(version) => self.world.create("c", version),
            Event::Recreate(name, version) => self.world.create(name, version),
            Event::Sleep => self.world.sleep(),
            Event::Wake => self.world.wake(),
            Event::Restart(early) => self.restart(*early),
        }
        if !event.is_free(is_waiting) {
            self.played.push(event.clone());
        }
        if !event.passes_by() {
            self.decide();
        }
    }

    /// What can be told of where things are; two stories that agree in it go on alike.
    pub(super) fn digest(&self) -> String {
        let mut text = format!("{:?}", self.run);
        if let Some(start) = text.find("hashes: {")
            && let Some(len) = text[start..].find('}')
        {
            text.replace_range(start..start + len, "");
        }
        let mut played: Vec<String> = self.played.iter().map(|e| format!("{e:?}")).collect();
        played.sort();
        let _ = write!(
            text,
            "{:?}{:?}{:?}{:?}{:?}{:?}{}{:?}",
            self.world,
            self.record,
            self.step,
            self.written,
            self.before,
            self.remembered,
            self.has_listed,
            played
        );
        text
    }

    /// One line of a trace.
    pub(super) fn line(&self, event: &Event) -> String {
        let next = match &self.step {
            Step::Hold(finding, _) => finding.reason.to_string(),
            Step::List(PageRequest { continue_token, .. }) => {
                format!("list {}", continue_token.as_deref().unwrap_or("from the start"))
            }
            Step::Review => "review".to_owned(),
            Step::AskRights => "ask for rights".to_owned(),
            Step::Visit => "visit".to_owned(),
            Step::Inspect => "inspect".to_owned(),
            Step::Trim => "trim".to_owned(),
            Step::Expire => "expire".to_owned(),
        };
        format!("{:>5}s  {:<44} {}  next: {next}", self.world.secs, event.to_string(), self.world.summary())
    }

    fn decide(&mut self) {
        let now = at(self.world.secs);
        let (run, seen) = self.split();
        self.step = run.decide(&seen, now);
        if let Step::Hold(finding, _) = &self.step {
            let finding = finding.clone();
            self.report(&finding);
        }
    }

    /// Reports what restow did, as the engine does: before anything is decided by it. A review alone says nothing yet.
    fn tell(&mut self) {
        if self.step != Step::Review {
            let finding = self.run.phase(at(self.world.secs));
            self.report(&finding);
        }
    }

    fn report(&mut self, finding: &Finding) {
        let now = at(self.world.secs);
        let (run, seen) = self.split();
        run.report(&seen, finding, now);
        self.before = std::mem::replace(&mut self.written, self.run.status().clone());
    }

    fn act(&mut self, version: Option<&str>) {
        match self.step.clone() {
            Step::Hold(..) | Step::Expire => {}
            Step::Review => {
                self.look_up();
                self.remembered.clear();
                self.has_listed = false;
                let (seal, now) = (self.seal.clone(), at(self.world.secs));
                let (run, seen) = self.split();
                run.reviewed(&seen, &Surroundings::default(), seal, now);
            }
            Step::AskRights => {
                let now = at(self.world.secs);
                let (run, seen) = self.split();
                run.rights_asked(&Rights::default(), &seen, now);
            }
            Step::List(request) => self.list(&request),
            Step::Visit => self.visit(&|world, object| {
                let is = world
                    .touch(&object.name, version.unwrap_or_default())
                    .ok_or_else(|| failure(404, "gone"))?;
                Ok(Written { uid: is.uid, resource_version: is.resource_version })
            }),
            Step::Inspect => {
                self.look_up();
                let servers = self.world.leases(!self.has_listed);
                let (look, now) = (look(self.world.secs), at(self.world.secs));
                let (run, seen) = self.split();
                run.inspected(&seen, &servers, look, now);
            }
            Step::Trim => self.trim(false),
        }
    }

    fn list(&mut self, request: &PageRequest) {
        self.has_listed = true;
        let is_confirm = self.run.sweep().is_some_and(|(sweep, _)| sweep.is_confirm());
        let page = if is_confirm && !self.world.rules.confirms {
            crate::plan::Page::default()
        } else {
            self.world.page(request.continue_token.as_deref())
        };
        let now = at(self.world.secs);
        let (run, seen) = self.split();
        run.listed(Listing::Listed(page), &seen, now);
    }

    fn expire(&mut self, has_token: bool) {
        let Step::List(PageRequest { continue_token: Some(token), .. }) = self.step.clone() else { return };
        let after = token.split_once('/').map(|(_, after)| format!("now/{after}"));
        let now = at(self.world.secs);
        let (run, seen) = self.split();
        run.listed(Listing::Expired(after.filter(|_| has_token)), &seen, now);
    }

    fn visit(&mut self, answer: &dyn Fn(&mut World, &Object) -> Result<Written, crate::plan::Failure>) {
        let now: Moment = at(self.world.secs);
        let Some((sweep, health)) = self.run.sweep() else { return };
        let Some(visit) = sweep.next(now.uptime) else { return };
        let object = visit.object().clone();
        let outcome = match read_visit(sweep.target(), &object, answer(&mut self.world, &object)) {
            Reading::Plain(outcome) => outcome,
            Reading::LookAgain(_) => Outcome::Gone,
        };
        match &outcome {
            Outcome::Deferred(failure) => health.visit_failed(failure, now.uptime),
            Outcome::Rewritten(_)
            | Outcome::Unchanged
            | Outcome::Gone
            | Outcome::Refused(_)
            | Outcome::Conflict(_) => health.succeeded(),
        }
        let left = match &outcome {
            Outcome::Rewritten(left) => Some(left.clone()),
            Outcome::Unchanged => Some(object.resource_version.clone()),
            Outcome::Gone | Outcome::Refused(_) | Outcome::Conflict(_) | Outcome::Deferred(_) => None,
        };
        self.remembered.extend(left.map(|left| format!("{} {left}", object.uid)));
        self.remembered.sort();
        self.remembered.dedup();
        sweep.record(visit, outcome, now.uptime);
    }

    fn trim(&mut self, moves_meanwhile: bool) {
        let (servers, now) = (self.world.leases(false), at(self.world.secs));
        self.look_up();
        let (run, seen) = self.split();
        let Some(trim) = run.judge_trim(&seen, &servers, now) else { return };
        if moves_meanwhile {
            self.world.move_flag();
        }
        if trim.resource_version() != self.world.crd().resource_version {
            let (run, seen) = self.split();
            return run.trim_conflicted(trim, &seen, now);
        }
        self.trimmed(trim, now);
    }

    fn trimmed(&mut self, trim: Trim, now: Moment) {
        let [version] = trim.stored_versions();
        self.harm = self.world.harm_of_trim(version);
        let stored = vec![version.to_owned()];
        self.world.trim(stored.clone());
        self.see(self.world.crd().clone());
        let (run, seen) = self.split();
        run.trimmed(trim.give_back(), stored, &seen, now);
    }

    fn restart(&mut self, early: bool) {
        let status = if early { &self.before } else { &self.written };
        self.run = Run::new(status.clone());
        self.written = status.clone();
        self.record = CrdRecord::new(self.world.crd().clone(), at(self.world.secs));
        self.remembered.clear();
        self.has_listed = false;
    }

    fn see(&mut self, crd: Crd) {
        let now = at(self.world.secs);
        if self.world.rules.notices_gaps || crd.generation <= self.record.crd().generation {
            self.record.observe(crd, now);
            return;
        }
        // As if every generation before had been seen, and had encoded objects as this one does.
        let first = self.world.seen_at(0).generation;
        let mut generations = (first..=crd.generation).map(|generation| Crd { generation, ..crd.clone() });
        if let Some(first) = generations.next() {
            self.record = CrdRecord::new(first, now);
        }
        generations.for_each(|crd| self.record.observe(crd, now));
    }

    fn look_up(&mut self) {
        let (age, now) = (self.world.age(), at(self.world.secs));
        self.see(self.world.crd().clone());
        self.record.observe_age(Duration::from_secs(age), now);
    }

    fn split(&mut self) -> (&mut Run, Observation<'_>) {
        let limits = Limits { writes_per_second: None, max_in_flight: NonZeroU32::MIN, page_size: 1 };
        let seen = Observation {
            spec: &self.spec,
            generation: 1,
            retry: None,
            ignored_servers: None,
            crd: Some(&self.record),
            rival: None,
            outage: None,
            settle: Duration::from_secs(self.world.rules.settle),
            limits,
        };
        (&mut self.run, seen)
    }
}
