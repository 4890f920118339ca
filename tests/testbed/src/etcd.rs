//! The oracle: what etcd really holds, read through its JSON gateway. An HTTP 200 of the API server proves nothing.
//!
//! Also the hand that plants faults there: stale values put back, keys removed, history compacted. Every function
//! panics when etcd does not answer, since a test without its oracle can say nothing.

mod space;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};

/// Keys read in one request.
const PAGE_SIZE: usize = 500;
/// How long one request may take.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// What a value that has no `apiVersion` to be read is counted under.
pub const UNREADABLE: &str = "unreadable";

/// A reader (and spoiler) of one etcd. Cheap to copy; every request has a connection of its own.
#[derive(Clone, Copy, Debug)]
pub struct Etcd {
    address: SocketAddr,
}

/// One stored custom resource.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its whole key.
    pub key: String,
    /// The bytes under it.
    pub bytes: Vec<u8>,
    /// The revision of its last write.
    pub revision: i64,
    /// How often it was written since it was created, that included.
    pub writes: i64,
}

#[derive(Deserialize)]
struct Range {
    header: Header,
    #[serde(default)]
    kvs: Vec<KeyValue>,
    #[serde(default)]
    more: bool,
}

#[derive(Deserialize)]
struct Header {
    revision: String,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    #[serde(default)]
    value: String,
    mod_revision: String,
    version: String,
}

impl Stored {
    /// The object, unless its bytes are no JSON.
    #[must_use]
    pub fn object(&self) -> Option<Value> {
        serde_json::from_slice(&self.bytes).ok()
    }

    /// The version it is encoded in, as `group/version`.
    #[must_use]
    pub fn api_version(&self) -> Option<String> {
        Some(self.object()?.get("apiVersion")?.as_str()?.to_owned())
    }
}

impl Etcd {
    /// A reader of the etcd that serves clients at `address`.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// The key of a custom resource; no namespace for a cluster-scoped one.
    #[must_use]
    pub fn key(group: &str, plural: &str, namespace: Option<&str>, name: &str) -> String {
        match namespace {
            Some(namespace) => format!("/registry/{group}/{plural}/{namespace}/{name}"),
            None => format!("/registry/{group}/{plural}/{name}"),
        }
    }

    /// How many objects of a resource are stored in each version. [`UNREADABLE`] stands for those in none.
    pub async fn stored_versions(&self, group: &str, plural: &str) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for stored in self.values(group, plural).await {
            *counts.entry(stored.api_version().unwrap_or_else(|| UNREADABLE.to_owned())).or_default() += 1;
        }
        counts
    }

    /// One object as it is stored, if there is one and it is JSON.
    pub async fn value(
        &self,
        group: &str,
        plural: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<Value> {
        self.get(&Self::key(group, plural, namespace, name)).await?.object()
    }

    /// All objects of a resource as of one moment, in the order of their keys.
    pub async fn values(&self, group: &str, plural: &str) -> Vec<Stored> {
        self.below(&format!("/registry/{group}/{plural}"), None, false).await
    }

    /// The same as of a revision, which must not have been compacted away.
    pub async fn values_at(&self, group: &str, plural: &str, revision: i64) -> Vec<Stored> {
        self.below(&format!("/registry/{group}/{plural}"), Some(revision.to_string()), false).await
    }

    /// All keys of the cluster as of one moment, whatever is under them.
    pub async fn keys(&self) -> BTreeSet<String> {
        self.below("/registry", None, true).await.into_iter().map(|stored| stored.key).collect()
    }

    /// What is below a path, with or without the bytes.
    async fn below(&self, path: &str, mut revision: Option<String>, keys_only: bool) -> Vec<Stored> {
        let mut from = format!("{path}/");
        // The end of a prefix is the prefix with its last byte one higher; the one after '/' is '0'.
        let end = BASE64.encode(format!("{path}0"));
        let mut found: Vec<Stored> = Vec::new();
        loop {
            let range = self.range(json!({
                "key": BASE64.encode(&from), "range_end": end, "limit": PAGE_SIZE.to_string(),
                "revision": revision, "keys_only": keys_only,
            }));
            let Range { header, kvs, more } = range.await;
            revision.get_or_insert(header.revision);
            found.extend(kvs.into_iter().map(KeyValue::decode));
            match found.last() {
                Some(last) if more => from = format!("{}\0", last.key),
                Some(_) | None => return found,
            }
        }
    }

    /// What is stored under a key.
    pub async fn get(&self, key: &str) -> Option<Stored> {
        let range = self.range(json!({ "key": BASE64.encode(key) })).await;
        range.kvs.into_iter().next().map(KeyValue::decode)
    }

    /// What was stored under a key at a revision, and since, oldest first. Nothing of that may have been compacted away.
    pub async fn history(&self, key: &str, since: i64) -> Vec<Stored> {
        let mut found: Vec<Stored> = Vec::new();
        while found.last().is_none_or(|oldest| oldest.revision > since) {
            let revision = found.last().map(|newer| (newer.revision - 1).to_string());
            let range = self.range(json!({ "key": BASE64.encode(key), "revision": revision })).await;
            let Some(older) = range.kvs.into_iter().next() else { break };
            found.push(older.decode());
        }
        found.reverse();
        found
    }

    /// The present revision of all.
    pub async fn revision(&self) -> i64 {
        let header = self.range(json!({ "key": BASE64.encode("/") })).await.header;
        header.revision.parse().expect("a revision is a number")
    }

    /// Stores bytes under a key, as a lagging API server would.
    pub async fn put(&self, key: &str, value: impl AsRef<[u8]>) {
        self.ask("kv/put", &json!({ "key": BASE64.encode(key), "value": BASE64.encode(value) })).await;
    }

    /// Stores bytes under several keys at once, 128 at most.
    pub async fn put_all<K: AsRef<str>, V: AsRef<[u8]>>(&self, values: &[(K, V)]) {
        let put = |(key, value): &(K, V)| json!({ "requestPut": { "key": BASE64.encode(key.as_ref()), "value": BASE64.encode(value) } });
        let answer =
            self.ask("kv/txn", &json!({ "success": values.iter().map(put).collect::<Vec<_>>() })).await;
        assert_eq!(answer["succeeded"], true, "{answer}");
    }

    /// Removes a key.
    pub async fn delete(&self, key: &str) {
        self.ask("kv/deleterange", &json!({ "key": BASE64.encode(key) })).await;
    }

    /// Forgets all history, as an API server does every five minutes: tokens of older lists get 410 from then on. API
    /// servers answer them from memory until they notice, which takes up to 15 s.
    pub async fn compact_now(&self) {
        self.compact_before(self.revision().await).await;
    }

    /// The same, but what was at a revision, and since, can still be read.
    pub async fn compact_before(&self, revision: i64) {
        let revision = revision.to_string();
        // The key by which one API server tells the others that it has compacted.
        self.put("compact_rev_key", &revision).await;
        self.ask("kv/compaction", &json!({ "revision": revision, "physical": true })).await;
    }

    async fn range(&self, request: Value) -> Range {
        serde_json::from_value(self.ask("kv/range", &request).await)
            .expect("etcd answers a range with its fields")
    }

    async fn ask(&self, method: &str, body: &Value) -> Value {
        tokio::time::timeout(REQUEST_DEADLINE, self.request(method, body))
            .await
            .expect("etcd answers in time")
    }

    async fn request(&self, method: &str, body: &Value) -> Value {
        let (status, answer) = self.exchange(method, body).await;
        assert!(status.is_success(), "etcd refused {method}: {status} {answer}");
        serde_json::from_str(&answer).expect("etcd answers in JSON")
    }

    async fn exchange(&self, method: &str, body: &Value) -> (StatusCode, String) {
        let stream = tokio::net::TcpStream::connect(self.address).await.expect("etcd takes connections");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("etcd speaks HTTP");
        let driver = tokio::spawn(connection);
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("/v3/{method}"))
            .header(header::HOST, self.address.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .expect("a well-formed request");
        let answer = sender.send_request(request).await.expect("etcd answers");
        let status = answer.status();
        let bytes = answer.into_body().collect().await.expect("etcd answers to the end").to_bytes();
        driver.abort();
        (status, String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl KeyValue {
    fn decode(self) -> Stored {
        let bytes = |text: &str| BASE64.decode(text).expect("etcd encodes keys and values in base64");
        Stored {
            key: String::from_utf8_lossy(&bytes(&self.key)).into_owned(),
            bytes: bytes(&self.value),
            revision: self.mod_revision.parse().expect("a revision is a number"),
            writes: self.version.parse().expect("a count of writes is a number"),
        }
    }
}
