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
    /// How long the server asks to wait.
    pub retry_after: Option<Duration>,
    /// `metadata.continue` of the server's `Status`: where an expired list can go on.
    pub continue_token: Option<String>,
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

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            Some(code) if self.reason.is_empty() => write!(f, "{code}: {}", self.message),
            Some(code) => write!(f, "{code} {}: {}", self.reason, self.message),
            None => f.write_str(&self.message),
        }
    }
}
