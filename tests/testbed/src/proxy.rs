//! A reverse proxy between the product and the API server: it passes requests on, remembers them all, and does to some
//! of them what a bad day would. Which ones, and what, is said by [`Rule`].
//!
//! It speaks plain HTTP on loopback and shows the API server the caller's own token, so whoever comes through it has the
//! rights that he would have without it.

mod rule;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use jiff::Timestamp;
use kube::{Client, Config};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::control_plane::ControlPlane;

pub use rule::{Fault, Gate, Rule};

/// The largest body that is held in memory to be passed on.
const BODY_MAX: usize = 16 << 20;

/// The proxy. It and all its connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// A request that came through.
#[derive(Clone, Debug)]
pub struct Passed {
    /// When it came.
    pub at: Timestamp,
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub uri: String,
    /// Who sent it, by its own word.
    pub user_agent: String,
    /// The code of the answer; `None` if it was cut off or has none yet.
    pub code: Option<u16>,
}

/// By which a rule is taken away again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleId(u64);

/// The proxy could not be started.
#[derive(Debug, thiserror::Error)]
#[error("start the proxy")]
pub struct ProxyError(#[source] Box<dyn std::error::Error + Send + Sync>);

#[derive(Debug)]
struct Shared {
    books: Mutex<Books>,
    /// How many requests are held.
    held: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Books {
    rules: Vec<(RuleId, Rule)>,
    /// How many rules there were so far.
    added: u64,
    passed: Vec<Passed>,
}

/// The connection is to be closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("cut off")]
struct CutOff;

impl Proxy {
    /// Starts one in front of a control plane.
    ///
    /// # Errors
    /// If no port can be had, or no client of the API server be made.
    pub async fn start(plane: &ControlPlane) -> Result<Self, ProxyError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(|e| ProxyError(e.into()))?;
        let address = listener.local_addr().map_err(|e| ProxyError(e.into()))?;
        let mut config: Config = plane.admin_config();
        config.auth_info = kube::config::AuthInfo::default();
        let upstream = Client::try_from(config).map_err(|e| ProxyError(e.into()))?;
        let shared = Arc::new(Shared { books: Mutex::default(), held: watch::Sender::new(0) });
        let task = tokio::spawn(accept(listener, upstream, Arc::clone(&shared)));
        Ok(Self { address, shared, task })
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a rule. Of several that fit a request the one added first is applied.
    pub fn add(&self, rule: Rule) {
        let _kept = self.add_for_a_while(rule);
    }

    /// The same, for a rule that is to be taken away while others stay.
    #[must_use]
    pub fn add_for_a_while(&self, rule: Rule) -> RuleId {
        let mut books = self.shared.books();
        books.added += 1;
        let id = RuleId(books.added);
        books.rules.push((id, rule));
        id
    }

    /// Takes one rule away, if it is still there.
    pub fn remove(&self, id: RuleId) {
        self.shared.books().rules.retain(|(own, _)| *own != id);
    }

    /// Takes all rules away: from now on everything passes.
    pub fn heal(&self) {
        self.shared.books().rules.clear();
    }

    /// All requests so far.
    #[must_use]
    pub fn passed(&self) -> Vec<Passed> {
        self.shared.books().passed.clone()
    }

    /// How many requests so far had this method and have this text in their URI.
    #[must_use]
    pub fn count(&self, method: &str, part: &str) -> usize {
        self.shared.books().passed.iter().filter(|p| p.method == method && p.uri.contains(part)).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request, and says which fault it is to meet. Its place in the books is for its answer.
    fn enter(&self, request: &Request<Incoming>) -> (usize, Option<Fault>) {
        let header = request.headers().get(http::header::USER_AGENT);
        let uri = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        let passed = Passed {
            at: Timestamp::now(),
            method: request.method().to_string(),
            uri,
            user_agent: header.and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned(),
            code: None,
        };
        let mut books = self.books();
        let fault = books.rules.iter_mut().find_map(|(_, rule)| rule.apply(&passed.method, &passed.uri));
        books.passed.push(passed);
        (books.passed.len() - 1, fault)
    }

    /// Keeps whoever sent a request waiting for as long as he likes.
    async fn hold<T>(&self) -> T {
        self.held.send_modify(|held| *held += 1);
        std::future::pending().await
    }

    fn answered(&self, place: usize, response: &Response<Body>) {
        self.books().passed[place].code = Some(response.status().as_u16());
    }
}

/// Each connection has a task, in a set that is aborted as a whole when this one is.
async fn accept(listener: TcpListener, upstream: Client, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve(stream, upstream.clone(), Arc::clone(&shared)));
            }
            Err(error) => tracing::warn!(%error, "accept a connection to the proxy"),
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, upstream: Client, shared: Arc<Shared>) {
    let service = service_fn(|request| handle(request, upstream.clone(), Arc::clone(&shared)));
    // What ends here badly is either meant to (a fault), or seen by the caller as well.
    drop(Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await);
}

async fn handle(
    request: Request<Incoming>,
    upstream: Client,
    shared: Arc<Shared>,
) -> Result<Response<Body>, CutOff> {
    let (place, fault) = shared.enter(&request);
    let response = match fault {
        None => forward(request, &upstream).await?,
        Some(Fault::Answer { code, status, retry_after_seconds }) => {
            rule::answer(code, &status, retry_after_seconds)
        }
        Some(Fault::Delay(delay)) => {
            tokio::time::sleep(delay).await;
            forward(request, &upstream).await?
        }
        Some(Fault::CutBefore) => return Err(CutOff),
        Some(Fault::CutAfter) => {
            let answered = forward(request, &upstream).await?;
            drop(answered.into_body().collect().await);
            return Err(CutOff);
        }
        Some(Fault::Gate(gate)) => {
            gate.pass().await;
            forward(request, &upstream).await?
        }
        Some(Fault::HoldBefore) => return shared.hold().await,
        Some(Fault::HoldAfter) => {
            // Its head is enough: the API server has acted by then, and a watch has no end.
            let _answered = forward(request, &upstream).await?;
            return shared.hold().await;
        }
        Some(Fault::EditRequest(edit)) => {
            let (head, body) = request.into_parts();
            send(head, edit(whole(body).await?), &upstream).await?
        }
        Some(Fault::Edit(edit)) => {
            let (head, body) = forward(request, &upstream).await?.into_parts();
            let body = axum::body::to_bytes(body, BODY_MAX).await.map_err(|_| CutOff)?;
            let mut head = head;
            head.headers.remove(CONTENT_LENGTH);
            Response::from_parts(head, Body::from(edit(body.to_vec())))
        }
    };
    shared.answered(place, &response);
    Ok(response)
}

async fn forward(request: Request<Incoming>, upstream: &Client) -> Result<Response<Body>, CutOff> {
    let (head, body) = request.into_parts();
    send(head, whole(body).await?, upstream).await
}

async fn whole(body: Incoming) -> Result<Vec<u8>, CutOff> {
    Ok(body.collect().await.map_err(|_| CutOff)?.to_bytes().to_vec())
}

async fn send(head: Parts, body: Vec<u8>, upstream: &Client) -> Result<Response<Body>, CutOff> {
    let mut passed_on = Request::new(kube::client::Body::from(body));
    *passed_on.method_mut() = head.method;
    *passed_on.uri_mut() =
        head.uri.path_and_query().and_then(|p| p.as_str().parse().ok()).unwrap_or_default();
    for (name, value) in &head.headers {
        if ![HOST, CONNECTION, CONTENT_LENGTH].contains(name) {
            passed_on.headers_mut().append(name, value.clone());
        }
    }
    let response = upstream.send(passed_on).await.map_err(|_| CutOff)?;
    Ok(response.map(Body::new))
}

/// How long a test waits at most for a request to come through.
const ARRIVAL: Duration = Duration::from_mins(1);

impl Proxy {
    /// How many requests are held, or were.
    #[must_use]
    pub fn held(&self) -> usize {
        *self.shared.held.borrow()
    }

    /// Waits until so many are.
    pub async fn until_held(&self, wanted: usize) {
        // It can't be closed: the sender is next to it.
        drop(self.shared.held.subscribe().wait_for(|held| *held >= wanted).await);
    }

    /// Waits until at least `wanted` requests with this method and this text in their URI have come.
    ///
    /// # Panics
    /// If they don't come within a minute.
    pub async fn until_count(&self, method: &str, part: &str, wanted: usize) {
        let deadline = tokio::time::Instant::now() + ARRIVAL;
        while self.count(method, part) < wanted {
            assert!(tokio::time::Instant::now() < deadline, "{wanted} requests {method} {part} never came");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
