//! Which requests meet which fault, and how often.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Response;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use serde_json::{Value, json};
use tokio::sync::watch;

/// A rule of the proxy: requests that fit meet the fault, some first ones aside, and only so many of them.
#[derive(Clone, Debug)]
pub struct Rule {
    method: Option<&'static str>,
    parts: Vec<String>,
    passes: usize,
    times: usize,
    fault: Fault,
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The API server never sees it; this is the answer.
    Answer {
        /// The HTTP status code.
        code: u16,
        /// The body, a `Status` of the API.
        status: Value,
        /// The header `Retry-After`.
        retry_after_seconds: Option<u64>,
    },
    /// It is passed on, but so much later.
    Delay(Duration),
    /// The connection is closed before the API server has seen it.
    CutBefore,
    /// The connection is closed after the API server has acted on it.
    CutAfter,
    /// It waits at a gate until that is opened, and is passed on then.
    Gate(Gate),
    /// Nothing is done any more: the API server never sees it, and whoever sent it waits.
    HoldBefore,
    /// The API server acts on it, and whoever sent it waits for the answer in vain.
    HoldAfter,
    /// The body of the request is changed.
    EditRequest(fn(Vec<u8>) -> Vec<u8>),
    /// The body of the answer is changed.
    Edit(fn(Vec<u8>) -> Vec<u8>),
}

/// Where requests wait until somebody has done what was to be done meanwhile. Copies are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    state: Arc<watch::Sender<GateState>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct GateState {
    is_reached: bool,
    is_open: bool,
}

impl Default for Gate {
    fn default() -> Self {
        Self { state: Arc::new(watch::Sender::new(GateState::default())) }
    }
}

impl Gate {
    /// Waits until a request waits here, or did.
    pub async fn reached(&self) {
        self.until(|state| state.is_reached).await;
    }

    /// Lets everything pass from now on.
    pub fn open(&self) {
        self.state.send_modify(|state| state.is_open = true);
    }

    pub(super) async fn pass(&self) {
        self.state.send_modify(|state| state.is_reached = true);
        self.until(|state| state.is_open).await;
    }

    async fn until(&self, wish: impl Fn(GateState) -> bool) {
        // It can't be closed: the sender is next to it.
        drop(self.state.subscribe().wait_for(|state| wish(*state)).await);
    }
}

impl Rule {
    /// A rule for all requests.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Self { method: None, parts: Vec::new(), passes: 0, times: usize::MAX, fault }
    }

    /// For requests with this HTTP method only.
    #[must_use]
    pub fn method(mut self, method: &'static str) -> Self {
        self.method = Some(method);
        self
    }

    /// For requests with this text in their path or query only: a resource, a name, `limit=`.
    #[must_use]
    pub fn uri(mut self, part: impl Into<String>) -> Self {
        self.parts.push(part.into());
        self
    }

    /// The first so many that fit pass unharmed.
    #[must_use]
    pub fn after(mut self, passes: usize) -> Self {
        self.passes = passes;
        self
    }

    /// Only so many are harmed.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = times;
        self
    }

    /// The fault that a request meets by this rule, if any.
    pub(super) fn apply(&mut self, method: &str, uri: &str) -> Option<Fault> {
        let fits =
            self.method.is_none_or(|own| own == method) && self.parts.iter().all(|part| uri.contains(part));
        if !fits || self.times == 0 {
            return None;
        }
        if self.passes > 0 {
            self.passes -= 1;
            return None;
        }
        self.times -= 1;
        Some(self.fault.clone())
    }
}

impl Fault {
    /// The API server's usual form of a failure.
    #[must_use]
    pub fn status(code: u16, reason: &str, message: &str) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "reason": reason, "message": message, "code": code,
        });
        Self::Answer { code, status, retry_after_seconds: None }
    }

    /// The same, with a wish to be left alone for so long.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        match self {
            Self::Answer { code, status, retry_after_seconds: _ } => {
                Self::Answer { code, status, retry_after_seconds: Some(seconds) }
            }
            other @ (Self::Delay(_)
            | Self::CutBefore
            | Self::CutAfter
            | Self::Gate(_)
            | Self::HoldBefore
            | Self::HoldAfter
            | Self::EditRequest(_)
            | Self::Edit(_)) => other,
        }
    }
}

pub(super) fn answer(code: u16, status: &Value, retry_after_seconds: Option<u64>) -> Response<Body> {
    let mut response = Response::builder().status(code).header(CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after_seconds {
        response = response.header(RETRY_AFTER, seconds);
    }
    response.body(Body::from(status.to_string())).expect("a status code and two headers")
}
