//! The proof in a real node: the shipped image, installed as shipped, in a cluster that runs pods.
//!
//! It needs root, and minutes, so it runs only if `RESTOW_NODE=1` says so. The program runs twice: outside it builds what is
//! needed, and looks that the machine is afterwards as it was; its copy inside an enclosure does the rest, in the order of
//! `inside`. A third copy is killed in the midst of it.
#![expect(clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::print_stdout, reason = "tests")]

mod chart;
mod cluster;
mod conversion;
mod images;
mod job;
mod manifests;
mod outside;
mod product;

use std::process::ExitCode;
use std::time::Instant;

use cluster::Cluster;
use conversion::CronTabs;
use images::Images;
use testbed::node;

/// Turns the test on.
const SWITCH: &str = "RESTOW_NODE";

fn main() -> ExitCode {
    let is_victim = std::env::args().nth(1).is_some_and(|arg| arg == outside::VICTIM);
    if let Some(directory) = node::inside() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let images = Images::in_directory(&directory);
        runtime.block_on(async {
            if is_victim {
                victim(&images).await;
            } else {
                Box::pin(inside(&images)).await;
            }
        });
        return ExitCode::SUCCESS;
    }
    if is_victim {
        return outside::be_victim();
    }
    if std::env::var(SWITCH).is_ok_and(|value| value == "1") {
        outside::run()
    } else {
        eprintln!("node: did NOT run. It needs root and minutes; {SWITCH}=1 turns it on");
        ExitCode::SUCCESS
    }
}

/// Has everything at work, and waits to be killed.
async fn victim(images: &Images) {
    let cluster = Cluster::start(images).await;
    cluster.run_a_pod().await;
    println!("{}", outside::AT_WORK);
    std::future::pending::<()>().await;
}

async fn inside(images: &Images) {
    let cluster = step("a node becomes ready", Cluster::start(images)).await;
    step("a pod runs", async {
        cluster.run_a_pod().await;
        cluster.delete_the_pod().await;
    })
    .await;
    let crontabs = step(
        "their conversion webhook runs, 2,000 CronTabs are stored in v1beta1",
        CronTabs::create(&cluster),
    );
    let crontabs = crontabs.await;
    manifests::prove(&cluster, &crontabs).await;
    chart::prove(&cluster, &crontabs).await;
    job::prove(&cluster, &crontabs).await;
}

/// Says what is tried, and how long it took.
async fn step<T>(name: &str, work: impl Future<Output = T>) -> T {
    eprintln!("node: {name} …");
    let begun = Instant::now();
    let done = work.await;
    eprintln!("node: {name}: yes, in {} s", begun.elapsed().as_secs());
    done
}
