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
        let ask = || {
            let mut stream = TcpStream::connect(&self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            let host = &self.address;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer.starts_with("HTTP/1.1 200 "))
        };
        ask().unwrap_or(false)
    }
}
