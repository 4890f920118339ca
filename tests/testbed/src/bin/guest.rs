//! What runs in the pods of the test bench: `guest pause` holds a pod's namespaces, `guest webhook` converts CronTabs.
//!
//! One static program, so that its image needs nothing else.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use testbed::webhook::{Identity, Issued, Mapping, Webhook};
use tokio::signal::unix::{SignalKind, signal};

/// Where the Secret with the webhook's certificate is mounted.
const TLS: &str = "/tls";
/// Where the webhook listens.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8443);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    // As the first process of its namespace it gets no signal that it doesn't handle.
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let webhook = match std::env::args().nth(1).as_deref() {
        Some("pause") => None,
        Some("webhook") => Some(Webhook::start_as(identity()?, ADDRESS, Mapping::CronTab).await?),
        Some(_) | None => return Err("tell it what to be: pause or webhook".into()),
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    drop(webhook);
    Ok(ExitCode::SUCCESS)
}

fn identity() -> Result<Identity, Box<dyn std::error::Error>> {
    let read = |name: &str| std::fs::read_to_string(Path::new(TLS).join(name));
    let issued = Issued { ca: String::new(), certificate: read("tls.crt")?, key: read("tls.key")? };
    Ok(Identity::of(&issued)?)
}
