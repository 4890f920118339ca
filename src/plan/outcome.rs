//! What an answer means: for one object's visit, and for a list. Who must act next is decided here and nowhere else.

#[cfg(test)]
mod tests;

use super::{Failure, Object, Page, Target};

/// What a visit found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object was stored anew, in the storage version, and has this resourceVersion now.
    Rewritten(String),
    /// The object was stored in the storage version already.
    Unchanged,
    /// The object is gone.
    Gone,
    /// The server refuses to store this object.
    Refused(Failure),
    /// Somebody else wrote the object at the same time: visit it again.
    Conflict(Failure),
    /// The server, or a webhook, could not answer: not the object's fault unless its neighbours fare better.
    Deferred(Failure),
}

/// What the answer to a visit means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It is plain.
    Plain(Outcome),
    /// Something was not found: only a look at the object itself can tell what.
    LookAgain(Failure),
}

/// What a list request found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listing {
    /// A page of objects.
    Listed(Page),
    /// A page of objects that could not be read in the storage version, and could in another one.
    ListedElsewhere(Page),
    /// The token has expired; this one, if any, goes on after the last key.
    Expired(Option<String>),
    /// restow may not list.
    Denied(Failure),
    /// The server can't read one of the objects in the version that was asked for; in another version it may.
    Unreadable(Failure),
    /// The server could not answer now.
    Deferred(Failure),
}

/// The uid and the resourceVersion that the answer to a successful write carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
}

/// Reads the answer to the visit of `object`.
///
/// Whatever is not understood is a refusal: it is shown, and it blocks the trim.
#[must_use]
pub fn read_visit(target: &Target, object: &Object, answer: Result<Written, Failure>) -> Reading {
    let failure = match answer {
        // Equal to the listed resourceVersion: the server found nothing to write. A write to an object that was
        // re-created under the same name stores that one in the storage version as well.
        Ok(written) if written.uid == object.uid && written.resource_version == object.resource_version => {
            return Reading::Plain(Outcome::Unchanged);
        }
        Ok(written) => return Reading::Plain(Outcome::Rewritten(written.resource_version)),
        Err(failure) => failure,
    };
    match failure.code {
        Some(404) if speaks_of_nothing(&failure) && !speaks_of(target, object, &failure) => {
            // `the server could not find the requested resource`: the endpoint itself is not there, or not yet.
            Reading::Plain(Outcome::Deferred(failure))
        }
        Some(404) => Reading::LookAgain(failure),
        Some(409) => Reading::Plain(Outcome::Conflict(failure)),
        Some(500) if failure.is_too_large() => Reading::Plain(Outcome::Refused(failure)),
        Some(401 | 408 | 429 | 500..) | None => Reading::Plain(Outcome::Deferred(failure)),
        Some(_) => Reading::Plain(Outcome::Refused(failure)),
    }
}

/// Reads the second look at an object whose visit said `first`: a 404 of something.
#[must_use]
pub fn read_second_look(
    target: &Target,
    object: &Object,
    first: Failure,
    look: Result<(), Failure>,
) -> Outcome {
    match look {
        Ok(()) => Outcome::Refused(not_the_object(first)),
        Err(failure) if failure.code == Some(404) && speaks_of(target, object, &failure) => Outcome::Gone,
        Err(failure) => match failure.code {
            Some(401 | 408 | 429 | 502..) | None => Outcome::Deferred(failure),
            // Among them 500 `corrupt object`: it is there, and can't be read.
            Some(_) => Outcome::Refused(failure),
        },
    }
}

/// Reads the answer to a list request that was sent with or without a token.
#[must_use]
pub fn read_list(answer: Result<Page, Failure>, with_token: bool) -> Listing {
    match answer {
        Ok(page) => Listing::Listed(page),
        Err(failure) => match failure.code {
            Some(410) if with_token => Listing::Expired(failure.continue_token),
            Some(400) if with_token => Listing::Expired(None),
            Some(403) => Listing::Denied(failure),
            // One object that can't be decoded or converted fails the whole list (k8s.io/apiserver `StorageReadError`).
            Some(500) if failure.reason == "StorageReadError" => Listing::Unreadable(failure),
            Some(_) | None => Listing::Deferred(failure),
        },
    }
}

/// Names the refusal of an object that exists although something was not found.
fn not_the_object(first: Failure) -> Failure {
    let namespace_gone = first.details.as_ref().is_some_and(|d| d.kind == "namespaces");
    let reason = if namespace_gone { "Orphaned" } else { "NotFoundElsewhere" };
    let hint = if namespace_gone {
        "its namespace is gone: create the namespace again, or delete the object"
    } else {
        "something that this object needs was not found, but the object itself exists"
    };
    Failure { reason: reason.to_owned(), message: format!("{} ({hint})", first.message), ..first }
}

fn speaks_of(target: &Target, object: &Object, failure: &Failure) -> bool {
    failure.details.as_ref().is_some_and(|d| {
        let resource = target.resource();
        d.name == object.name
            && d.kind == resource.resource
            && (d.group == resource.group || d.group.is_empty())
    })
}

fn speaks_of_nothing(failure: &Failure) -> bool {
    failure.details.as_ref().is_none_or(|d| d.name.is_empty())
}
