//! Field cases of paging: lists that outlive etcd's history, and lists that are too large to be read at once.

use std::sync::LazyLock;
use std::time::Duration;

use restow::api::Reason;
use serde_json::{Value, json};
use testbed::control_plane::{ControlPlane, Options};
use testbed::crd::Fixture;
use testbed::objects::Batch;
use testbed::restow::Restow;

use crate::scene::{Scene, counts};

/// The most memory that the controller may have used, whatever the number and the size of the objects.
const MEMORY_MAX_KIB: u64 = 64 * 1024;

#[tokio::test]
async fn b51_a_sweep_longer_than_etcds_history_ends_and_writes_each_object_once() {
    // A control plane of its own: to lose its history would disturb the other tests.
    let plane = Box::leak(Box::new(ControlPlane::start(Options::default()).await.expect("start")));
    let scene = Scene::on(plane, "b51-compaction", Fixture::widgets).await;
    scene.stored_old(&Batch::plain(600)).await;
    let etcd = plane.etcd();
    let compaction = tokio::spawn(async move {
        loop {
            etcd.compact_now().await;
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    });
    let _controller = scene.begin(json!({ "pace": { "writesPerSecond": 15 }, "pageSize": 20 })).await;
    let status = scene.until(Reason::Migrated).await;
    compaction.abort();
    assert_eq!(scene.stored().await, counts([("v1", 600)]));
    let progress = status.progress.expect("progress");
    assert_eq!((progress.visited, progress.rewritten, progress.unchanged), (600, 600, 0));
    // Each was created and rewritten, and that is all.
    assert!(scene.values().await.iter().all(|stored| stored.writes == 2));
    let lists = scene.audit.entries(&scene.requests().verb("list"));
    let expired = lists.iter().filter(|list| list.code() == 410).count();
    assert!(expired > 0, "no token expired: the test shows nothing");
    // 30 pages in the sweep and 30 in the confirm: it went on where the token had expired, and not from the start.
    assert!(lists.len() - expired <= 62, "{} lists, {expired} of them expired", lists.len());
}

#[tokio::test]
async fn b53_sixty_megabytes_of_objects_pass_through_the_controller_as_names_alone() {
    let scene = Scene::widgets("b53-large-objects").await;
    scene.stored_old(&Batch::of(600, large)).await;
    let controller = scene.controller(&["--writes-per-second", "0"]).await;
    scene.migrate(json!({})).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 600)]));
    let memory = memory_max_kib(&controller);
    assert!(memory < MEMORY_MAX_KIB, "the controller used {memory} KiB");
    let requests = scene.audit.entries(&scene.requests());
    let lists: Vec<_> = requests.iter().filter(|request| request.verb == "list").collect();
    // Two pages in the sweep, two in the confirm.
    assert!(lists.len() >= 4, "{lists:?}");
    for list in lists {
        assert!(list.uri.contains("limit=500"), "{}", list.uri);
        assert!(!list.uri.contains("resourceVersion="), "{}", list.uri);
    }
    assert!(requests.iter().all(|request| request.verb != "watch"));
}

/// An object of 100 KB.
fn large(number: usize) -> Value {
    static TEXT: LazyLock<String> = LazyLock::new(|| "lorem ipsum ".repeat(8500));
    json!({ "metadata": {}, "spec": { "size": number, "raw": { "text": *TEXT } } })
}

/// The most memory that a process had at any moment, by the kernel.
fn memory_max_kib(process: &Restow) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of its peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
