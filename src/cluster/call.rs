//! One request and its answer, with the headers that kube's typed calls drop: `Date` and `Retry-After`.

use std::error::Error;
use std::io::ErrorKind;
use std::time::Duration;

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use kube::core::Status;
use kube::core::request::Error as BuildError;
use serde::de::DeserializeOwned;

use super::Cluster;
use crate::plan::{Cause, Details, Failure};

/// How long an answer may take. The server gives up after 60 s by itself (kube-apiserver `--request-timeout`).
const ANSWER_TIME: Duration = Duration::from_secs(70);

/// What the system says where nobody listens, or no way leads there.
const UNREACHED: [ErrorKind; 4] = [
    ErrorKind::ConnectionRefused,
    ErrorKind::HostUnreachable,
    ErrorKind::NetworkUnreachable,
    ErrorKind::AddrNotAvailable,
];

/// A good answer.
#[derive(Debug)]
pub(super) struct Answer<T> {
    /// The body.
    pub(super) body: T,
    /// The server's clock.
    pub(super) date: Option<Timestamp>,
}

impl Cluster {
    /// Sends one request and reads its answer.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        request: Result<Request<Vec<u8>>, BuildError>,
    ) -> Result<Answer<T>, Failure> {
        let request = request.map_err(|error| transport(&error))?;
        let answer = tokio::time::timeout(ANSWER_TIME, self.exchange(request));
        let Ok(answer) = answer.await else {
            let message = format!("no answer within {} s", ANSWER_TIME.as_secs());
            return Err(Failure { message, ..Failure::default() });
        };
        let (head, body) = answer.map_err(|error| transport(&error))?;
        if !head.status.is_success() {
            return Err(refusal(head.status.as_u16(), &head.headers, &body));
        }
        match serde_json::from_slice(&body) {
            Ok(body) => Ok(Answer { body, date: date(&head.headers) }),
            Err(error) => Err(Failure {
                message: format!("the answer can't be understood: {error}"),
                ..Failure::default()
            }),
        }
    }

    async fn exchange(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<(http::response::Parts, Vec<u8>), kube::Error> {
        let response: Response<_> = self.client.send(request.map(kube::client::Body::from)).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok((head, body.into()))
    }
}

/// A failure of which the server said nothing: the whole chain of causes stands in the text.
fn transport(error: &(dyn Error + 'static)) -> Failure {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    let unreached = causes.any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>();
        io.is_some_and(|io| UNREACHED.contains(&io.kind()))
    });
    Failure { message: chain(error), unreached, ..Failure::default() }
}

/// An error and its causes in one line, each said once: those of kube and of the log filter tell their cause themselves.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}

fn refusal(code: u16, headers: &HeaderMap, body: &[u8]) -> Failure {
    let retry_after = header(headers, &RETRY_AFTER).and_then(|v| v.parse().ok()).map(Duration::from_secs);
    let Ok(status) = serde_json::from_slice::<Status>(body) else {
        let message = String::from_utf8_lossy(&body[..body.len().min(1024)]).trim().to_owned();
        return Failure { code: Some(code), message, retry_after, ..Failure::default() };
    };
    let details = status.details.map(|d| {
        let causes = d.causes.into_iter().map(|c| Cause { field: c.field, message: c.message });
        Details { group: d.group, kind: d.kind, name: d.name, causes: causes.collect() }
    });
    Failure {
        code: Some(code),
        reason: status.reason,
        message: status.message,
        details,
        retry_after,
        continue_token: status.metadata.and_then(|m| m.continue_).filter(|token| !token.is_empty()),
        unreached: false,
    }
}

fn date(headers: &HeaderMap) -> Option<Timestamp> {
    rfc2822::parse(header(headers, &DATE)?).ok().map(|zoned| zoned.timestamp())
}

fn header<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
