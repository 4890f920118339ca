//! The controller: watches StorageMigrations and CRDs, gives each migration its steps, and stops when it is told to.
//!
//! What a step does lives in `engine`. Every task is watched: if one ends, the process ends.

mod admin;
mod books;
mod reconcile;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::ResourceExt;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{Controller, Predicate, PredicateConfig, WatchStreamExt, predicates, reflector::Store};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::api::StorageMigration;
use crate::cluster::{Cluster, EventWriter, Pacer};
use crate::engine::{Engine, FeedEnded};
use crate::plan::Limits;
use books::Books;
use reconcile::{Context, reconcile, retry};

pub use admin::AdminError;

/// A StorageMigration as it arrives: one that can't be read doesn't stop the others.
pub(crate) type Guarded = DeserializeGuard<StorageMigration>;

/// How long the last requests may take after the order to stop. Nothing is lost by breaking them off.
const DRAIN_TIME: Duration = Duration::from_secs(10);

/// How many changes may wait to be taken in. Past it the watches wait.
const CHANGES_MAX: usize = 1024;

/// How the controller works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The pace of all migrations together.
    pub limits: Limits,
    /// How long after a move of the storage version API servers may still write the old one.
    pub settle: Duration,
    /// Where health is served.
    pub admin_address: SocketAddr,
    /// Which StorageMigrations to act on, as a label selector; `None` is all.
    pub label_selector: Option<String>,
    /// The namespace of this controller, where its key is kept; `None` is that of the connection.
    pub namespace: Option<String>,
    /// What this process is called in events.
    pub instance: Option<String>,
}

/// Why the controller ended, other than by being told to.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// Health can't be served.
    #[error("serve health")]
    Admin(#[from] AdminError),
    /// The watch of CRDs has ended.
    #[error("watch CustomResourceDefinitions")]
    Feed(#[from] FeedEnded),
    /// The stream of StorageMigrations has ended.
    #[error("watch StorageMigrations: the watch has ended")]
    Ended,
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
    let events = EventWriter::new(&cluster, settings.instance.clone());
    let namespace = settings.namespace.clone().unwrap_or_else(|| cluster.namespace().to_owned());
    let pacer = Pacer::new(settings.limits);
    let engine = Arc::new(Engine::new(cluster, pacer, settings.settle, Some(namespace)));
    let admin = admin::Admin::bind(settings.admin_address).await?;
    let ready = admin.ready();
    let (changes, names) = mpsc::channel(CHANGES_MAX);
    let books = Arc::new(Books::default());
    let (store, migrations) = migrations(&engine, &settings, &books, changes.clone());
    let context = Arc::new(Context {
        engine: Arc::clone(&engine),
        events,
        books,
        store: store.clone(),
        crds_known: ready.clone(),
        changes: changes.clone(),
    });
    let feed = async {
        engine
            .follow_crds(None, |name| match name {
                // A full channel means that everything is about to be looked at anyway, and each is again within a minute.
                Some(name) => drop(changes.try_send(name.to_owned())),
                None => ready.set(),
            })
            .await
    };
    let controller = Controller::for_stream(migrations, store.clone())
        .reconcile_on(targets_of(names, store))
        .graceful_shutdown_on(stop.clone().cancelled_owned())
        .run(reconcile, retry, context)
        .for_each(async |result| {
            if let Err(error) = result {
                tracing::debug!(%error, "a reconcile had no effect");
            }
        });
    tracing::info!(settle = ?settings.settle, limits = ?settings.limits, "started");
    let drained = async {
        stop.cancelled().await;
        tracing::info!("stopping");
        tokio::time::sleep(DRAIN_TIME).await;
    };
    tokio::select! {
        () = controller => if stop.is_cancelled() { Ok(()) } else { Err(ControllerError::Ended) },
        () = drained => Ok(()),
        ended = feed => Err(ended.into()),
        ended = admin.serve() => Err(ended.into()),
    }
}

/// The StorageMigrations that are added or changed by somebody, and the store of them all.
fn migrations(
    engine: &Engine,
    settings: &Settings,
    books: &Arc<Books>,
    changes: mpsc::Sender<String>,
) -> (Store<Guarded>, impl futures::Stream<Item = Result<Guarded, watcher::Error>> + Send + use<>) {
    let (store, writer) = reflector::store();
    let config = watcher::Config::default();
    let config = match &settings.label_selector {
        Some(selector) => config.labels(selector),
        None => config,
    };
    let books = Arc::clone(books);
    let stream = watcher::watcher(engine.cluster().migrations(), config)
        .default_backoff()
        .reflect(writer)
        .inspect(move |event| {
            if let Ok(Event::Delete(gone)) = event {
                books.close(&gone.uid().unwrap_or_default());
                // A younger one for the same resource may begin now.
                if let Ok(gone) = &gone.0 {
                    drop(changes.try_send(gone.spec.resource.crd_name()));
                }
            }
        })
        .applied_objects()
        // Our own writes of the status are no news.
        .predicate_filter(
            predicates::generation.combine(predicates::annotations).combine(predicates::labels),
            PredicateConfig::default(),
        );
    (store, stream)
}

/// The StorageMigrations for each CRD that changed.
fn targets_of(
    names: mpsc::Receiver<String>,
    store: Store<Guarded>,
) -> impl futures::Stream<Item = ObjectRef<Guarded>> + Send {
    let changed = futures::stream::unfold(names, async |mut names| {
        let name = names.recv().await?;
        Some((name, names))
    });
    changed.flat_map(move |name| {
        let aims_at = |m: &Arc<Guarded>| m.0.as_ref().is_ok_and(|m| m.spec.resource.crd_name() == name);
        let refs: Vec<_> =
            store.state().iter().filter(|m| aims_at(m)).map(|m| ObjectRef::from_obj(m.as_ref())).collect();
        futures::stream::iter(refs)
    })
}
