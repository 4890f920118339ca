//! Patience with a server that is replacing a handler.
//!
//! After each write to a CRD the retired handler may still answer a request, with 503: that is no outage, and the tests
//! that write objects right after an edit don't want to know of it. Nothing else is tried again here.

use backon::{ConstantBuilder, Retryable as _};
use kube::Error as KubeError;
use std::time::Duration;

/// A handler is replaced within a second or two; this is 5 s.
const TRIES_MAX: usize = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// Sends a request until the answer isn't 503.
pub(super) async fn answered<T, F>(request: impl Fn() -> F) -> Result<T, KubeError>
where
    F: Future<Output = Result<T, KubeError>>,
{
    let pauses = ConstantBuilder::new().with_delay(PAUSE).with_max_times(TRIES_MAX);
    request.retry(pauses).when(is_unavailable).await
}

fn is_unavailable(error: &KubeError) -> bool {
    matches!(error, KubeError::Api(status) if status.code == 503)
}
