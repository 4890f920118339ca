//! What calls for a look at a StorageMigration: itself, its CRD, or one that was in its way. The watches tell it all the time;
//! it is heard during a term of leadership.

use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use kube::ResourceExt;
use kube::runtime::reflector::{ObjectRef, Store};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::Guarded;
use super::books::Books;

/// How many changes may wait to be taken in. Past it everything is looked at.
const CHANGES_MAX: usize = 1024;

/// Something that changed.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A StorageMigration was created or changed by somebody.
    Migration(ObjectRef<Guarded>),
    /// A StorageMigration is gone: its uid, and the CRD that it was for.
    Gone(String, Option<String>),
    /// A CRD changed, or a StorageMigration for it was done.
    Crd(String),
}

/// Where changes are told.
#[derive(Clone, Debug)]
pub(super) struct Changes(broadcast::Sender<Change>);

impl Changes {
    pub(super) fn new() -> Self {
        Self(broadcast::Sender::new(CHANGES_MAX))
    }

    pub(super) fn tell(&self, change: Change) {
        // While this process stands by nobody listens.
        drop(self.0.send(change));
    }

    /// All StorageMigrations there are, and from then on those that a change calls for. Books of those that are gone are
    /// closed.
    pub(super) fn follow(
        &self,
        store: Store<Guarded>,
        books: Arc<Books>,
    ) -> impl Stream<Item = ObjectRef<Guarded>> + Send + use<> {
        let heard = self.0.subscribe();
        let all = store.state();
        let first = stream::iter(refs(&all, |_| true));
        let later = stream::unfold((heard, store, books), async |(mut heard, store, books)| {
            let called = match heard.recv().await {
                Ok(change) => called_by(change, &store, &books),
                Err(RecvError::Lagged(_)) => {
                    let all = store.state();
                    books.retain(|uid| all.iter().any(|m| m.uid().as_deref() == Some(uid)));
                    refs(&all, |_| true)
                }
                Err(RecvError::Closed) => return None,
            };
            Some((stream::iter(called), (heard, store, books)))
        });
        first.chain(later.flatten())
    }
}

fn called_by(change: Change, store: &Store<Guarded>, books: &Books) -> Vec<ObjectRef<Guarded>> {
    let crd = match change {
        Change::Migration(migration) => return vec![migration],
        Change::Crd(crd) => Some(crd),
        Change::Gone(uid, crd) => {
            books.close(&uid);
            crd
        }
    };
    let Some(crd) = crd else { return Vec::new() };
    refs(&store.state(), |m| m.0.as_ref().is_ok_and(|m| m.spec.resource.crd_name() == crd))
}

fn refs(all: &[Arc<Guarded>], is_meant: impl Fn(&Guarded) -> bool) -> Vec<ObjectRef<Guarded>> {
    all.iter().filter(|m| is_meant(m)).map(|m| ObjectRef::from_obj(m.as_ref())).collect()
}
