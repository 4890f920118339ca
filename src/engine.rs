//! One bounded step of a migration: observe, decide, act, report. The controller and the one-shot command share it.
//!
//! What to do is decided in `plan`, how to say it to a server lives in `cluster`. A step sends for a second at most before it
//! comes back, so whoever calls it sees a suspended or deleted migration, a changed CRD or a shutdown within that time.

mod clock;
mod feed;
mod outage;
mod records;
mod visits;

use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::api::{Pace, StorageMigrationSpec, StorageMigrationStatus, TargetResource};
use crate::cluster::{Cluster, Pacer, Rate, SealKey, Trimmed};
use crate::plan::{
    Crd, Failure, FieldRisks, Finding, Latencies, Listing, Look, Moment, Observation, Outage, PageRequest,
    Run, Seal, Step, Surroundings,
};

pub use clock::Clock;
pub use feed::FeedEnded;
pub use records::CrdRecords;

/// What all migrations of this process share.
#[derive(Debug)]
pub struct Engine {
    cluster: Cluster,
    pacer: Pacer,
    settle: Duration,
    clock: Clock,
    records: CrdRecords,
    namespace: Option<String>,
    seal_key: OnceCell<Option<SealKey>>,
    outage: Mutex<Outage>,
}

/// One migration in this process.
#[derive(Debug)]
pub struct Migration {
    run: Run,
    pacing: Pacing,
}

/// The pace of one migration, and what it knows of the server.
#[derive(Debug)]
struct Pacing {
    pace: Option<Pace>,
    rate: Rate,
    latencies: Latencies,
}

/// What a migration is asked to do, as last seen.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The spec.
    pub spec: &'a StorageMigrationSpec,
    /// The uid of the StorageMigration, if there is one.
    pub uid: Option<&'a str>,
    /// Its generation.
    pub generation: i64,
    /// Its annotation `restow.dev/retry`.
    pub retry: Option<&'a str>,
    /// Its annotation `restow.dev/ignore-api-server`.
    pub ignored_servers: Option<&'a str>,
    /// An older migration of the same resource that is not done with it.
    pub rival: Option<&'a str>,
}

/// What a step came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stepped {
    /// Where the migration is.
    pub finding: Finding,
    /// When to step again.
    pub next: Next,
}

/// When to step again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At once.
    Now,
    /// After so long, or when something changes.
    After(Duration),
    /// When something changes.
    OnChange,
    /// Never: the StorageMigration is to be deleted, its time to live is over.
    Expire,
}

impl Migration {
    /// A migration that goes on where `status` says.
    #[must_use]
    pub fn new(status: StorageMigrationStatus) -> Self {
        let pacing = Pacing { pace: None, rate: Rate::new(None), latencies: Latencies::default() };
        Self { run: Run::new(status), pacing }
    }

    /// The status after the last step.
    #[must_use]
    pub fn status(&self) -> &StorageMigrationStatus {
        self.run.status()
    }
}

impl Pacing {
    /// Takes up a pace that was changed while the migration runs.
    fn keep(&mut self, spec: &StorageMigrationSpec) {
        if self.pace != spec.pace {
            self.pace = spec.pace;
            self.rate = Rate::new(spec.pace.and_then(|p| p.writes_per_second).and_then(NonZeroU32::new));
        }
    }
}

impl Engine {
    /// An engine for one process, which keeps its key in `namespace`, if it needs one.
    #[must_use]
    pub fn new(cluster: Cluster, pacer: Pacer, settle: Duration, namespace: Option<String>) -> Self {
        let (clock, records, seal_key) = (Clock::start(), CrdRecords::default(), OnceCell::new());
        let outage = Mutex::default();
        Self { cluster, pacer, settle, clock, records, namespace, seal_key, outage }
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Takes in what a watch says of a CRD.
    pub fn observe_crd(&self, crd: Crd) {
        self.records.observe(crd, self.clock.now());
    }

    /// Takes in that a CRD is gone.
    pub fn forget_crd(&self, name: &str) {
        self.records.forget(name);
    }

    /// The pace of this process.
    #[must_use]
    pub fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// The CRDs seen so far.
    #[must_use]
    pub fn records(&self) -> &CrdRecords {
        &self.records
    }

    /// Does the next thing, and brings the status up to date.
    pub async fn step(&self, migration: &mut Migration, order: Order<'_>) -> Stepped {
        let Migration { run, pacing } = migration;
        pacing.keep(order.spec);
        let mut step = self.decide_in_turn(run, order);
        if step == Step::Review {
            self.review(run, order).await;
            // What was found is worth a word only together with what follows from it.
            step = self.decide_in_turn(run, order);
        }
        let held = match step {
            Step::Hold(finding, until) => return self.report(run, order, finding, self.next(until)),
            Step::Expire => Some(Next::Expire),
            Step::Review => None,
            Step::AskRights => {
                self.ask_rights(run, order).await;
                None
            }
            Step::List(page) => {
                self.list(run, order, &page).await;
                None
            }
            Step::Visit => {
                self.visit_due(run, pacing, order.spec).await;
                None
            }
            Step::Inspect => {
                self.inspect(run, order).await;
                None
            }
            Step::Trim => {
                self.trim(run, order).await;
                None
            }
        };
        let finding = run.phase(self.clock.now());
        self.report(run, order, finding, held.unwrap_or(Next::Now))
    }

    fn decide(&self, run: &mut Run, order: Order<'_>) -> Step {
        self.with_fresh(order, |seen, now| run.decide(seen, now))
    }

    fn next(&self, until: Option<Duration>) -> Next {
        until.map_or(Next::OnChange, |until| Next::After(until.saturating_sub(self.clock.now().uptime)))
    }

    fn report(&self, run: &mut Run, order: Order<'_>, finding: Finding, next: Next) -> Stepped {
        self.with_fresh(order, |seen, now| run.report(seen, &finding, now));
        Stepped { finding, next }
    }

    async fn list(&self, run: &mut Run, order: Order<'_>, page: &PageRequest) {
        let Some((sweep, _)) = run.sweep() else { return };
        let target = sweep.target().clone();
        let listing = self.cluster.list(&target, page).await;
        match &listing {
            Listing::Unreadable(failure) | Listing::Deferred(failure) => self.note_failed(failure),
            Listing::Listed(_) | Listing::ListedElsewhere(_) | Listing::Expired(_) | Listing::Denied(_) => {
                self.note_answered();
            }
        }
        self.with_fresh(order, |seen, now| run.listed(listing, seen, now));
    }

    async fn review(&self, run: &mut Run, order: Order<'_>) {
        let reviewed = async { Ok((self.surroundings(run, order).await?, self.seal(order).await?)) };
        let reviewed: Result<_, Failure> = self.noting(reviewed.await);
        self.with_fresh(order, |seen, now| match reviewed {
            Ok((around, seal)) => run.reviewed(seen, &around, seal, now),
            Err(failure) => run.request_failed(&failure, seen, now),
        });
    }

    async fn ask_rights(&self, run: &mut Run, order: Order<'_>) {
        let rights = self.noting(self.cluster.rights(order.spec).await);
        self.with_fresh(order, |seen, now| match rights {
            Ok(rights) => run.rights_asked(&rights, seen, now),
            Err(failure) => run.request_failed(&failure, seen, now),
        });
    }

    async fn surroundings(&self, run: &Run, order: Order<'_>) -> Result<Surroundings, Failure> {
        self.look_up(&order.spec.resource).await?;
        let rights = self.cluster.rights(order.spec).await?;
        let record = self.records.get(&order.spec.resource.crd_name());
        let other_migrator = match &record {
            Some(record) => self.cluster.other_migrator(&order.spec.resource, record.crd()).await?,
            None => None,
        };
        let field_risks = if order.spec.accept_field_loss {
            FieldRisks::default()
        } else {
            let besides = self.with_fresh(order, |seen, _| run.stored_besides(seen));
            self.cluster.field_risks(&order.spec.resource.crd_name(), &besides).await?
        };
        Ok(Surroundings { rights, other_migrator, field_risks })
    }

    /// The seal of a StorageMigration. Where a key is refused there is none, and a confirm starts over after a restart.
    async fn seal(&self, order: Order<'_>) -> Result<Option<Seal>, Failure> {
        let (Some(namespace), Some(uid)) = (&self.namespace, order.uid) else { return Ok(None) };
        // The namespace is not there, or a right, a quota or a policy stands in the way.
        let is_refusal = |code| (400..500).contains(&code) && !matches!(code, 401 | 408 | 429);
        let key = self.seal_key.get_or_try_init(async || match self.cluster.seal_key(namespace).await {
            Ok(key) => Ok(Some(key)),
            Err(failure) if failure.code.is_some_and(is_refusal) => {
                tracing::warn!(namespace, %failure, "no key for checkpoints: a confirm starts over after a restart");
                Ok(None)
            }
            Err(failure) => Err(failure),
        });
        Ok(key.await?.as_ref().map(|key| Seal::new(&key.0, uid)))
    }

    async fn inspect(&self, run: &mut Run, order: Order<'_>) {
        let read = async {
            self.look_up(&order.spec.resource).await?;
            let begun = self.clock.now().uptime;
            let servers = self.cluster.api_servers().await?;
            Ok((servers, Look { begun, ended: self.clock.now().uptime }))
        };
        let read = self.noting(read.await);
        self.with_fresh(order, |seen, now| match read {
            Ok((servers, look)) => run.inspected(seen, &servers, look, now),
            Err(failure) => run.request_failed(&failure, seen, now),
        });
    }

    async fn trim(&self, run: &mut Run, order: Order<'_>) {
        let read = async {
            let servers = self.cluster.api_servers().await?;
            self.look_up(&order.spec.resource).await?;
            Ok(servers)
        };
        let read: Result<_, Failure> = self.noting(read.await);
        let trim = self.with_fresh(order, |seen, now| match read {
            Ok(servers) => run.judge_trim(seen, &servers, now),
            Err(failure) => {
                run.request_failed(&failure, seen, now);
                None
            }
        });
        let Some(trim) = trim else { return };
        let trimmed = self.cluster.trim(&trim).await;
        match &trimmed {
            Trimmed::Done(crd) => {
                self.note_stored();
                self.observe_crd(Crd::clone(crd));
            }
            Trimmed::Conflict => self.note_answered(),
            Trimmed::Failed(failure) => self.note_failed(failure),
        }
        self.with_fresh(order, |seen, now| match trimmed {
            Trimmed::Done(crd) => run.trimmed(trim.give_back(), crd.stored_versions, seen, now),
            Trimmed::Conflict => run.trim_conflicted(trim, seen, now),
            Trimmed::Failed(failure) => run.trim_failed(trim, &failure, seen, now),
        });
    }

    /// Reads a resource's CRD from etcd into the records.
    ///
    /// # Errors
    /// If the server could not answer. A CRD that doesn't exist is no error.
    pub async fn look_up(&self, resource: &TargetResource) -> Result<(), Failure> {
        let name = resource.crd_name();
        match self.cluster.read_crd(&name).await? {
            Some(live) => self.records.observe_live(live, self.clock.now()),
            None => self.records.forget(&name),
        }
        Ok(())
    }

    fn with_fresh<T>(&self, order: Order<'_>, tell: impl FnOnce(&Observation<'_>, Moment) -> T) -> T {
        let record = self.records.get(&order.spec.resource.crd_name());
        let Order { spec, uid: _, generation, retry, ignored_servers, rival } = order;
        let (settle, limits) = (self.settle, self.pacer.limits());
        let held = self.held(&spec.resource);
        let outage = held.as_ref().map(|(wait, said)| (*wait, said.as_str()));
        let crd = record.as_ref();
        let seen =
            Observation { spec, generation, retry, ignored_servers, crd, rival, outage, settle, limits };
        tell(&seen, self.clock.now())
    }
}
