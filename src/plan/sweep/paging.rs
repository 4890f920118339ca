//! Where the list goes on, and how it gets past an object that the server can't read.
//!
//! Such an object fails every page that it is on. So smaller pages are asked for, until it stands at the head of one by
//! itself. Then it is refused, and the list goes on after it, with pages that grow again.

#[cfg(test)]
mod tests;

use super::hunt::{Hunt, Hunted};
use super::token;
use crate::plan::{Failure, Object, Page, PageRequest, Scope};

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
    /// The search for an object that fails the list, and what the server says of it.
    hunt: Option<(Hunt, Failure)>,
    /// Until the server has taken the token that leads past them.
    passed: Option<Passed>,
}

/// Where the list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Next(Option<String>),
    End,
}

/// Objects that the list goes on after, and where it stood before.
#[derive(Debug)]
struct Passed {
    before: Position,
    objects: Vec<Unreadable>,
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
        Self { position, reach, asked, hunt: None, passed: None }
    }

    pub(super) fn position(&self) -> &Position {
        &self.position
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.position == Position::End
    }

    /// Whether the next request is for the next page.
    pub(super) fn is_on_course(&self) -> bool {
        self.hunt.is_none()
    }

    /// Goes back to the first page.
    pub(super) fn rewind(&mut self) {
        *self = Self { reach: self.reach, ..Self::at(Position::Next(None)) };
    }

    /// What to ask for now.
    pub(super) fn request(&mut self, limit_max: u32) -> PageRequest {
        let (continue_token, limit) = match (&self.hunt, &self.position) {
            (Some((hunt, _)), _) => (Some(token::after(&hunt.probe())), 1),
            (None, Position::Next(token)) => (token.clone(), self.reach.min(limit_max)),
            (None, Position::End) => (None, limit_max),
        };
        self.asked = limit;
        PageRequest { continue_token, limit }
    }

    /// The objects that the list has gone past for good, now that a page was answered.
    pub(super) fn behind(&mut self) -> Vec<Unreadable> {
        if self.is_on_course() {
            self.passed.take().map_or(Vec::new(), |passed| passed.objects)
        } else {
            Vec::new()
        }
    }

    /// Takes in a page that was answered.
    pub(super) fn listed(&mut self, page: Page) -> Turn {
        if let Some((hunt, failure)) = self.hunt.take() {
            return self.hunted(hunt.answered(true), failure);
        }
        self.reach = self.reach.saturating_mul(2);
        let token = page.continue_token.clone();
        self.position = token.map_or(Position::End, |token| Position::Next(Some(token)));
        Turn::Page(page)
    }

    /// Takes in that a page could not be answered.
    pub(super) fn failed(&mut self, failure: Failure, group: &str, resource: &str) -> Turn {
        // Anything but a 500 is the server's matter, and so is one that asks to wait.
        if failure.code != Some(500) || failure.retry_after.is_some() || failure.scope() == Scope::Cluster {
            return Turn::Hold(failure);
        }
        let named = named(&failure, group, resource);
        let is_outage = failure.is_silence_of_webhook()
            || named.iter().any(|unreadable| unreadable.failure.is_silence_of_webhook());
        match self.hunt.take() {
            // It says nothing of the object that is sought.
            hunt @ Some(_) if is_outage => {
                self.hunt = hunt;
                Turn::Hold(failure)
            }
            Some((hunt, first)) => self.hunted(hunt.answered(false), first),
            None if self.asked > 1 => {
                self.reach = (self.asked / SHRINK).max(1);
                if named.is_empty() || is_outage { Turn::Hold(failure) } else { Turn::AskOn }
            }
            None if is_outage => Turn::Hold(failure),
            None if named.is_empty() => self.begin_hunt(failure),
            None => self.pass(named),
        }
    }

    fn begin_hunt(&mut self, failure: Failure) -> Turn {
        let low = match &self.position {
            Position::Next(Some(token)) => token::key_before(token),
            Position::Next(None) | Position::End => Some(String::new()),
        };
        let Some(low) = low else { return Turn::Hold(failure) };
        self.hunt = Some((Hunt::new(low), failure));
        Turn::AskOn
    }

    fn hunted(&mut self, hunted: Hunted, failure: Failure) -> Turn {
        match hunted {
            Hunted::Open(hunt) => {
                self.hunt = Some((hunt, failure));
                Turn::AskOn
            }
            Hunted::Found(key) => self.pass(vec![Unreadable { key, failure: unnamed(failure) }]),
            Hunted::Readable => {
                // Repaired: but the page is one of the past, in which it never will be.
                if let Position::Next(Some(token)) = &self.position
                    && let Some(low) = token::key_before(token)
                {
                    self.position = Position::Next(Some(token::after(&low)));
                }
                Turn::Hold(failure)
            }
            Hunted::Nothing => Turn::Hold(failure),
        }
    }

    /// Takes in that a token is not accepted, or not any more: goes on with the one that was given for it.
    pub(super) fn expired(&mut self, token: Option<String>) -> Turn {
        match (self.hunt.take(), self.passed.take(), token) {
            (None, None, None) => {
                self.rewind();
                Turn::AskOn
            }
            (None, passed, Some(token)) => {
                self.passed = passed;
                self.position = Position::Next(Some(token));
                Turn::AskOn
            }
            (None, Some(Passed { before, objects }), None) => {
                self.position = before;
                self.reach = 1;
                let key = objects.last().map_or("one", |unreadable| &unreadable.key);
                Turn::Hold(no_way_past(&format!("{key} can't be read")))
            }
            (Some((_, failure)), _, _) => {
                Turn::Hold(no_way_past(&format!("one that can't be read ({failure})")))
            }
        }
    }

    /// Goes on after the last of these. Those that were passed before are behind for good: their token was taken.
    fn pass(&mut self, objects: Vec<Unreadable>) -> Turn {
        let Some(last) = objects.last() else { return Turn::AskOn };
        let after = Position::Next(Some(token::after(&last.key)));
        let before = std::mem::replace(&mut self.position, after);
        match self.passed.replace(Passed { before, objects }) {
            Some(passed) => Turn::Unreadable(passed.objects),
            None => Turn::AskOn,
        }
    }
}

impl Unreadable {
    /// What is known of the object: it was never shown, so it has no uid here.
    pub(super) fn object(&self) -> Object {
        let (namespace, name) = match self.key.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, self.key.as_str()),
        };
        Object {
            namespace,
            name: name.to_owned(),
            uid: String::new(),
            resource_version: String::new(),
            is_managed: false,
        }
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

/// What is said of an object that was hunted for.
fn unnamed(failure: Failure) -> Failure {
    let message = format!(
        "{} (the API server doesn't say which objects it can't read: there may be others before this one, and some between them that were not migrated; they are found once this one is repaired)",
        failure.message
    );
    Failure { message, ..failure }
}

fn no_way_past(what: &str) -> Failure {
    let message = format!(
        "the API server doesn't list what comes after {what}: repair that object in etcd, or delete it there"
    );
    Failure { code: Some(400), reason: "Unreadable".to_owned(), message, ..Failure::default() }
}
