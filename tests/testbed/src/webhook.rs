//! A conversion webhook, as a CRD's author would run it: HTTPS on loopback, `ConversionReview` v1.
//!
//! How an object is converted is in `mapping`, which knows nothing of HTTP; certificates are in `identity`, the
//! listener is in `server`.

mod identity;
mod mapping;
mod server;

use crate::crd::Conversion;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use kube::core::Status;
use kube::core::conversion::{ConversionRequest, ConversionResponse, ConversionReview};
use server::Server;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use identity::Identity;
pub use mapping::{Mapping, Unconvertible};

/// What may go wrong at the start of a webhook.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No certificate could be made.
    #[error("make the webhook's certificates")]
    Certificates(#[source] rcgen::Error),
    /// The certificate was not accepted by the TLS library.
    #[error("configure TLS for the webhook")]
    Tls(#[source] tokio_rustls::rustls::Error),
    /// No port on loopback.
    #[error("listen for conversion requests")]
    Listen(#[source] io::Error),
}

/// How much the webhook was asked to do since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// `ConversionReview`s received.
    pub requests: u64,
    /// Objects in them.
    pub objects: u64,
}

/// A running webhook; dropping it closes the port and every connection.
#[derive(Debug)]
pub struct Webhook {
    server: Server,
    identity: Identity,
    converter: Arc<Converter>,
}

impl Webhook {
    /// Starts one on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If there is no port, or no certificate can be made.
    pub async fn start(mapping: Mapping) -> Result<Self, Error> {
        let identity = Identity::generate()?;
        let converter =
            Arc::new(Converter { mapping, requests: AtomicU64::new(0), objects: AtomicU64::new(0) });
        let router = Router::new().route("/convert", post(convert)).with_state(Arc::clone(&converter));
        let server = Server::start(&identity, router).await?;
        Ok(Self { server, identity, converter })
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}/convert", self.server.address())
    }

    /// The CA that vouches for it: PEM in base64, as a CRD wants it.
    #[must_use]
    pub fn ca_bundle(&self) -> String {
        self.identity.ca_bundle()
    }

    /// Both, as a CRD's conversion.
    #[must_use]
    pub fn conversion(&self) -> Conversion {
        Conversion::Webhook { url: self.url(), ca_bundle: self.ca_bundle() }
    }

    /// How much it was asked to do so far.
    #[must_use]
    pub fn asked(&self) -> Asked {
        Asked {
            requests: self.converter.requests.load(Ordering::Relaxed),
            objects: self.converter.objects.load(Ordering::Relaxed),
        }
    }
}

/// What the handler of a request works with.
#[derive(Debug)]
struct Converter {
    mapping: Mapping,
    requests: AtomicU64,
    objects: AtomicU64,
}

impl Converter {
    fn answer(&self, request: ConversionRequest) -> ConversionResponse {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.objects.fetch_add(request.objects.len() as u64, Ordering::Relaxed);
        let converted: Result<Vec<_>, _> = request
            .objects
            .iter()
            .map(|object| self.mapping.convert(object, &request.desired_api_version))
            .collect();
        let response = ConversionResponse::for_request(request);
        match converted {
            Ok(objects) => response.success(objects),
            Err(error) => response.failure(Status::failure(&error.to_string(), "Invalid")),
        }
    }
}

async fn convert(
    State(converter): State<Arc<Converter>>,
    Json(review): Json<ConversionReview>,
) -> Json<ConversionReview> {
    let response = match ConversionRequest::from_review(review) {
        Ok(request) => converter.answer(request),
        Err(error) => ConversionResponse::invalid(Status::failure(&error.to_string(), "BadRequest")),
    };
    Json(response.into_review())
}

#[cfg(test)]
mod tests {
    use super::{AtomicU64, Converter, Mapping};
    use kube::core::conversion::ConversionRequest;
    use kube::core::response::StatusSummary;
    use serde_json::{Value, json};

    fn request(objects: Vec<Value>) -> ConversionRequest {
        let desired_api_version = "example.com/v1".to_owned();
        ConversionRequest { types: None, uid: "42".to_owned(), desired_api_version, objects }
    }

    fn converter() -> Converter {
        Converter { mapping: Mapping::CronTab, requests: AtomicU64::new(0), objects: AtomicU64::new(0) }
    }

    fn crontab(name: &str, host_port: &str) -> Value {
        json!({
            "apiVersion": "example.com/v1beta1",
            "kind": "CronTab",
            "metadata": { "name": name },
            "spec": { "hostPort": host_port },
        })
    }

    #[test]
    fn many_objects_are_answered_in_order() {
        let converter = converter();
        let response = converter.answer(request(vec![crontab("a", "a:1"), crontab("b", "b:2")]));
        assert_eq!(response.uid, "42");
        assert_eq!(response.result.status, Some(StatusSummary::Success));
        let names: Vec<_> = response.converted_objects.iter().map(|it| &it["metadata"]["name"]).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(converter.objects.into_inner(), 2);
    }

    #[test]
    fn one_bad_object_fails_the_request_with_its_name() {
        let response = converter().answer(request(vec![crontab("a", "a:1"), crontab("b", "8080")]));
        assert_eq!(response.result.status, Some(StatusSummary::Failure));
        assert_eq!(response.result.message, "b: hostPort \"8080\" is not host:port");
        assert!(response.converted_objects.is_empty());
    }
}
