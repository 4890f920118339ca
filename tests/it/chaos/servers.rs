//! What happens to the servers of a control plane with two API servers: one sleeps, each of them is killed.

use std::time::Duration;

use fastrand::Rng;
use testbed::control_plane::ApiServer;
use testbed::process::Signal;
use tokio::time::sleep;

use super::historian::Historian;
use super::plan::{Action, CrdEdit, Disturbance, Event, Part, Spoil, millis, version};
use super::stand::Stand;

/// Writes that wait at a server that sleeps: it takes up several before it learns of the flag.
const WAITING: usize = 12;

#[derive(Clone, Debug)]
pub(super) enum ServerFault {
    /// The second API server sleeps, with writes waiting at it, and the flag moves meanwhile.
    SleepsThroughMove {
        to: &'static str,
    },
    Sleeps,
    /// Killed, and started again at once.
    Restarted(Program),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Program {
    /// The API server that restow talks to.
    First,
    Second,
    Etcd,
}

/// The flag moves, the second server sleeping through it in two of three rounds, and servers come and go. What else there
/// is asks nothing of a server that may be away.
pub(super) fn round_of_two_servers(rng: &mut Rng, to: &'static str) -> Vec<Event> {
    let (moved, lasts) = if rng.u8(..3) > 0 {
        (Action::Servers(ServerFault::SleepsThroughMove { to }), millis(rng, 500..=15_000))
    } else {
        (Action::Crd(CrdEdit::Move { to }), Duration::ZERO)
    };
    let mut events = vec![Event { at: Duration::ZERO, during: None, action: moved, lasts }];
    events.extend((0..rng.usize(0..=3)).map(|_| {
        let action = match rng.u8(..8) {
            0..=2 => Action::Servers(ServerFault::random(rng)),
            3 | 4 => Action::Answers(Part::random(rng), Spoil::random(rng)),
            5 | 6 => Action::Controller(Disturbance::random(rng)),
            _ => Action::Burst { through: version(rng) },
        };
        let during = rng.bool().then(|| (Part::random(rng), rng.usize(..6)));
        Event { at: millis(rng, 1000..=12_000), during, action, lasts: millis(rng, 50..=4000) }
    }));
    events
}

impl ServerFault {
    fn random(rng: &mut Rng) -> Self {
        match rng.u8(..4) {
            0 => Self::Sleeps,
            1 => Self::Restarted(Program::First),
            2 => Self::Restarted(Program::Second),
            _ => Self::Restarted(Program::Etcd),
        }
    }

    pub(super) async fn happen(&self, stand: &Stand, historian: &Historian, lasts: Duration) {
        let Some(second) = stand.second else { return };
        match self {
            Self::SleepsThroughMove { to } => {
                second.signal(Signal::Stop);
                let moving = async {
                    stand.move_flag(to).await;
                    sleep(lasts).await;
                    second.signal(Signal::Continue);
                };
                tokio::join!(moving, stand.wait_with_writes(WAITING));
            }
            Self::Sleeps => {
                second.signal(Signal::Stop);
                sleep(lasts).await;
                second.signal(Signal::Continue);
            }
            Self::Restarted(program) => {
                let _nobody_asks = stand.is_up.write().await;
                let plane = stand.scene.plane;
                match program {
                    Program::First => restart(plane.api_server()).await,
                    Program::Second => restart(second).await,
                    Program::Etcd => {
                        let _nobody_looks = historian.rest().await;
                        plane.etcd_server().stop(Signal::Kill).await.expect("kill etcd");
                        plane.etcd_server().start().await.expect("start etcd");
                    }
                }
            }
        }
    }
}

async fn restart(server: &ApiServer) {
    server.stop(Signal::Kill).await.expect("kill the API server");
    // A machine that does many other things may take longer than it is waited for.
    if server.start().await.is_err() {
        server.start().await.expect("start the API server");
    }
}
