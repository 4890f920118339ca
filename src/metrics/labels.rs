//! The words that things are counted by. Each set is closed: what a server or a webhook says never makes a new one.

use http::Method;

use crate::plan::{Failure, Outcome};

/// All words for outcomes.
pub(super) const OUTCOMES: [&str; 6] = ["rewritten", "unchanged", "gone", "refused", "conflict", "deferred"];

/// The reasons of refusals that are told apart: those of the API (k8s.io/apimachinery `StatusReason`) that a write can be
/// answered with, and restow's own. Whatever else is said, for instance by a webhook, is `Other`.
const REASONS: [&str; 16] = [
    "BadRequest",
    "Conflict",
    "FieldLoss",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "ManagedFieldsLost",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "NotFoundElsewhere",
    "Orphaned",
    "RequestEntityTooLarge",
    "Unauthorized",
    "UnsupportedMediaType",
];

/// What a request does, in the words of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a list.
    List,
    /// Follows changes.
    Watch,
    /// Creates an object, or asks for an access review.
    Create,
    /// Replaces an object.
    Update,
    /// Changes an object.
    Patch,
    /// Deletes an object.
    Delete,
}

impl Verb {
    /// The verb of a request, by its method and where it goes.
    #[must_use]
    pub fn of(method: &Method, path: &str, query: &str) -> Self {
        match *method {
            Method::POST => Self::Create,
            Method::PUT => Self::Update,
            Method::PATCH => Self::Patch,
            Method::DELETE => Self::Delete,
            _ if query.split('&').any(|part| part == "watch=true") => Self::Watch,
            _ if is_collection(path) => Self::List,
            _ => Self::Get,
        }
    }

    /// The word itself.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

/// `/api/v1/…` or `/apis/<group>/<version>/…`, and then `[namespaces/<namespace>/]<plural>[/<name>]`.
fn is_collection(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let before = if parts.next() == Some("api") { 1 } else { 2 };
    let rest: Vec<_> = parts.skip(before).collect();
    match rest.as_slice() {
        ["namespaces", _, _] => true,
        ["namespaces", _] => false,
        rest => rest.len() == 1,
    }
}

pub(super) fn outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Rewritten(_) => "rewritten",
        Outcome::Unchanged => "unchanged",
        Outcome::Gone => "gone",
        Outcome::Refused(_) => "refused",
        Outcome::Conflict(_) => "conflict",
        Outcome::Deferred(_) => "deferred",
    }
}

pub(super) fn refusal(failure: &Failure) -> &'static str {
    REASONS.into_iter().find(|known| *known == failure.reason).unwrap_or("Other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_is_the_one_that_the_server_knows() {
        let get = |uri: &str| {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            Verb::of(&Method::GET, path, query)
        };
        assert_eq!(get("/apis/example.com/v1/crontabs?limit=500"), Verb::List);
        assert_eq!(get("/apis/example.com/v1/crontabs?&watch=true&timeoutSeconds=290"), Verb::Watch);
        assert_eq!(get("/apis/example.com/v1/namespaces/a/crontabs/b"), Verb::Get);
        assert_eq!(get("/apis/example.com/v1/crontabs/b"), Verb::Get);
        assert_eq!(
            get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector=x"),
            Verb::List
        );
        assert_eq!(get("/api/v1/namespaces/restow-system/secrets/key"), Verb::Get);
        assert_eq!(get("/api/v1/namespaces/restow-system/secrets"), Verb::List);
        assert_eq!(Verb::of(&Method::PATCH, "/apis/example.com/v1/crontabs/b", ""), Verb::Patch);
    }

    #[test]
    fn whatever_a_webhook_says_is_one_word() {
        let said = |reason: &str| Failure { reason: reason.to_owned(), ..Failure::default() };
        assert_eq!(refusal(&said("Forbidden")), "Forbidden");
        assert_eq!(refusal(&said("the moon is full")), "Other");
        assert_eq!(refusal(&said("")), "Other");
    }
}
