//! Finds the object that fails a list where the server doesn't name it, as those before Kubernetes 1.37 don't.
//!
//! All there is to ask is whether a list of one object can be read that begins after some key: whether the first object there
//! can be. From just before the one that is sought it can't, and from its own key on it can. So the ends of all that begins
//! alike are gone through, one after the other in the order of the keys, until the list can be read after one. What is sought
//! begins like that, and the same is done with one letter more.
//!
//! Of several neighbours that can't be read the last is found. What is between two that can't be read may be missed, too: it
//! is found once the later one is repaired.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

/// What keys consist of, in their order: namespaces and names of custom resources, and what is between them.
const LETTERS: &str = "-./0123456789abcdefghijklmnopqrstuvwxyz";

/// Comes after every letter.
const LAST: char = '\x7f';

/// A namespace and a name, with what is between them.
const KEY_MAX: usize = 63 + 1 + 253;

/// What was learned of where the object is: somewhere after `low`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hunt {
    low: String,
    stage: Stage,
}

/// What a probe has led to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hunted {
    /// Another probe is needed.
    Open(Hunt),
    /// The object with this key can't be read.
    Found(String),
    /// What failed can be read now.
    Readable,
    /// Nothing can be listed, or what is there changes: it is no matter of an object.
    Nothing,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// Whether the server answers a list that has nothing in it.
    Empty,
    /// Whether the list fails once more.
    Again,
    /// Whether it can be read after all keys that begin with the first of these; it can't after those that were before it.
    Beginning(VecDeque<String>),
    /// Whether it can be read after this key: then this is the one, as there is no key between the latest end and this.
    At(String),
}

impl Hunt {
    /// A hunt for an object after `low`, where a list of a single object fails.
    pub(super) fn new(low: String) -> Self {
        Self { low, stage: Stage::Empty }
    }

    /// The key after which a list of one object is to be asked for.
    pub(super) fn probe(&self) -> String {
        match &self.stage {
            Stage::Empty => LAST.to_string(),
            Stage::Again => self.low.clone(),
            Stage::Beginning(beginnings) => {
                format!("{}{LAST}", beginnings.front().map_or("", String::as_str))
            }
            Stage::At(key) => key.clone(),
        }
    }

    /// Takes in whether the list could be read.
    pub(super) fn answered(self, is_readable: bool) -> Hunted {
        let Self { low, stage } = self;
        let stage = match stage {
            Stage::Empty if is_readable => Stage::Again,
            Stage::Again if is_readable => return Hunted::Readable,
            Stage::Again => Stage::Beginning(beginnings_after(&low)),
            Stage::Beginning(mut beginnings) => match beginnings.pop_front() {
                Some(beginning) if is_readable && beginning == low => {
                    Stage::Beginning(with_one_more(&beginning))
                }
                Some(beginning) if is_readable => Stage::At(beginning),
                Some(_) | None if beginnings.is_empty() => return Hunted::Nothing,
                Some(_) | None => Stage::Beginning(beginnings),
            },
            Stage::At(key) if is_readable => return Hunted::Found(key),
            Stage::At(key) if key.len() < KEY_MAX => Stage::Beginning(with_one_more(&key)),
            Stage::Empty | Stage::At(_) => return Hunted::Nothing,
        };
        Hunted::Open(Self { low, stage })
    }
}

/// What all keys after `key` begin with, in their order: those that share most with it come first.
fn beginnings_after(key: &str) -> VecDeque<String> {
    let mut beginnings = VecDeque::from([key.to_owned()]);
    for (place, letter) in key.char_indices().rev() {
        let later = with_one_more(&key[..place]);
        beginnings.extend(later.into_iter().filter(|beginning| beginning.chars().next_back() > Some(letter)));
    }
    beginnings
}

/// `key` with one letter more, in their order. Where no name is, the server takes a `/` for an attack.
fn with_one_more(key: &str) -> VecDeque<String> {
    let takes_slash = !key.is_empty() && !key.contains('/');
    let letters = LETTERS.chars().filter(|letter| *letter != '/' || takes_slash);
    letters.map(|letter| format!("{key}{letter}")).collect()
}
