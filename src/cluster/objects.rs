//! The objects of a target: listing them and visiting one. Only metadata passes through here, never a body.

use kube::api::{GetParams, ListParams, Patch, PatchParams, ValidationDirective, VersionMatch};
use kube::core::Request;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::{Cluster, FIELD_MANAGER};
use crate::plan::{
    Failure, Listing, Object, Outcome, Page, PageRequest, Reading, Target, Written, read_list,
    read_second_look, read_visit,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: Option<String>,
    uid: String,
    resource_version: String,
    #[serde(default, rename = "managedFields", deserialize_with = "has_any")]
    is_managed: bool,
}

#[derive(Deserialize)]
struct PartialObject {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct PartialList {
    metadata: ListMetadata,
    // An empty list is answered as null.
    items: Option<Vec<PartialObject>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    #[serde(rename = "continue")]
    continue_token: Option<String>,
    remaining_item_count: Option<u64>,
}

impl Cluster {
    /// Lists one page of a target's objects, as metadata, from etcd's present state.
    ///
    /// One object that can't be converted to the storage version fails its whole page. In the version that it is stored in
    /// it needs no conversion, so the page is then asked for in the other served versions: names and resourceVersions are
    /// the same in all of them, and the visits still show which object it is.
    ///
    /// # Access
    /// `list` on the resource.
    pub async fn list(&self, target: &Target, page: &PageRequest) -> Listing {
        let first = self.list_in(target, target.version(), page).await;
        if !may_be_readable_elsewhere(&first, page) {
            return first;
        }
        for version in target.other_versions() {
            let listing = self.list_in(target, version, page).await;
            if let Listing::Listed(page) = listing {
                return Listing::ListedElsewhere(page);
            }
            if !may_be_readable_elsewhere(&listing, page) {
                return listing;
            }
        }
        first
    }

    async fn list_in(&self, target: &Target, version: &str, page: &PageRequest) -> Listing {
        let params = ListParams {
            limit: Some(page.limit),
            continue_token: page.continue_token.clone(),
            // No resourceVersion: with "0" the server would ignore the limit and answer from a cache.
            version_match: None::<VersionMatch>,
            ..ListParams::default()
        };
        let request = Request::new(url_path(target, version, None)).list_metadata(&params);
        let answer = self.call::<PartialList>(request).await;
        read_list(answer.map(|answer| answer.body.into()), page.continue_token.is_some())
    }

    /// Sends the no-op write to one object, and looks at it once more where the answer doesn't say what was not found.
    ///
    /// # Guarantees
    /// It never creates an object and never changes one: the patch is empty and carries no resourceVersion. Where the
    /// versions' schemas differ, it sends no patch that would drop a field, unless the spec accepts that. `managedFields` that
    /// the server takes away are put back.
    ///
    /// # Access
    /// `patch` and `get` on the resource.
    pub async fn visit(&self, target: &Target, object: &Object) -> Outcome {
        match self.loss(target, object).await {
            Ok(None) => {}
            Ok(Some(refusal)) => return Outcome::Refused(refusal),
            Err(failure) => {
                // It could not be looked at: what that means is the same as for a visit.
                return match read_visit(target, object, Err(failure)) {
                    Reading::Plain(outcome) => outcome,
                    Reading::LookAgain(first) => read_second_look(target, object, first.clone(), Err(first)),
                };
            }
        }
        let written = match self.patch::<PartialObject>(target, object, json!({})).await {
            Ok(answer) => self.with_managers(target, object, answer.metadata).await,
            Err(failure) => Err(failure),
        };
        match read_visit(target, object, written) {
            Reading::Plain(outcome) => outcome,
            Reading::LookAgain(first) => {
                let look = self.look(target, target.version(), object).await;
                read_second_look(target, object, first, look)
            }
        }
    }

    /// Visits an object that is stored in the storage version, and has it converted, too, where another version is served:
    /// whether that works the visit alone doesn't tell.
    ///
    /// # Access
    /// `patch` and `get` on the resource.
    pub async fn probe(&self, target: &Target, object: &Object) -> Outcome {
        let outcome = self.visit(target, object).await;
        let is_stored = matches!(outcome, Outcome::Rewritten(_) | Outcome::Unchanged);
        let Some(version) = target.other_versions().next().filter(|_| is_stored) else { return outcome };
        self.silence(target, version, object).await.map_or(outcome, Outcome::Deferred)
    }

    async fn with_managers(
        &self,
        target: &Target,
        object: &Object,
        written: Metadata,
    ) -> Result<Written, Failure> {
        let Metadata { uid, resource_version, is_managed, .. } = written;
        let was_stripped = !is_managed && uid == object.uid && (object.is_managed || self.stripped.has(&uid));
        let written = Written { uid, resource_version };
        if was_stripped {
            return self.restore_managers(target, object, written).await;
        }
        self.stripped.forget(&written.uid);
        Ok(written)
    }

    /// Sends a merge patch to an object at the storage version, and reads its metadata from the answer.
    pub(super) async fn patch<T: DeserializeOwned>(
        &self,
        target: &Target,
        object: &Object,
        merge: Value,
    ) -> Result<T, Failure> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            field_validation: Some(ValidationDirective::Ignore),
            ..PatchParams::default()
        };
        let path = Request::new(url_path(target, target.version(), object.namespace.as_deref()));
        let request = path.patch_metadata(&object.name, &params, &Patch::Merge(merge));
        Ok(self.call(request).await?.body)
    }

    /// What the server says of a webhook that doesn't convert the object to a version, if it is silent.
    pub(super) async fn silence(&self, target: &Target, version: &str, object: &Object) -> Option<Failure> {
        self.look(target, version, object).await.err().filter(Failure::is_silence_of_webhook)
    }

    async fn look(&self, target: &Target, version: &str, object: &Object) -> Result<(), Failure> {
        let path = Request::new(url_path(target, version, object.namespace.as_deref()));
        self.call::<PartialObject>(path.get_metadata(&object.name, &GetParams::default())).await.map(|_| ())
    }
}

/// Whether one object may have failed the page in this version alone. Servers before Kubernetes 1.37 give no reason with
/// that, so it is tried where the page has but one object.
fn may_be_readable_elsewhere(listing: &Listing, page: &PageRequest) -> bool {
    match listing {
        Listing::Unreadable(_) => true,
        Listing::Deferred(failure) => failure.code == Some(500) && page.limit == 1,
        Listing::Listed(_) | Listing::ListedElsewhere(_) | Listing::Expired(_) | Listing::Denied(_) => false,
    }
}

impl From<PartialList> for Page {
    fn from(list: PartialList) -> Self {
        let PartialList { metadata, items } = list;
        Self {
            objects: items.unwrap_or_default().into_iter().map(Object::from).collect(),
            continue_token: metadata.continue_token.filter(|token| !token.is_empty()),
            remaining: metadata.remaining_item_count,
        }
    }
}

impl From<PartialObject> for Object {
    fn from(object: PartialObject) -> Self {
        let Metadata { name, namespace, uid, resource_version, is_managed } = object.metadata;
        Self { namespace, name, uid, resource_version, is_managed }
    }
}

/// Whether a list has items.
fn has_any<'de, D: Deserializer<'de>>(list: D) -> Result<bool, D::Error> {
    Ok(Option::<Vec<IgnoredAny>>::deserialize(list)?.is_some_and(|items| !items.is_empty()))
}

/// The endpoint of a version. Objects are written at that of the storage version alone.
pub(super) fn url_path(target: &Target, version: &str, namespace: Option<&str>) -> String {
    let resource = target.resource();
    let scope = namespace.map(|n| format!("namespaces/{n}/")).unwrap_or_default();
    format!("/apis/{}/{}/{scope}{}", resource.group, version, resource.resource)
}
