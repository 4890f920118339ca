//! What can happen, and how much of it.

use std::fmt;

/// One thing that can happen. Strings are storage versions that a server encodes by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    /// restow does what it decided. A visit is encoded in that version.
    Act(Option<String>),
    /// The visit is refused.
    Refuse,
    /// The visit is made, in that version, and its answer is lost.
    LoseAnswer(String),
    /// The list's token has expired; the answer has another one, or none.
    Expire(bool),
    /// The flag moves between the look at the CRD and the trim.
    MoveUnderTrim,
    /// Time passes; servers that lag catch up or don't.
    Tick(bool),
    /// The watch shows the CRD as it was at that place of its history.
    Deliver(usize),
    MoveFlag,
    /// The flag moves away and back.
    SwingFlag,
    Write(&'static str, String),
    Create(String),
    Recreate(&'static str, String),
    Sleep,
    Wake,
    /// restow starts anew, with the status that it wrote last, or with the one before.
    Restart(bool),
}

/// Which kinds of events are played.
#[expect(clippy::struct_excessive_bools, reason = "each is one kind of event")]
#[derive(Clone, Copy, Debug)]
pub(super) struct Cast {
    pub(super) moves: usize,
    pub(super) swings: bool,
    pub(super) writers: bool,
    pub(super) faults: bool,
    pub(super) restarts: bool,
    /// Whether restow has a key for its checkpoints, which costs no event.
    pub(super) seals: bool,
    pub(super) sleeps: bool,
    /// How many of those in all.
    pub(super) events: usize,
}

impl Event {
    /// Whether it costs none of the events that a story may have.
    pub(super) fn is_free(&self, is_waiting: bool) -> bool {
        match self {
            Self::Act(_) | Self::Deliver(_) | Self::Wake => true,
            Self::Tick(_) => is_waiting,
            Self::Refuse
            | Self::LoseAnswer(_)
            | Self::Expire(_)
            | Self::MoveUnderTrim
            | Self::MoveFlag
            | Self::SwingFlag
            | Self::Write(..)
            | Self::Create(_)
            | Self::Recreate(..)
            | Self::Sleep
            | Self::Restart(_) => false,
        }
    }

    /// Whether restow doesn't hear of it, and goes on with what it decided before.
    pub(super) fn passes_by(&self) -> bool {
        match self {
            Self::MoveFlag
            | Self::SwingFlag
            | Self::Write(..)
            | Self::Create(_)
            | Self::Recreate(..)
            | Self::Sleep
            | Self::Wake => true,
            Self::Act(_)
            | Self::Deliver(_)
            | Self::Tick(_)
            | Self::Refuse
            | Self::LoseAnswer(_)
            | Self::Expire(_)
            | Self::MoveUnderTrim
            | Self::Restart(_) => false,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Act(None) => f.write_str("restow acts"),
            Self::Act(Some(version)) => write!(f, "a visit, encoded in {version}"),
            Self::Refuse => f.write_str("a visit is refused"),
            Self::LoseAnswer(version) => write!(f, "a visit, encoded in {version}, its answer lost"),
            Self::Expire(has_token) => write!(f, "the token expires, another one given: {has_token}"),
            Self::MoveUnderTrim => f.write_str("the flag moves just before the trim"),
            Self::Tick(true) => f.write_str("time passes"),
            Self::Tick(false) => f.write_str("time passes, the servers still lag"),
            Self::Deliver(place) => write!(f, "the watch shows generation {place}"),
            Self::MoveFlag => f.write_str("the flag moves"),
            Self::SwingFlag => f.write_str("the flag moves away and back"),
            Self::Write(name, version) => write!(f, "a client writes {name}, encoded in {version}"),
            Self::Create(version) => write!(f, "a client creates c, encoded in {version}"),
            Self::Recreate(name, version) => write!(f, "{name} is created anew, encoded in {version}"),
            Self::Sleep => f.write_str("the second server falls asleep"),
            Self::Wake => f.write_str("the second server wakes up"),
            Self::Restart(early) => write!(f, "restow restarts, its last status lost: {early}"),
        }
    }
}
