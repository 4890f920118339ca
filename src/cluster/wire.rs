//! The way that each request goes: kube's own layers, but for the last step, where a write asks the gate.
//!
//! kube's stack would send a request that was let pass once a connection is there, which can be half a minute later. Here the
//! gate is asked when the connection reads the request's body, in the same turn in which it is handed to the system. Nothing
//! of a request has left before that, and one without its whole body is not acted upon.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use tower::{BoxError, Service, ServiceBuilder};

use super::gate::{Gate, Shut};
use crate::metrics::{Metrics, Verb};

/// Marks a request that decides who may write, and so can't be held back by it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ungated;

/// Counts the requests that go through it.
#[derive(Clone)]
struct Counting<S> {
    inner: S,
    metrics: Metrics,
}

/// The body of a request that leaves only while the gate is open, where there is one.
struct GatedBody {
    body: Body,
    gate: Option<Gate>,
}

/// A client whose writes ask `gate` and whose requests are counted.
pub(super) fn client(config: Config, gate: Gate, metrics: &Metrics) -> Result<Client, kube::Error> {
    let mut connector = TimeoutConnector::new(config.rustls_https_connector()?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let sender: legacy::Client<_, GatedBody> = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer_fn(|inner| Counting { inner, metrics: metrics.clone() })
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_request(move |request| gated(request, &gate))
        .map_err(BoxError::from)
        .service(sender);
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

fn gated(request: Request<Body>, gate: &Gate) -> Request<GatedBody> {
    let passes_freely = request.method() == Method::GET || request.extensions().get::<Ungated>().is_some();
    let gate = (!passes_freely).then(|| gate.clone());
    request.map(|body| GatedBody { body, gate })
}

impl<S, B> Service<Request<Body>> for Counting<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let uri = request.uri();
        let verb = Verb::of(request.method(), uri.path(), uri.query().unwrap_or_default());
        let (metrics, answer) = (self.metrics.clone(), self.inner.call(request));
        Box::pin(async move {
            let answer = answer.await;
            metrics.requested(verb, answer.as_ref().ok().map(|answer| answer.status().as_u16()));
            answer
        })
    }
}

impl HttpBody for GatedBody {
    type Data = <Body as HttpBody>::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.gate.as_ref().is_some_and(|gate| !gate.is_open()) {
            return Poll::Ready(Some(Err(Shut.into())));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(BoxError::from)
    }

    // A write without a body says that it has one, so that it asks, too.
    fn is_end_stream(&self) -> bool {
        self.gate.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.gate.is_some() && self.body.is_end_stream() {
            return SizeHint::default();
        }
        self.body.size_hint()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first thing that is not as it should be")]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    /// All that arrives of a request, which is never answered.
    async fn arrives(method: Method, gate: Gate, body: &str, mark: Option<Ungated>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let client = client(Config::new(url), gate, &Metrics::default()).unwrap();
        let mut request = Request::builder().method(method).uri("/apis/example.com/v1/crontabs/a");
        if let (Some(mark), Some(extensions)) = (mark, request.extensions_mut()) {
            extensions.insert(mark);
        }
        let request = request.body(Body::from(body.as_bytes().to_vec())).unwrap();
        let server = tokio::task::spawn_blocking(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            let mut text = Vec::new();
            // It ends where the connection does, or where nothing more comes.
            drop(stream.read_to_end(&mut text));
            String::from_utf8(text).unwrap()
        });
        drop(tokio::time::timeout(Duration::from_secs(3), client.send(request)).await);
        server.await.unwrap()
    }

    #[tokio::test]
    async fn not_a_byte_of_a_write_leaves_through_a_shut_gate() {
        for method in [Method::PATCH, Method::POST, Method::PUT, Method::DELETE] {
            assert_eq!(arrives(method.clone(), Gate::shut(), "{}", None).await, "", "{method}");
            assert_eq!(arrives(method.clone(), Gate::shut(), "", None).await, "", "{method}");
        }
    }

    #[tokio::test]
    async fn what_may_pass_arrives_whole() {
        let arrived = arrives(Method::PATCH, Gate::open(), "{}", None).await;
        assert!(arrived.starts_with("PATCH ") && arrived.ends_with("\r\n\r\n{}"), "{arrived}");
        let arrived = arrives(Method::GET, Gate::shut(), "", None).await;
        assert!(arrived.starts_with("GET ") && arrived.ends_with("\r\n\r\n"), "{arrived}");
        let arrived = arrives(Method::PUT, Gate::shut(), "{}", Some(Ungated)).await;
        assert!(arrived.starts_with("PUT ") && arrived.ends_with("\r\n\r\n{}"), "{arrived}");
    }
}
