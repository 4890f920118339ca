//! Counts the bytes that go up and down: a way through to the API server that reads nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// How much was read at once.
const BUFFER_BYTES: usize = 64 * 1024;

pub(crate) struct Counter {
    address: SocketAddr,
    bytes: Arc<[AtomicU64; 2]>,
    task: JoinHandle<()>,
}

impl Counter {
    /// One that leads to the server at `url`, `https://address:port`.
    pub(crate) async fn start(url: &str) -> Self {
        let server: SocketAddr = url.trim_start_matches("https://").parse().expect("an address");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let bytes = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let counted = Arc::clone(&bytes);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(upstream) = TcpStream::connect(server).await else { continue };
                drop((client.set_nodelay(true), upstream.set_nodelay(true)));
                let ((from, to), (back, there)) = (client.into_split(), upstream.into_split());
                tokio::spawn(pass(from, there, Arc::clone(&counted), 0));
                tokio::spawn(pass(back, to, Arc::clone(&counted), 1));
            }
        });
        Self { address, bytes, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Bytes up and down so far, as TLS has them.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        [self.bytes[0].load(Ordering::Relaxed), self.bytes[1].load(Ordering::Relaxed)]
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, counted: Arc<[AtomicU64; 2]>, way: usize) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        counted[way].fetch_add(read as u64, Ordering::Relaxed);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
