//! The controller's own word on its health, as the kubelet would ask for it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// Where a controller of a test serves its health.
pub(crate) struct Health {
    pub(crate) address: String,
}

impl Health {
    /// An address that was free a moment ago.
    pub(crate) fn free() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        Self { address: listener.local_addr().expect("an address").to_string() }
    }

    /// Whether the answer to `GET <path>` is 200.
    pub(crate) fn is_ok(&self, path: &str) -> bool {
        self.get(path, "*/*").is_some_and(|answer| answer.starts_with("HTTP/1.1 200 "))
    }

    /// All metrics, in the form that is asked for.
    pub(crate) fn metrics(&self, accept: &str) -> String {
        let answer = self.get("/metrics", accept).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        body.to_owned()
    }

    /// The whole answer, unless nobody listens.
    fn get(&self, path: &str, accept: &str) -> Option<String> {
        let ask = || {
            let mut stream = TcpStream::connect(&self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            let host = &self.address;
            // HTTP/1.0 has no chunks.
            write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: {accept}\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        };
        ask().ok().map(|answer| answer.replacen("HTTP/1.0", "HTTP/1.1", 1))
    }
}
