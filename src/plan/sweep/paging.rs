//! Where the list goes on, and how it gets past an object that the server can't read.
//!
//! Such an object fails every page that it is on. So smaller pages are asked for, until it stands at the head of one by
//! itself. Then it is refused, and the list goes on after it, with pages that grow again.

#[cfg(test)]
mod tests;

use super::hunt::{Hunt, Hunted};
use super::token;
use crate::plan::{Failure, Object, Page, PageRequest};

/// How much smaller the next page is after one that failed; it doubles with each that doesn't.
const SHRINK: u32 = 8;

/// The place in the list.
#[derive(Debug)]
pub(super) struct Paging {
    position: Position,
    /// The most objects that the next page is to have.
    reach: u32,
    /// How many the latest one was to have.
    asked: u32,
    /// Whether any object could be read so far.
    has_read: bool,
    detour: Option<Detour>,
    /// Where the list stood before it went past an object, until it has gone on.
    passed: Option<Passed>,
}

/// Where the list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Next(Option<String>),
    End,
}

/// A request that is not for the next page.
#[derive(Debug)]
enum Detour {
    /// For the object that fails the list.
    Hunt(Hunt, Failure),
    /// For what comes after objects that a webhook doesn't convert: whether it converts others.
    Neighbour(Vec<Unreadable>, Failure),
}

#[derive(Debug)]
struct Passed {
    before: Option<String>,
    key: String,
}

/// An object that can't be read, and what the server says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    key: String,
    pub(super) failure: Failure,
}

/// What the answer to a list request comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The page is the next one, and its objects are to be visited.
    Page(Page),
    /// Nothing is to be taken in: ask on.
    AskOn,
    /// These objects can't be read.
    Unreadable(Vec<Unreadable>),
    /// The target is to be left alone for a while.
    Hold(Failure),
}

impl Paging {
    pub(super) fn at(position: Position) -> Self {
        let (reach, asked) = (u32::MAX, u32::MAX);
        Self { position, reach, asked, has_read: false, detour: None, passed: None }
    }

    pub(super) fn position(&self) -> &Position {
        &self.position
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.position == Position::End
    }

    /// Whether the next request is for the next page.
    pub(super) fn is_on_course(&self) -> bool {
        self.detour.is_none()
    }

    /// Goes back to the first page.
    pub(super) fn rewind(&mut self) {
        let Self { reach, has_read, .. } = *self;
        *self = Self { reach, has_read, ..Self::at(Position::Next(None)) };
    }

    /// What to ask for now.
    pub(super) fn request(&mut self, limit_max: u32) -> PageRequest {
        let after = match &self.detour {
            Some(Detour::Hunt(hunt, _)) => Some(hunt.probe()),
            Some(Detour::Neighbour(objects, _)) => objects.last().map(|object| object.key.clone()),
            None => None,
        };
        let (continue_token, limit) = match (after, &self.position) {
            (Some(key), _) => (Some(token::after(&key)), 1),
            (None, Position::Next(token)) => (token.clone(), self.reach.min(limit_max)),
            (None, Position::End) => (None, limit_max),
        };
        self.asked = limit;
        PageRequest { continue_token, limit }
    }

    /// Takes in a page that was answered.
    pub(super) fn listed(&mut self, page: Page) -> Turn {
        self.has_read |= !page.objects.is_empty();
        match self.detour.take() {
            Some(Detour::Hunt(hunt, failure)) => self.hunted(hunt.answered(true), failure),
            Some(Detour::Neighbour(objects, _)) if self.has_read => self.pass(objects),
            Some(Detour::Neighbour(_, failure)) => Turn::Hold(failure),
            None => {
                self.passed = None;
                self.reach = self.reach.saturating_mul(2);
                let token = page.continue_token.clone();
                self.position = token.map_or(Position::End, |token| Position::Next(Some(token)));
                Turn::Page(page)
            }
        }
    }

    /// Takes in that a page could not be answered.
    pub(super) fn failed(&mut self, failure: Failure, group: &str, resource: &str) -> Turn {
        // Anything but a 500 is the server's matter, and so is one that asks to wait.
        if failure.code != Some(500) || failure.retry_after.is_some() {
            return Turn::Hold(failure);
        }
        match self.detour.take() {
            Some(Detour::Hunt(hunt, first)) => self.hunted(hunt.answered(false), first),
            Some(Detour::Neighbour(_, first)) => Turn::Hold(first),
            None => self.page_failed(failure, group, resource),
        }
    }

    fn page_failed(&mut self, failure: Failure, group: &str, resource: &str) -> Turn {
        let named = named(&failure, group, resource);
        let by_webhook = speaks_of_webhook(&failure);
        let certain = !named.is_empty() && !by_webhook;
        if self.asked > 1 {
            self.reach = (self.asked / SHRINK).max(1);
            return if certain { Turn::AskOn } else { Turn::Hold(failure) };
        }
        if certain {
            return self.pass(named);
        }
        // What a webhook says of an object is believed only if others could be read: it may be down.
        if !named.is_empty() {
            self.detour = Some(Detour::Neighbour(named, failure));
            return Turn::AskOn;
        }
        let low = match &self.position {
            Position::Next(Some(token)) => token::key_before(token),
            Position::Next(None) | Position::End => Some(String::new()),
        };
        match low {
            Some(low) if self.has_read || !by_webhook => {
                self.detour = Some(Detour::Hunt(Hunt::new(low), failure));
                Turn::AskOn
            }
            Some(_) | None => Turn::Hold(failure),
        }
    }

    fn hunted(&mut self, hunted: Hunted, failure: Failure) -> Turn {
        match hunted {
            Hunted::Open(hunt) => {
                self.detour = Some(Detour::Hunt(hunt, failure));
                Turn::AskOn
            }
            Hunted::Found(key) => self.pass(vec![Unreadable { key, failure }]),
            Hunted::Nothing => Turn::Hold(failure),
        }
    }

    /// Takes in that a token is not accepted, or not any more: goes on with the one that was given for it.
    pub(super) fn expired(&mut self, token: Option<String>) -> Turn {
        let passed = self.passed.take();
        match (self.detour.take(), passed, token) {
            (None, None, None) => {
                self.rewind();
                Turn::AskOn
            }
            (None, _, Some(token)) => {
                self.position = Position::Next(Some(token));
                Turn::AskOn
            }
            (None, Some(Passed { before, key }), None) => {
                self.position = Position::Next(before);
                self.reach = 1;
                Turn::Hold(no_way_past(&format!("{key} can't be read")))
            }
            (Some(Detour::Hunt(_, failure) | Detour::Neighbour(_, failure)), _, _) => {
                Turn::Hold(no_way_past(&format!("one that can't be read ({failure})")))
            }
        }
    }

    /// Goes on after the last of these.
    fn pass(&mut self, objects: Vec<Unreadable>) -> Turn {
        if let Some(last) = objects.last() {
            let before = match &self.position {
                Position::Next(token) => token.clone(),
                Position::End => None,
            };
            self.position = Position::Next(Some(token::after(&last.key)));
            self.passed = Some(Passed { before, key: last.key.clone() });
        }
        Turn::Unreadable(objects)
    }
}

impl Unreadable {
    /// What is known of the object: it was never shown, so it has no uid here.
    pub(super) fn object(&self) -> Object {
        let (namespace, name) = match self.key.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, self.key.as_str()),
        };
        Object { namespace, name: name.to_owned(), uid: String::new(), resource_version: String::new() }
    }
}

/// The objects that the server names as those that it can't read, in the order of their keys.
///
/// It reads on until it has the one object that it was asked for, so none that can be read is among them.
fn named(failure: &Failure, group: &str, resource: &str) -> Vec<Unreadable> {
    let prefix = format!("/{group}/{resource}/");
    let causes = failure.details.iter().flat_map(|details| &details.causes);
    let named = causes.filter_map(|cause| {
        let (_, key) = cause.field.split_once(&prefix)?;
        let failure = Failure {
            message: cause.message.clone(),
            details: None,
            continue_token: None,
            ..failure.clone()
        };
        (!key.is_empty()).then(|| Unreadable { key: key.to_owned(), failure })
    });
    named.collect()
}

/// How k8s.io/apiextensions-apiserver begins whatever goes wrong with a conversion.
fn speaks_of_webhook(failure: &Failure) -> bool {
    failure.message.contains("conversion webhook for")
}

fn no_way_past(what: &str) -> Failure {
    let message = format!(
        "the API server doesn't list what comes after {what}: repair that object in etcd, or delete it there"
    );
    Failure { code: Some(400), reason: "Unreadable".to_owned(), message, ..Failure::default() }
}
