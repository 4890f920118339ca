//! The controller: watches StorageMigrations and CRDs, gives each migration its steps while it leads, and stops when it is
//! told to.
//!
//! What a step does lives in `engine`. Every task is watched: if one ends, the process ends. A controller that stands by keeps
//! its watches and does nothing else.

mod admin;
mod books;
mod changes;
mod gathered;
mod health;
mod leadership;
mod reconcile;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::ResourceExt;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{Controller, Predicate, PredicateConfig, WatchStreamExt, predicates, reflector::Store};
use tokio_util::sync::CancellationToken;

use crate::api::StorageMigration;
use crate::cluster::{Cluster, EventWriter, Pacer};
use crate::engine::{Engine, FeedEnded};
use books::Books;
use changes::{Change, Changes};
use health::Health;
use leadership::Leadership;
use reconcile::{Context, reconcile, retry};

pub use admin::AdminError;
pub use leadership::ElectionSettings;

/// A StorageMigration as it arrives: one that can't be read doesn't stop the others.
pub(crate) type Guarded = DeserializeGuard<StorageMigration>;

/// How long the last requests may take after the order to stop. Nothing is lost by breaking them off.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// How the controller works.
#[derive(Debug)]
pub struct Settings {
    /// The pace of all migrations together.
    pub pacer: Pacer,
    /// How long after a move of the storage version API servers may still write the old one.
    pub settle: Duration,
    /// Where health and metrics are served.
    pub admin_address: SocketAddr,
    /// Which StorageMigrations to act on, as a label selector; `None` is all.
    pub label_selector: Option<String>,
    /// The namespace of this controller, where its key and its Lease are kept; `None` is that of the connection.
    pub namespace: Option<String>,
    /// What this process is called in events.
    pub instance: Option<String>,
    /// How the one at work is found; `None` if there is no other. The gate of the cluster is open then.
    pub election: Option<ElectionSettings>,
}

/// Why the controller ended, other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// Health and metrics can't be served.
    #[error("serve health and metrics")]
    Admin(#[from] AdminError),
    /// The watch of CRDs has ended.
    #[error("watch CustomResourceDefinitions")]
    Feed(#[from] FeedEnded),
    /// The stream of StorageMigrations has ended.
    #[error("watch StorageMigrations: the watch has ended")]
    Ended,
}

/// What all terms of leadership share.
struct Office {
    engine: Arc<Engine>,
    events: EventWriter,
    store: Store<Guarded>,
    changes: Changes,
    health: Health,
}

/// Runs until `stop` is cancelled; then the requests in flight are finished and it returns.
///
/// # Errors
/// If one of its parts ends or can't start.
///
/// # Access
/// What `manifests/rbac` grants; each function of `cluster` names its own.
pub async fn run(
    cluster: Cluster,
    settings: Settings,
    stop: CancellationToken,
) -> Result<(), ControllerError> {
    let health = Health::new();
    let admin = admin::Admin::bind(settings.admin_address, health.clone()).await?;
    let events = EventWriter::new(&cluster, settings.instance.clone());
    let namespace = settings.namespace.clone().unwrap_or_else(|| cluster.namespace().to_owned());
    let election = settings.election.as_ref();
    let leadership = election.map(|it| Leadership::new(cluster.clone(), namespace.clone(), it));
    let limits = settings.pacer.limits();
    let engine = Arc::new(Engine::new(cluster, settings.pacer, settings.settle, Some(namespace)));
    let changes = Changes::new();
    let (store, watched) = migrations(&engine, settings.label_selector.as_deref(), &changes, &health);
    let registry = gathered::registry(&engine, &store);
    let feed = engine.follow_crds(None, |name| match name {
        Some(name) => changes.tell(Change::Crd(name.to_owned())),
        None => health.crds_known(),
    });
    let (engine, changes, health) = (Arc::clone(&engine), changes.clone(), health.clone());
    let office = Office { engine, events, store, changes, health: health.clone() };
    tracing::info!(settle = ?settings.settle, ?limits, "started");
    tokio::select! {
        ended = office.work(leadership, &stop) => ended,
        () = watched.for_each(async |()| {}) => Err(ControllerError::Ended),
        ended = feed => Err(ended.into()),
        ended = admin.serve(registry) => Err(ended.into()),
        () = health.beat() => Err(ControllerError::Ended),
    }
}

impl Office {
    /// Works whenever this process leads, until it is told to stop.
    async fn work(
        &self,
        leadership: Option<Leadership>,
        stop: &CancellationToken,
    ) -> Result<(), ControllerError> {
        let Some(mut leadership) = leadership else { return self.term(stop).await };
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = leadership.win() => tracing::info!("leading"),
            }
            let worked = tokio::select! {
                lost = leadership.keep() => {
                    // Whatever was under way is dropped with the term, and what it knew with it: another may have gone on.
                    tracing::warn!("not leading any more, nothing is written: {lost}");
                    continue;
                }
                ended = self.term(stop) => ended,
            };
            leadership.release().await;
            return worked;
        }
    }

    /// Gives all migrations their steps. After the order to stop it returns once the requests in flight have ended.
    async fn term(&self, stop: &CancellationToken) -> Result<(), ControllerError> {
        let books = Arc::new(Books::default());
        let called = self.changes.follow(self.store.clone(), Arc::clone(&books));
        let context = Arc::new(Context {
            engine: Arc::clone(&self.engine),
            events: self.events.clone(),
            books,
            store: self.store.clone(),
            health: self.health.clone(),
            changes: self.changes.clone(),
        });
        let controller = Controller::for_stream(stream::pending(), self.store.clone())
            .reconcile_on(called)
            .graceful_shutdown_on(stop.clone().cancelled_owned())
            .run(reconcile, retry, context)
            .for_each(async |result| {
                if let Err(error) = result {
                    tracing::debug!(%error, "a reconcile had no effect");
                }
            });
        let drained = async {
            stop.cancelled().await;
            tracing::info!("stopping");
            tokio::time::sleep(DRAIN_TIME).await;
        };
        let (controller, drained) = (pin!(controller), pin!(drained));
        tokio::select! {
            () = controller => if stop.is_cancelled() { Ok(()) } else { Err(ControllerError::Ended) },
            () = drained => Ok(()),
        }
    }
}

/// The store of all StorageMigrations, and the stream that keeps it, which tells of each that somebody added, changed or
/// deleted.
fn migrations(
    engine: &Engine,
    label_selector: Option<&str>,
    changes: &Changes,
    health: &Health,
) -> (Store<Guarded>, impl Stream<Item = ()> + Send + use<>) {
    let (store, writer) = reflector::store();
    let config = watcher::Config::default();
    let config = match label_selector {
        Some(selector) => config.labels(selector),
        None => config,
    };
    let (gone, health) = (changes.clone(), health.clone());
    let changes = changes.clone();
    let stream = watcher::watcher(engine.cluster().migrations(), config)
        .default_backoff()
        .reflect(writer)
        .inspect(move |event| match event {
            Ok(Event::Delete(migration)) => {
                let crd = migration.0.as_ref().ok().map(|m| m.spec.resource.crd_name());
                gone.tell(Change::Gone(migration.uid().unwrap_or_default(), crd));
            }
            Ok(Event::InitDone) => health.migrations_known(),
            Ok(Event::Init | Event::InitApply(_) | Event::Apply(_)) | Err(_) => {}
        })
        .applied_objects()
        // Our own writes of the status are no news.
        .predicate_filter(
            predicates::generation.combine(predicates::annotations).combine(predicates::labels),
            PredicateConfig::default(),
        )
        .map(move |migration| match migration {
            Ok(migration) => changes.tell(Change::Migration(ObjectRef::from_obj(&migration))),
            Err(error) => {
                tracing::warn!(%error, "the watch of StorageMigrations broke and is taken up again");
            }
        });
    (store, stream)
}
