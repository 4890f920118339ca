//! What one seed does: the stage, and the faults in the order in which they begin. The same seed gives the same plan.

use std::time::Duration;

use fastrand::Rng;

use super::servers::{ServerFault, round_of_two_servers};

/// How long a handler may lag behind the CRD on a machine that does many other things: restow's `--settle`.
pub(super) const SETTLE: Duration = Duration::from_secs(3);

/// The flag moves so often at least, and a run can come to its end before it moves again.
const ROUNDS: usize = 3;

/// The same where the Leases of API servers are waited for, which takes longer.
const ROUNDS_OF_TWO_SERVERS: usize = 2;

/// The versions of the CRD, the oldest first.
pub(super) const VERSIONS: [&str; 3] = ["v1alpha1", "v1", "v2"];

/// Objects that no writer owns: w000, w001 …
pub(super) const OBJECTS_MAX: usize = 40;

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) stage: Stage,
    /// Each begins with a move of the flag, and the next one once all of its faults are over.
    pub(super) rounds: Vec<Vec<Event>>,
}

/// What does not change from the beginning to the end.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// A control plane of its own with two API servers, which sleep and are restarted, as is etcd.
    pub(super) has_two_servers: bool,
    pub(super) objects: usize,
    /// A webhook converts, rather than the server.
    pub(super) has_webhook: bool,
    /// restow may read the API servers' Leases; otherwise settling alone counts, and runs follow one another faster.
    pub(super) sees_leases: bool,
    pub(super) page_size: usize,
    pub(super) writes_per_second: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Event {
    /// When, from the beginning of its round.
    pub(super) at: Duration,
    /// It happens while such a request of restow's, after so many others, waits to be passed on.
    pub(super) during: Option<(Part, usize)>,
    pub(super) action: Action,
    /// How long it lasts, if it lasts at all.
    pub(super) lasts: Duration,
}

/// Which requests of restow's are meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Visits,
    Lists,
    CrdReads,
    Trims,
    Statuses,
    Reviews,
    All,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Between restow and the API server.
    Answers(Part, Spoil),
    Webhook(WebhookFault),
    /// An admission webhook denies one object, with this code.
    AdmissionDenies(usize, u16),
    /// One is not there, so that nothing can be written.
    AdmissionIsGone,
    Servers(ServerFault),
    /// Of one object, or of all.
    PolicyRefuses(Option<usize>),
    RightsWithdrawn,
    Crd(CrdEdit),
    Burst {
        through: &'static str,
    },
    Controller(Disturbance),
    Order(OrderChange),
    Compact,
}

#[derive(Clone, Debug)]
pub(super) enum Spoil {
    Answer { code: u16, retry_after_seconds: Option<u64>, times: usize },
    Delay(Duration),
    Cut { is_acted_on: bool, times: usize },
}

#[derive(Clone, Debug)]
pub(super) enum WebhookFault {
    Down,
    Fails,
    Dawdles,
    Refuses { object: usize },
}

#[derive(Clone, Debug)]
pub(super) enum CrdEdit {
    Move {
        to: &'static str,
    },
    /// A server that lags for longer than it may puts objects back after so many visits of the first sweep.
    MoveWithLaggard {
        to: &'static str,
        visits: usize,
    },
    AwayAndBack {
        away: &'static str,
        for_: Duration,
        unseen: bool,
    },
    /// After so many visits of the first sweep, and no watch tells of it.
    AwayAndBackInSecret {
        to: &'static str,
        away: &'static str,
        visits: usize,
    },
    Describe,
    ChangeConversion,
}

#[derive(Clone, Debug)]
pub(super) enum Disturbance {
    Kill { down_for: Duration },
    KillAt { request: usize, is_acted_on: bool },
    Pause,
}

/// What is done to the StorageMigration.
#[derive(Clone, Debug)]
pub(super) enum OrderChange {
    Suspend,
    Pace { writes_per_second: usize },
    PageSize { objects: usize },
    Retry,
    Always,
    Recreate,
}

impl Plan {
    pub(super) fn of(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let has_two_servers = seed % 4 == 1;
        let stage = Stage {
            has_two_servers,
            objects: rng.usize(10..=OBJECTS_MAX),
            has_webhook: rng.u8(..3) == 0,
            sees_leases: rng.u8(..4) == 0 || has_two_servers,
            page_size: rng.usize(3..=25),
            writes_per_second: rng.usize(20..=100),
        };
        let mut stored = VERSIONS[1];
        let mut round = |_| {
            stored = other_version(&mut rng, stored);
            if has_two_servers {
                round_of_two_servers(&mut rng, stored)
            } else {
                round(&mut rng, &stage, stored)
            }
        };
        let rounds = if has_two_servers { ROUNDS_OF_TWO_SERVERS } else { ROUNDS };
        let rounds = (0..rounds).map(&mut round).collect();
        Self { stage, rounds }
    }
}

/// The flag moves, and more happens, mostly while the run that follows is at work.
fn round(rng: &mut Rng, stage: &Stage, to: &'static str) -> Vec<Event> {
    let first =
        |edit| Event { at: Duration::ZERO, during: None, action: Action::Crd(edit), lasts: Duration::ZERO };
    // Nothing else happens in some: what is put back in a confirm nobody could find.
    match rng.u8(..8) {
        0 | 1 => {
            let visits = rng.usize(1..stage.objects);
            return vec![first(CrdEdit::MoveWithLaggard { to, visits })];
        }
        2 => {
            let (away, visits) = (other_version(rng, to), rng.usize(1..stage.objects));
            return vec![first(CrdEdit::AwayAndBackInSecret { to, away, visits })];
        }
        _ => {}
    }
    let mut events = vec![first(CrdEdit::Move { to })];
    events.extend((0..rng.usize(0..=4)).map(|_| Event::random(rng, stage)));
    events
}

impl Event {
    fn random(rng: &mut Rng, stage: &Stage) -> Self {
        let action = Action::random(rng, stage);
        let (during, at, lasts) = if action.refuses_one() && rng.bool() {
            // Whether it is refused shows after three attempts in each sweep, so this covers both.
            (None, millis(rng, 0..=3000), millis(rng, 8000..=15_000))
        } else if rng.u8(..3) > 0 {
            let held = (Part::random(rng), rng.usize(..6));
            (Some(held), millis(rng, 0..=4000), millis(rng, 50..=2500))
        } else {
            (None, SETTLE + millis(rng, 0..=2500), millis(rng, 50..=2500))
        };
        Self { at, during, action, lasts }
    }
}

impl Part {
    pub(super) fn random(rng: &mut Rng) -> Self {
        match rng.u8(..10) {
            0..=3 => Self::Visits,
            4 | 5 => Self::Lists,
            6 => Self::CrdReads,
            7 => Self::Trims,
            8 => Self::Statuses,
            _ if rng.bool() => Self::Reviews,
            _ => Self::All,
        }
    }

    /// Method and part of the URI.
    pub(super) fn matches(self) -> (Option<&'static str>, &'static str) {
        match self {
            Self::Visits => (Some("PATCH"), "/widgets/"),
            Self::Lists => (Some("GET"), "/widgets?"),
            Self::CrdReads => (Some("GET"), "/customresourcedefinitions/"),
            Self::Trims => (Some("PATCH"), "/customresourcedefinitions/"),
            Self::Statuses => (Some("PATCH"), "/storagemigrations/"),
            Self::Reviews => (Some("POST"), "/selfsubjectaccessreviews"),
            Self::All => (None, ""),
        }
    }
}

impl Action {
    fn random(rng: &mut Rng, stage: &Stage) -> Self {
        match rng.u8(..39) {
            0..=5 => Self::Answers(Part::random(rng), Spoil::random(rng)),
            6 | 7 if stage.has_webhook => Self::Webhook(WebhookFault::random(rng, stage)),
            6..=8 | 32..=35 => Self::PolicyRefuses(Some(rng.usize(..stage.objects))),
            9 => Self::PolicyRefuses(None),
            10 => Self::RightsWithdrawn,
            11..=17 => Self::Crd(CrdEdit::random(rng, stage)),
            18 | 19 => Self::Burst { through: version(rng) },
            20..=25 => Self::Controller(Disturbance::random(rng)),
            26..=29 => Self::Order(OrderChange::random(rng)),
            36 | 37 => Self::AdmissionDenies(rng.usize(..stage.objects), [403, 404][rng.usize(..2)]),
            38 => Self::AdmissionIsGone,
            _ => Self::Compact,
        }
    }

    fn refuses_one(&self) -> bool {
        matches!(
            self,
            Self::PolicyRefuses(Some(_))
                | Self::AdmissionDenies(..)
                | Self::Webhook(WebhookFault::Refuses { .. })
        )
    }
}

impl Spoil {
    pub(super) fn random(rng: &mut Rng) -> Self {
        match rng.u8(..6) {
            0..=2 => Self::Answer {
                code: [429, 500, 503, 504, 403, 409][rng.usize(..6)],
                retry_after_seconds: rng.bool().then(|| rng.u64(1..=3)),
                times: rng.usize(1..=12),
            },
            3 => Self::Delay(millis(rng, 50..=2000)),
            _ => Self::Cut { is_acted_on: rng.bool(), times: rng.usize(1..=8) },
        }
    }
}

impl WebhookFault {
    fn random(rng: &mut Rng, stage: &Stage) -> Self {
        match rng.u8(..4) {
            0 => Self::Down,
            1 => Self::Fails,
            2 => Self::Dawdles,
            _ => Self::Refuses { object: rng.usize(..stage.objects) },
        }
    }
}

impl CrdEdit {
    fn random(rng: &mut Rng, stage: &Stage) -> Self {
        match rng.u8(..8) {
            0 => Self::Move { to: version(rng) },
            1 if stage.has_webhook => Self::ChangeConversion,
            1 | 2 => Self::Describe,
            _ => Self::AwayAndBack {
                away: version(rng),
                for_: millis(rng, 50..=1000),
                unseen: rng.u8(..3) > 0,
            },
        }
    }
}

impl Disturbance {
    pub(super) fn random(rng: &mut Rng) -> Self {
        match rng.u8(..6) {
            0..=2 => Self::Kill { down_for: millis(rng, 0..=2000) },
            3 | 4 => Self::KillAt { request: rng.usize(..60), is_acted_on: rng.bool() },
            _ => Self::Pause,
        }
    }
}

impl OrderChange {
    fn random(rng: &mut Rng) -> Self {
        match rng.u8(..6) {
            0 => Self::Suspend,
            1 => Self::Pace { writes_per_second: rng.usize(5..=100) },
            2 => Self::PageSize { objects: rng.usize(1..=40) },
            3 => Self::Retry,
            4 => Self::Always,
            _ => Self::Recreate,
        }
    }
}

pub(super) fn version(rng: &mut Rng) -> &'static str {
    VERSIONS[rng.usize(..VERSIONS.len())]
}

fn other_version(rng: &mut Rng, than: &str) -> &'static str {
    let others: Vec<_> = VERSIONS.into_iter().filter(|version| *version != than).collect();
    others[rng.usize(..others.len())]
}

pub(super) fn millis(rng: &mut Rng, range: std::ops::RangeInclusive<u128>) -> Duration {
    let (least, most) = (u64::try_from(*range.start()), u64::try_from(*range.end()));
    Duration::from_millis(rng.u64(least.unwrap_or_default()..=most.unwrap_or(u64::MAX)))
}
