//! Follows CRDs by watch, so that a flag that moves or a CRD that appears is known within a second.

use std::collections::HashSet;
use std::pin::pin;

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::Event;

use super::Engine;
use crate::cluster::SlimCrd;

/// The watch has ended, which it never does by itself.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("follow CustomResourceDefinitions: the watch has ended")]
pub struct FeedEnded;

impl Engine {
    /// Follows all CRDs, or the one called `name`, for ever. `changed` hears the name of each that appears, changes or goes,
    /// and `None` each time all of them are known.
    ///
    /// A watch that breaks is taken up again, with a growing wait in between.
    pub async fn follow_crds(&self, name: Option<&str>, mut changed: impl FnMut(Option<&str>)) -> FeedEnded {
        let mut listed = HashSet::new();
        let mut events = pin!(self.cluster().watch_crds(name).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(crd)) => {
                    listed.insert(crd.name().to_owned());
                    self.take_in(crd, &mut changed);
                }
                Ok(Event::InitDone) => {
                    for gone in self.records().retain(&listed, name) {
                        self.cluster().metrics().forget(&gone);
                        changed(Some(&gone));
                    }
                    changed(None);
                }
                Ok(Event::Apply(crd)) => self.take_in(crd, &mut changed),
                Ok(Event::Delete(crd)) => {
                    self.forget_crd(crd.name());
                    self.cluster().metrics().forget(crd.name());
                    changed(Some(crd.name()));
                }
                Err(error) => {
                    tracing::warn!(%error, "the watch of CustomResourceDefinitions broke and is taken up again");
                }
            }
        }
        FeedEnded
    }

    fn take_in(&self, crd: SlimCrd, changed: &mut impl FnMut(Option<&str>)) {
        let name = crd.name().to_owned();
        self.observe_crd(crd.into());
        changed(Some(&name));
    }
}
