//! A stage for scripted runs: the one CRD with a few objects, and an engine that does what is decided.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use super::super::Run;
use crate::api::{StorageMigrationSpec, StorageMigrationStatus};
use crate::plan::sample::{at, crd, failure, look, object, quiet, server, servers, spec};
use crate::plan::{
    ApiServers, Crd, CrdRecord, Failure, Limits, Listing, Object, Observation, Outcome, Page, PageRequest,
    Seal, Step, StoredBesides, Surroundings,
};

/// The settle time of the scripts, in seconds.
pub(super) const SETTLE: u64 = 65;

pub(super) struct Stage {
    pub(super) run: Run,
    pub(super) spec: StorageMigrationSpec,
    pub(super) generation: i64,
    pub(super) crd: Option<CrdRecord>,
    pub(super) retry: Option<&'static str>,
    pub(super) ignored_servers: Option<&'static str>,
    pub(super) rival: Option<&'static str>,
    pub(super) outage: Option<(Duration, &'static str)>,
    pub(super) around: Surroundings,
    pub(super) servers: Option<ApiServers>,
    pub(super) secs: u64,
    /// resourceVersions by name.
    pub(super) objects: BTreeMap<String, u32>,
    pub(super) answer: fn(&Object) -> Option<Outcome>,
    /// The server doesn't answer whatever concerns the target as a whole.
    pub(super) down: bool,
    pub(super) seal: Option<Seal>,
    pub(super) page_size: u32,
    /// How lists are answered, in place of with the objects.
    pub(super) listing: Option<fn(&PageRequest) -> Listing>,
}

impl Stage {
    pub(super) fn new() -> Self {
        Self::from(StorageMigrationStatus::default())
    }

    /// A process that starts with this status.
    pub(super) fn from(status: StorageMigrationStatus) -> Self {
        Self {
            run: Run::new(status),
            spec: spec(),
            generation: 1,
            crd: Some(quiet(crd())),
            retry: None,
            ignored_servers: None,
            rival: None,
            outage: None,
            around: Surroundings::default(),
            servers: None,
            secs: 0,
            objects: ["a", "b", "c"].map(|name| (name.to_owned(), 1)).into(),
            answer: |_| None,
            down: false,
            seal: None,
            page_size: 2,
            listing: None,
        }
    }

    /// The same stage after the process died and was started again.
    pub(super) fn restarted(&self) -> Self {
        let Self { objects, spec, seal, .. } = self;
        Self {
            objects: objects.clone(),
            seal: seal.clone(),
            spec: spec.clone(),
            generation: self.generation,
            crd: self.crd.as_ref().map(|record| quiet(record.crd().clone())),
            ..Self::from(self.run.status().clone())
        }
    }

    /// The CRD is seen to be like this now.
    pub(super) fn see(&mut self, crd: Crd) {
        match &mut self.crd {
            Some(record) => record.observe(crd, at(self.secs)),
            None => self.crd = Some(CrdRecord::new(crd, at(self.secs))),
        }
    }

    /// The spec is changed, which makes a new generation.
    pub(super) fn edit(&mut self, edit: impl FnOnce(&mut StorageMigrationSpec)) {
        edit(&mut self.spec);
        self.generation += 1;
    }

    pub(super) fn status(&self) -> &StorageMigrationStatus {
        self.run.status()
    }

    /// Goes on every five seconds for as long as the CRD settles or an API server is waited for, and says what came after.
    pub(super) fn settle(&mut self) -> String {
        for _ in 0..50 {
            let said = self.go();
            let last = said.rsplit(", ").next().unwrap_or_default();
            if !last.starts_with("Settling") && !last.starts_with("WaitingForAPIServer") {
                return said;
            }
            self.secs += 5;
        }
        "it never ends".to_owned()
    }

    /// What is decided at that second, as words; nothing is done.
    pub(super) fn at(&mut self, secs: u64) -> String {
        self.secs = secs;
        let step = self.decide();
        words(&step)
    }

    /// Does what is decided until there is something to wait for, and says it all.
    pub(super) fn go(&mut self) -> String {
        self.go_until("-")
    }

    /// The same, but stops before a step that starts with `last`.
    pub(super) fn go_until(&mut self, last: &str) -> String {
        let mut said = Vec::new();
        for _ in 0..200 {
            let step = self.decide();
            said.push(words(&step));
            if matches!(step, Step::Hold(..) | Step::Expire)
                || said.last().is_some_and(|s| s.starts_with(last))
            {
                break;
            }
            self.act(&step);
        }
        said.join(", ")
    }

    pub(super) fn decide(&mut self) -> Step {
        let now = at(self.secs);
        let (run, seen) = self.split();
        let step = run.decide(&seen, now);
        let finding = match &step {
            Step::Hold(finding, _) => finding.clone(),
            Step::Review
            | Step::AskRights
            | Step::List(_)
            | Step::Visit
            | Step::Inspect
            | Step::Trim
            | Step::Expire => run.phase(now),
        };
        if !matches!(step, Step::Review) {
            run.report(&seen, &finding, now);
        }
        step
    }

    pub(super) fn act(&mut self, step: &Step) {
        let (now, look) = (at(self.secs), look(self.secs));
        let listing = match step {
            Step::List(request) => Some(
                self.listing.map_or_else(|| Listing::Listed(self.page(request)), |answer| answer(request)),
            ),
            Step::Hold(..)
            | Step::Review
            | Step::AskRights
            | Step::Visit
            | Step::Inspect
            | Step::Trim
            | Step::Expire => None,
        };
        let (around, down, seal) = (self.around.clone(), self.down, self.seal.clone());
        let servers = self.servers.clone().unwrap_or_else(|| self.awake());
        let (run, seen) = self.split();
        match step {
            Step::Hold(..) | Step::Expire => {}
            Step::Review | Step::AskRights | Step::Inspect | Step::Trim if down => {
                run.request_failed(&failure(503, "down"), &seen, now);
                self.report();
            }
            Step::Review => run.reviewed(&seen, &around, seal, now),
            Step::AskRights => run.rights_asked(&around.rights, &seen, now),
            Step::List(_) => {
                let listing = if down {
                    Listing::Deferred(failure(503, "down"))
                } else {
                    listing.unwrap_or_else(|| Listing::Listed(Page::default()))
                };
                run.listed(listing, &seen, now);
            }
            Step::Visit => self.visit(),
            Step::Inspect => run.inspected(&seen, &servers, look, now),
            Step::Trim => {
                if let Some(trim) = run.judge_trim(&seen, &servers, now) {
                    let stored: Vec<String> = trim.stored_versions().map(str::to_owned).into();
                    run.trimmed(trim.give_back(), stored.clone(), &seen, now);
                    let crd = self.crd.as_ref().map(|r| Crd { stored_versions: stored, ..r.crd().clone() });
                    if let Some(crd) = crd {
                        self.see(crd);
                    }
                }
            }
        }
    }

    pub(super) fn stored_besides(&mut self) -> StoredBesides {
        let (run, seen) = self.split();
        run.stored_besides(&seen)
    }

    /// The status after a step, as the engine makes it.
    pub(super) fn report(&mut self) {
        let now = at(self.secs);
        let (run, seen) = self.split();
        let finding = run.phase(now);
        run.report(&seen, &finding, now);
    }

    /// A trim that the server answers like this.
    pub(super) fn trim_fails(&mut self, failure: &Failure) {
        let now = at(self.secs);
        let servers = self.awake();
        let (run, seen) = self.split();
        if let Some(trim) = run.judge_trim(&seen, &servers, now) {
            run.trim_failed(trim, failure, &seen, now);
        }
    }

    /// A trim that somebody else's write of the CRD comes before.
    pub(super) fn trim_conflicts(&mut self) {
        let now = at(self.secs);
        let servers = self.awake();
        let (run, seen) = self.split();
        if let Some(trim) = run.judge_trim(&seen, &servers, now) {
            run.trim_conflicted(trim, &seen, now);
        }
    }

    pub(super) fn deny_list(&mut self) {
        let now = at(self.secs);
        let (run, seen) = self.split();
        run.listed(Listing::Denied(failure(403, "forbidden")), &seen, now);
    }

    /// Every server renewed its Lease just now.
    pub(super) fn awake(&self) -> ApiServers {
        let now = i64::try_from(self.secs).unwrap_or_default();
        servers(vec![server("a", now)], now)
    }

    fn page(&self, request: &PageRequest) -> Page {
        let after = request.continue_token.clone().unwrap_or_default();
        let mut rest = self.objects.iter().filter(|(name, _)| **name > after);
        let objects: Vec<Object> = rest
            .by_ref()
            .take(self.page_size as usize)
            .map(|(name, version)| object(name, &version.to_string()))
            .collect();
        let remaining = rest.count() as u64;
        let continue_token = objects.last().filter(|_| remaining > 0).map(|last| last.name.clone());
        Page { objects, continue_token, remaining: Some(remaining) }
    }

    fn visit(&mut self) {
        let now = Duration::from_secs(self.secs);
        while let Some((sweep, health)) = self.run.sweep()
            && health.held(now).is_none()
            && let Some(visit) = sweep.next(now)
        {
            let object = visit.object().clone();
            let outcome = (self.answer)(&object).unwrap_or_else(|| {
                let version = self.objects.entry(object.name.clone()).or_default();
                *version += 1;
                Outcome::Rewritten(version.to_string())
            });
            match &outcome {
                Outcome::Deferred(failure) => health.visit_failed(failure, now),
                Outcome::Rewritten(_)
                | Outcome::Unchanged
                | Outcome::Gone
                | Outcome::Refused(_)
                | Outcome::Conflict(_) => health.succeeded(),
            }
            sweep.record(visit, outcome, now);
        }
    }

    fn split(&mut self) -> (&mut Run, Observation<'_>) {
        let limits =
            Limits { writes_per_second: None, max_in_flight: NonZeroU32::MIN, page_size: self.page_size };
        let seen = Observation {
            spec: &self.spec,
            generation: self.generation,
            crd: self.crd.as_ref(),
            retry: self.retry,
            ignored_servers: self.ignored_servers,
            rival: self.rival,
            outage: self.outage,
            settle: Duration::from_secs(SETTLE),
            limits,
        };
        (&mut self.run, seen)
    }
}

fn words(step: &Step) -> String {
    match step {
        Step::Hold(finding, None) => finding.reason.to_string(),
        Step::Hold(finding, Some(until)) => format!("{} until {}", finding.reason, until.as_secs()),
        Step::Review => "review".to_owned(),
        Step::AskRights => "ask".to_owned(),
        Step::List(PageRequest { continue_token: None, .. }) => "list".to_owned(),
        Step::List(PageRequest { continue_token: Some(token), .. }) => format!("list after {token}"),
        Step::Visit => "visit".to_owned(),
        Step::Inspect => "inspect".to_owned(),
        Step::Trim => "trim".to_owned(),
        Step::Expire => "expire".to_owned(),
    }
}
