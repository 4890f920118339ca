//! SIGTERM in the middle of a run: the process ends at once and well, and the next one goes on where it was.

use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use restow::api::Reason;
use serde_json::json;
use testbed::etcd::UNREADABLE;
use testbed::objects;
use testbed::process::{Exit, Signal};

use crate::scene::{Scene, counts, eventually, reason_of};

const OBJECTS: usize = 80;
const PAGE: usize = 10;

#[tokio::test]
async fn a_controller_that_is_told_to_stop_ends_well_and_the_next_one_goes_on() {
    let scene = Scene::old_widgets("drain", OBJECTS).await;
    let controller = scene.controller(&[]).await;
    scene.migrate(json!({ "pageSize": PAGE, "pace": { "writesPerSecond": 5 } })).await;
    let past_two_pages = |status: &restow::api::StorageMigrationStatus| {
        status.checkpoint.as_ref().is_some_and(|place| place.rewritten >= 2 * PAGE as u64)
    };
    let written = scene.until_of(scene.migration(), "a checkpoint", past_two_pages).await;
    controller.signal(Signal::Term);
    assert_eq!(controller.wait_exit(Duration::from_secs(20)).await.unwrap(), Exit::Code(0));

    // It stopped in the middle, and nothing is half done.
    let stored = scene.stored().await;
    assert!(stored.contains_key("v1alpha1") && !stored.contains_key(UNREADABLE), "{stored:?}");
    assert_eq!(stored.get("v1"), Some(&scene.visits()));
    for version in ["v1alpha1", "v1"] {
        let readable = objects::snapshot(&scene.client, &scene.kind, version).await.unwrap();
        assert_eq!(readable.len(), OBJECTS);
    }
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);

    let resumed = scene.audit.from_now();
    scene.patch_spec(scene.migration(), json!({ "pace": null })).await;
    let _next = scene.controller(&[]).await;
    let visited = Cell::new(written.checkpoint.expect("a checkpoint").rewritten);
    let never_back = |status: &restow::api::StorageMigrationStatus| {
        let now = status.progress.as_ref().map_or(0, |progress| progress.visited);
        assert!(now >= visited.get(), "progress went back to {now}");
        reason_of(status) == Some(Reason::Migrated)
    };
    scene.until_of(scene.migration(), "Migrated", never_back).await;
    let visits = resumed.entries(&scene.requests().verb("patch"));
    let first: Vec<_> =
        visits.iter().take(PAGE).filter_map(|entry| Some(entry.object.as_ref()?.name.clone())).collect();
    assert!(first.iter().all(|name| *name >= format!("w{:03}", 2 * PAGE)), "it started over: {first:?}");
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test]
async fn an_idle_controller_tells_its_health_and_ends_well() {
    let scene = Scene::widgets("drain-idle").await;
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let address = free.to_string();
    let controller = scene.controller(&["--admin-address", &address]).await;
    for path in ["/livez", "/readyz"] {
        let is_ok = async || get(&address, path).filter(|answer| answer.starts_with("HTTP/1.1 200 "));
        let answer = eventually(path, is_ok).await;
        assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    }
    let absent = get(&address, "/nothing").unwrap();
    assert!(absent.starts_with("HTTP/1.1 404 "), "{absent}");
    controller.signal(Signal::Term);
    assert_eq!(controller.wait_exit(Duration::from_secs(20)).await.unwrap(), Exit::Code(0));
}

/// The whole answer to a GET, unless nobody listens.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
