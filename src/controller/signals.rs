//! The order to stop: SIGTERM from the kubelet, SIGINT from a terminal.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Signals can't be listened to.
#[derive(Debug, thiserror::Error)]
#[error("set up the handler of SIGTERM and SIGINT")]
pub struct SignalError(#[from] std::io::Error);

/// Whether the order to stop has come.
#[derive(Clone, Debug)]
pub(super) struct Stop(watch::Receiver<bool>);

/// Listens for the order to stop from now on.
pub(super) fn stop() -> Result<Stop, SignalError> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        sender.send_replace(true);
        // Keeps the channel open: a closed one would read as an order, too.
        std::future::pending::<()>().await;
    });
    Ok(Stop(receiver))
}

impl Stop {
    /// Returns once the order has come.
    pub(super) async fn wait(&mut self) {
        // An error means that the listener is gone; then nothing could stop the process but this.
        drop(self.0.wait_for(|stopped| *stopped).await);
    }

    pub(super) fn is_set(&self) -> bool {
        *self.0.borrow()
    }
}
