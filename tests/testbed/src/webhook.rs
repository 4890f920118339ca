//! A conversion webhook, as a CRD's author would run it: HTTPS on loopback, `ConversionReview` v1.
//!
//! How an object is converted is in `mapping`, which knows nothing of HTTP; what may go wrong with that is in `fault`;
//! certificates are in `identity`, the listener is in `server`. An admission webhook, made of the same, is in
//! [`admission`].

pub mod admission;
mod fault;
mod identity;
mod mapping;
mod server;

use crate::crd::Conversion;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use kube::core::Status;
use kube::core::conversion::{ConversionRequest, ConversionResponse, ConversionReview};
use serde_json::Value;
use server::Server;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use fault::Fault;
pub use identity::{Identity, Issued};
pub use mapping::{Mapping, Unconvertible};

/// Any port of loopback.
const FREE_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What may go wrong at the start of a webhook.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No certificate could be made.
    #[error("make the webhook's certificates")]
    Certificates(#[source] rcgen::Error),
    /// The certificate was not accepted by the TLS library.
    #[error("configure TLS for the webhook")]
    Tls(#[source] tokio_rustls::rustls::Error),
    /// The certificate or its key can't be read.
    #[error("read the webhook's certificate and key")]
    Read(#[source] tokio_rustls::rustls::pki_types::pem::Error),
    /// No such address, or no free port on it.
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
    server: Option<Server>,
    address: SocketAddr,
    identity: Identity,
    converter: Arc<Converter>,
}

impl Webhook {
    /// Starts one on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If there is no port, or no certificate can be made.
    pub async fn start(mapping: Mapping) -> Result<Self, Error> {
        Self::start_as(Identity::generate()?, FREE_PORT, mapping).await
    }

    /// Starts one with this certificate on this address.
    ///
    /// # Errors
    /// If the address can't be had.
    pub async fn start_as(identity: Identity, address: SocketAddr, mapping: Mapping) -> Result<Self, Error> {
        let converter = Arc::new(Converter::new(mapping));
        let server = Server::start(&identity, router(&converter), address).await?;
        let address = server.address();
        Ok(Self { server: Some(server), address, identity, converter })
    }

    /// Closes the port and every connection. Whoever asks finds nobody there.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// Listens again where it did.
    ///
    /// # Errors
    /// If somebody else has taken the port meanwhile.
    pub async fn restart(&mut self) -> Result<(), Error> {
        self.stop();
        self.server = Some(Server::start(&self.identity, router(&self.converter), self.address).await?);
        Ok(())
    }

    /// From now on it does this to what it is asked, instead of what it did before.
    pub fn misbehave(&self, fault: Fault) {
        self.converter.set_fault(Some(fault));
    }

    /// From now on it does as it should.
    pub fn heal(&self) {
        self.converter.set_fault(None);
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}/convert", self.address)
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
    fault: Mutex<Option<Fault>>,
    requests: AtomicU64,
    objects: AtomicU64,
}

impl Converter {
    fn new(mapping: Mapping) -> Self {
        Self { mapping, fault: Mutex::new(None), requests: AtomicU64::new(0), objects: AtomicU64::new(0) }
    }

    fn fault(&self) -> Option<Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_fault(&self, fault: Option<Fault>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    fn answer(&self, request: ConversionRequest) -> ConversionResponse {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.objects.fetch_add(request.objects.len() as u64, Ordering::Relaxed);
        let (mapping, fault) = (self.mapping, self.fault());
        let convert = |object: &Value| {
            let converted = mapping.convert(object, &request.desired_api_version)?;
            fault.as_ref().map_or(Ok(converted.clone()), |fault| fault.spoil(object, converted))
        };
        let converted: Result<Vec<_>, _> = request.objects.iter().map(convert).collect();
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
) -> Result<Json<ConversionReview>, StatusCode> {
    let response = match ConversionRequest::from_review(review) {
        Ok(request) => {
            if let Some(fault) = converter.fault() {
                fault.meet(&request.objects).await?;
            }
            converter.answer(request)
        }
        Err(error) => ConversionResponse::invalid(Status::failure(&error.to_string(), "BadRequest")),
    };
    Ok(Json(response.into_review()))
}

fn router(converter: &Arc<Converter>) -> Router {
    Router::new().route("/convert", post(convert)).with_state(Arc::clone(converter))
}

#[cfg(test)]
mod tests {
    use super::{Converter, Fault, Mapping};
    use kube::core::conversion::ConversionRequest;
    use kube::core::response::StatusSummary;
    use serde_json::{Value, json};

    fn request(objects: Vec<Value>) -> ConversionRequest {
        let desired_api_version = "example.com/v1".to_owned();
        ConversionRequest { types: None, uid: "42".to_owned(), desired_api_version, objects }
    }

    fn converter() -> Converter {
        Converter::new(Mapping::CronTab)
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

    #[test]
    fn a_fault_is_met_until_it_is_healed() {
        let converter = converter();
        converter.set_fault(Some(Fault::refuse("a", "not today")));
        let ask = || converter.answer(request(vec![crontab("a", "a:1")])).result.message;
        assert_eq!(ask(), "a: not today");
        converter.set_fault(None);
        assert_eq!(ask(), "");
    }
}
