//! What the API server answered, as plain data. How it is sent and parsed lives in `cluster`.

use std::time::Duration;

/// An answer that is not the one hoped for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status code; `None` where no answer came: a time-out, a reset, a refused connection.
    pub code: Option<u16>,
    /// `reason` of the server's `Status`.
    pub reason: String,
    /// `message` of the server's `Status`, or what the transport said.
    pub message: String,
    /// `details` of the server's `Status`: what the answer speaks of.
    pub details: Option<Details>,
    /// Whether no server could be reached at all, so that the request was never sent.
    pub unreached: bool,
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
    /// `metadata.continue` of the server's `Status`: where an expired list can go on.
    pub continue_token: Option<String>,
}

/// How client-go begins what it says of a request that found no server, none in time, or one that answered with an error.
const NO_ANSWERS: [&str; 4] = ["Post \"", "an error on the server ", "the server ", "context "];

/// Whom a failure concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The target, or one of its objects.
    Target,
    /// Everything that restow does in the cluster.
    Cluster,
}

/// What an answer speaks of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The API group.
    pub group: String,
    /// The plural name of the resource, in spite of the field's name.
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// What is wrong in detail.
    pub causes: Vec<Cause>,
}

/// One of the causes that an answer gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// What it is about: of an object that can't be read the key in etcd.
    pub field: String,
    /// What the server says of it.
    pub message: String,
}

impl Failure {
    /// Whom it concerns: the whole cluster if no server was reached, restow's token is not accepted, or etcd itself fails.
    #[must_use]
    pub fn scope(&self) -> Scope {
        // What etcd says of itself: `mvcc: database space exceeded`, `no leader`, `request timed out`.
        let by_etcd = self.message.contains("etcdserver: ") && !self.is_too_large();
        if self.unreached || self.code == Some(401) || (by_etcd && self.code.is_some_and(|code| code >= 500))
        {
            Scope::Cluster
        } else {
            Scope::Target
        }
    }

    /// Whether a conversion failed because its webhook did not answer as one: it was not reached, was too slow, or answered
    /// with an HTTP error. What it refuses it answers for, in its own words.
    #[must_use]
    pub fn is_silence_of_webhook(&self) -> bool {
        // k8s.io/apiextensions-apiserver begins with the first whatever goes wrong with a conversion; what follows the
        // second is the webhook's, or client-go's word.
        let said = self
            .message
            .split_once("conversion webhook for ")
            .and_then(|(_, rest)| rest.split_once(" failed: "));
        said.is_some_and(|(_, said)| NO_ANSWERS.iter().any(|no_answer| said.starts_with(no_answer)))
    }

    /// Whether the authorizer says that restow lacks a right. What admission denies is worded otherwise.
    pub(super) fn is_lack_of_right(&self) -> bool {
        self.code == Some(403)
            && self.message.contains(" is forbidden: User \"")
            && self.message.contains(" cannot ")
    }

    /// Whether what was to be stored is too large for etcd (`etcdserver: request is too large`), or for its gRPC client.
    pub(super) fn is_too_large(&self) -> bool {
        self.message.contains("request is too large")
            || self.message.contains("trying to send message larger than max")
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            Some(code) if self.reason.is_empty() => write!(f, "{code}: {}", self.message),
            Some(code) => write!(f, "{code} {}: {}", self.reason, self.message),
            None => f.write_str(&self.message),
        }
    }
}
