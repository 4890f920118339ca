//! The order to stop: SIGTERM from the kubelet, SIGINT from a terminal.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Signals can't be listened to.
#[derive(Debug, thiserror::Error)]
#[error("listen for SIGTERM and SIGINT")]
pub(super) struct SignalError(#[from] std::io::Error);

/// Listens from now on; the token is cancelled once the order has come.
///
/// As process 1 of a container nothing but this makes SIGTERM have an effect.
pub(super) fn stop() -> Result<CancellationToken, SignalError> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    // Should the listener end in any other way, its guard cancels the token: the process ends rather than going deaf.
    let guard = stop.clone().drop_guard();
    tokio::spawn(async move {
        let _guard = guard;
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    });
    Ok(stop)
}
