//! Finds the object that fails a list where the server doesn't name it, as those before Kubernetes 1.37 don't.
//!
//! All there is to ask is whether a list that begins after some key can be read. It can't be from anywhere just before the
//! object, and it can from its own key on. So the key is closed in on, letter by letter. Of several neighbours that can't
//! be read the last is found: those before it are found once it is repaired.

#[cfg(test)]
mod tests;

/// What keys consist of, in their order: namespaces and names of custom resources, and what is between them.
const LETTERS: &str = "-./0123456789abcdefghijklmnopqrstuvwxyz";

/// Comes after every letter.
const LAST: char = '\x7f';

/// So many keys are looked at one by one, as names often end in numbers; from there on the stride doubles.
const CLOSE: usize = 13;

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
    /// Nothing can be listed, or everything can again: it is no matter of an object.
    Nothing,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// Whether the server answers a list that has nothing in it.
    Empty,
    /// Whether the list fails once more.
    Again,
    Among(Candidates),
    /// Whether the key is a longer one than the first; else it is the second.
    Within(String, String),
}

/// Keys in their order: a list fails after each of the first `failing`, and can be read after `keys[good]`.
#[derive(Debug, PartialEq, Eq)]
struct Candidates {
    keys: Vec<String>,
    failing: usize,
    good: usize,
    /// How far the next probe goes, until one can be read. What is close is looked at key by key, lest an object that can be
    /// read is passed over between two that can't.
    stride: Option<usize>,
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
            Stage::Among(candidates) => candidates.keys[candidates.probe()].clone(),
            Stage::Within(key, _) => format!("{key}{LAST}"),
        }
    }

    /// Takes in whether the list could be read.
    pub(super) fn answered(self, is_readable: bool) -> Hunted {
        let Self { low, stage } = self;
        match stage {
            Stage::Empty if is_readable => Hunted::Open(Self { low, stage: Stage::Again }),
            Stage::Empty => Hunted::Nothing,
            Stage::Again if is_readable => Hunted::Nothing,
            Stage::Again => Self::among(siblings_after(&low), low),
            Stage::Among(mut candidates) => {
                candidates.narrow(is_readable);
                Self { low, stage: Stage::Among(candidates) }.settle()
            }
            Stage::Within(key, _) if is_readable && key.len() < KEY_MAX => Self::among(extensions(&key), low),
            Stage::Within(..) if is_readable => Hunted::Nothing,
            // There is no key between the two: the second is that of the object.
            Stage::Within(_, next) => found(next),
        }
    }

    fn among(keys: Vec<String>, low: String) -> Hunted {
        let good = keys.len() - 1;
        Self { low, stage: Stage::Among(Candidates { keys, failing: 0, good, stride: Some(1) }) }.settle()
    }

    fn settle(self) -> Hunted {
        match self.stage {
            Stage::Among(Candidates { mut keys, failing, good, .. }) if failing == good => {
                let next = keys.swap_remove(good);
                match failing.checked_sub(1) {
                    Some(last) => {
                        let key = keys.swap_remove(last);
                        Hunted::Open(Self { low: self.low, stage: Stage::Within(key, next) })
                    }
                    None if next.strip_suffix(LAST) == Some(&*self.low) => {
                        Self::among(extensions(&self.low), self.low)
                    }
                    // Between a key and its first extension there is none.
                    None => found(next),
                }
            }
            stage @ (Stage::Empty | Stage::Again | Stage::Among(_) | Stage::Within(..)) => {
                Hunted::Open(Self { low: self.low, stage })
            }
        }
    }
}

impl Candidates {
    fn probe(&self) -> usize {
        match self.stride {
            Some(stride) => (self.failing + stride - 1).min(self.good - 1),
            None => usize::midpoint(self.failing, self.good),
        }
    }

    fn narrow(&mut self, is_readable: bool) {
        let probed = self.probe();
        if is_readable {
            self.good = probed;
            self.stride = None;
        } else {
            self.failing = probed + 1;
            self.stride = self.stride.map(|stride| if self.failing < CLOSE { stride } else { stride * 2 });
        }
    }
}

/// A key that ends with what no key has in it was never an object's: what is there changed meanwhile.
fn found(key: String) -> Hunted {
    if key.ends_with(LAST) { Hunted::Nothing } else { Hunted::Found(key) }
}

/// Keys that come after all longer ones than `key`, those that share most with it first, up to one that is after all.
fn siblings_after(key: &str) -> Vec<String> {
    let mut keys = vec![format!("{key}{LAST}")];
    for (place, letter) in key.char_indices().rev() {
        let later = LETTERS.chars().filter(|later| *later > letter);
        keys.extend(later.map(|later| format!("{}{later}", &key[..place])));
    }
    if !key.is_empty() {
        keys.push(LAST.to_string());
    }
    keys
}

/// `key` with one letter more, up to one that is after all of them.
fn extensions(key: &str) -> Vec<String> {
    LETTERS.chars().chain([LAST]).map(|letter| format!("{key}{letter}")).collect()
}
