//! A validating admission webhook: it denies the update of one object, in words of the test's choice, or holds the updates
//! of one user until the test lets them go.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::watch;

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

/// A running webhook that holds all updates by one user until it lets them go, and then none any more.
#[derive(Debug)]
pub struct HoldingWebhook {
    webhook: AdmissionWebhook,
    hold: Arc<Hold>,
}

#[derive(Debug)]
struct Hold {
    user: String,
    held: watch::Sender<usize>,
    is_over: watch::Sender<bool>,
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

impl HoldingWebhook {
    /// Starts one on a free port of 127.0.0.1, for the updates by `user`, as RBAC knows it.
    ///
    /// # Errors
    /// If there is no port, or no certificate can be made.
    pub async fn start(user: &str) -> Result<Self, Error> {
        let identity = Identity::generate()?;
        let hold = Arc::new(Hold {
            user: user.to_owned(),
            held: watch::channel(0).0,
            is_over: watch::channel(false).0,
        });
        let router = Router::new().route("/validate", post(hold_on)).with_state(Arc::clone(&hold));
        let server = Server::start(&identity, router, super::FREE_PORT).await?;
        Ok(Self { webhook: AdmissionWebhook { server, identity }, hold })
    }

    /// A `ValidatingWebhookConfiguration` that has updates of a kind's objects held by it: for half a minute at most, which
    /// is the longest that an API server waits.
    #[must_use]
    pub fn configuration(&self, name: &str, kind: &Kind) -> Value {
        let mut configuration = self.webhook.configuration(name, kind);
        configuration["webhooks"][0]["timeoutSeconds"] = json!(30);
        configuration["webhooks"][0]["failurePolicy"] = json!("Ignore");
        configuration
    }

    /// Waits until it has held so many updates.
    ///
    /// # Panics
    /// If the webhook is gone, which it isn't.
    pub async fn until_held(&self, count: usize) {
        let mut held = self.hold.held.subscribe();
        held.wait_for(|held| *held >= count).await.expect("the webhook is there");
    }

    /// Lets all go that it holds, and whatever comes.
    pub fn let_go(&self) {
        self.hold.is_over.send_replace(true);
    }
}

async fn hold_on(State(hold): State<Arc<Hold>>, Json(review): Json<Value>) -> Json<Value> {
    let request = &review["request"];
    if request["userInfo"]["username"] == hold.user.as_str() {
        let mut is_over = hold.is_over.subscribe();
        hold.held.send_modify(|held| *held += 1);
        // It can't fail: the sender is in `hold`.
        let _ = is_over.wait_for(|is_over| *is_over).await;
    }
    let response = json!({ "uid": request["uid"], "allowed": true });
    Json(json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response }))
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
