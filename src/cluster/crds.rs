//! CustomResourceDefinitions: reading one live, watching them, and the trim.

use std::time::Duration;

use futures::{Stream, StreamExt};
use jiff::SignedDuration;
use kube::api::{Api, GetParams, Patch, PatchParams};
use kube::core::{DeserializeGuard, Request};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::call::Answer;
use super::{Cluster, FIELD_MANAGER, SlimCrd, WatchError};
use crate::metrics::TrimResult;
use crate::plan::{Crd, Failure, Trim};

/// CRDs asked for at once when a watch starts: with schemas of 300 KB each, 1.5 MB, which are in memory as a whole.
const WATCH_PAGE: u32 = 5;

/// A CRD that was read just now.
#[derive(Clone, Debug)]
pub struct LiveCrd {
    /// The CRD.
    pub crd: Crd,
    /// How long ago its spec was changed last, by the server's clock; `None` where nothing tells.
    pub age: Option<Duration>,
}

/// What came of a trim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trimmed {
    /// It is done, and this is the CRD now.
    Done(Box<Crd>),
    /// Somebody wrote the CRD meanwhile: nothing was changed.
    Conflict,
    /// It failed.
    Failed(Failure),
}

impl Cluster {
    /// Reads a CRD from etcd, not from a cache. `Ok(None)` if there is none.
    ///
    /// # Errors
    /// If the server could not answer.
    ///
    /// # Access
    /// `get` on `customresourcedefinitions`.
    pub async fn read_crd(&self, name: &str) -> Result<Option<LiveCrd>, Failure> {
        let Some(Answer { body, date }) = self.definition::<SlimCrd>(name).await? else { return Ok(None) };
        let crd = Crd::from(body);
        let age = date.zip(crd.spec_changed_at).map(|(date, changed)| date.duration_since(changed));
        Ok(Some(LiveCrd { crd, age: age.and_then(|age: SignedDuration| age.try_into().ok()) }))
    }

    /// What `T` takes of a CRD, read from etcd. `Ok(None)` if there is none.
    pub(super) async fn definition<T: DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<Answer<T>>, Failure> {
        let request = Request::new(SlimCrd::url_path(&(), None)).get(name, &GetParams::default());
        match self.call(request).await {
            Ok(answer) => Ok(Some(answer)),
            Err(failure) if failure.code == Some(404) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Watches all CRDs, or the one called `name`. A CRD that can't be read is passed over with a warning.
    ///
    /// # Access
    /// `list` and `watch` on `customresourcedefinitions`.
    pub fn watch_crds(
        &self,
        name: Option<&str>,
    ) -> impl Stream<Item = Result<Event<SlimCrd>, WatchError>> + Send + use<> {
        let api: Api<DeserializeGuard<SlimCrd>> = Api::all(self.client.clone());
        let config = watcher::Config::default().page_size(WATCH_PAGE);
        let config = match name {
            Some(name) => config.fields(&format!("metadata.name={name}")),
            None => config,
        };
        watcher(api, config).filter_map(async |event| Some(event.map(readable).transpose()?))
    }

    /// Sets `storedVersions` to the storage version alone, provided that the CRD is still the one that was judged.
    ///
    /// # Access
    /// `patch` on `customresourcedefinitions/status` of this CRD.
    pub async fn trim(&self, trim: &Trim) -> Trimmed {
        let body = json!({
            "metadata": { "resourceVersion": trim.resource_version() },
            "status": { "storedVersions": trim.stored_versions() },
        });
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let request = Request::new(SlimCrd::url_path(&(), None)).patch_subresource(
            "status",
            trim.crd_name(),
            &params,
            &Patch::Merge(body),
        );
        let (result, trimmed) = match self.call::<SlimCrd>(request).await {
            Ok(answer) => (TrimResult::Done, Trimmed::Done(Box::new(answer.body.into()))),
            Err(failure) if failure.code == Some(409) => (TrimResult::Conflict, Trimmed::Conflict),
            Err(failure) => (TrimResult::Failed, Trimmed::Failed(failure)),
        };
        self.metrics().trimmed(result);
        trimmed
    }
}

/// Passes an event on if its CRD could be read.
fn readable(event: Event<DeserializeGuard<SlimCrd>>) -> Option<Event<SlimCrd>> {
    let warn = |guard: DeserializeGuard<SlimCrd>| {
        let name = guard.name_any();
        guard.0.inspect_err(|error| tracing::warn!(crd = name, error = error.error, "can't read a CRD")).ok()
    };
    match event {
        Event::Init => Some(Event::Init),
        Event::InitDone => Some(Event::InitDone),
        Event::InitApply(guard) => warn(guard).map(Event::InitApply),
        Event::Apply(guard) => warn(guard).map(Event::Apply),
        Event::Delete(guard) => warn(guard).map(Event::Delete),
    }
}
