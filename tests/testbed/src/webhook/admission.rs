//! A validating admission webhook: it denies the update of one object, in words of the test's choice.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::server::Server;
use super::{Error, Identity};
use crate::crd::Kind;

/// Which object is denied, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Name of the object.
    pub name: String,
    /// The `Status` that the server is told to answer with: `code`, `reason`, `message`, `details`.
    pub status: Value,
}

/// A running webhook; dropping it closes the port and every connection.
#[derive(Debug)]
pub struct AdmissionWebhook {
    server: Server,
    identity: Identity,
}

impl AdmissionWebhook {
    /// Starts one on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If there is no port, or no certificate can be made.
    pub async fn start(denial: Denial) -> Result<Self, Error> {
        let identity = Identity::generate()?;
        let router = Router::new().route("/validate", post(validate)).with_state(Arc::new(denial));
        let server = Server::start(&identity, router, super::FREE_PORT).await?;
        Ok(Self { server, identity })
    }

    /// A `ValidatingWebhookConfiguration` that has updates of a kind's objects checked by it.
    #[must_use]
    pub fn configuration(&self, name: &str, kind: &Kind) -> Value {
        json!({
            "metadata": { "name": name },
            "webhooks": [{
                "name": name,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "url": format!("https://{}/validate", self.server.address()),
                    "caBundle": self.identity.ca_bundle(),
                },
                "rules": [{
                    "apiGroups": [kind.group], "apiVersions": ["*"],
                    "operations": ["UPDATE"], "resources": [kind.plural],
                }],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 10,
            }],
        })
    }
}

async fn validate(State(denial): State<Arc<Denial>>, Json(review): Json<Value>) -> Json<Value> {
    Json(denial.answer(&review["request"]))
}

impl Denial {
    fn answer(&self, request: &Value) -> Value {
        let mut response = json!({ "uid": request["uid"], "allowed": true });
        if request["name"] == self.name.as_str() {
            response["allowed"] = json!(false);
            response["status"] = self.status.clone();
        }
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response })
    }
}

#[cfg(test)]
mod tests {
    use super::Denial;
    use serde_json::json;

    #[test]
    fn one_name_is_denied_in_the_words_given() {
        let denial = Denial { name: "a".to_owned(), status: json!({ "code": 404 }) };
        let answer = |name: &str| denial.answer(&json!({ "uid": "7", "name": name }))["response"].clone();
        let denied = json!({ "uid": "7", "allowed": false, "status": { "code": 404 } });
        assert_eq!(answer("a"), denied);
        assert_eq!(answer("b"), json!({ "uid": "7", "allowed": true }));
    }
}
