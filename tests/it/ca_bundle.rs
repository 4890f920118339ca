//! A CA bundle that is rotated all the time: each rotation is a generation of the CRD, and none of them is a reason to
//! start over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::ByteString;
use restow::api::Reason;
use serde_json::json;
use testbed::crd::{self, Conversion, Fixture};
use testbed::objects::Batch;
use testbed::webhook::{Identity, Mapping, Webhook};

use crate::scene::{Scene, counts};
use crate::trims::Trims;

/// How many visits may be repeated: each rotation replaces the server's handler, whose last requests it may drop.
const REPEATED_MAX: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ca_bundle_rotated_every_two_seconds_keeps_no_run_from_its_end() {
    const OBJECTS: usize = 300;
    let webhook = Webhook::start(Mapping::ApiVersionOnly).await.unwrap();
    let conversion = webhook.conversion();
    let scene = Scene::new("ca-rotation", |group| Fixture::widgets(group).converted_by(conversion)).await;
    scene.stored_old(&Batch::plain(OBJECTS)).await;
    let trims = Trims::watch(&scene);
    let _controller = scene.begin(json!({ "pace": { "writesPerSecond": 20 } })).await;
    let started = scene.until(Reason::Sweeping).await.start_time;
    let rotated = Arc::new(AtomicUsize::new(0));
    let rotation = {
        let (client, name, rotated) = (scene.client.clone(), scene.kind.crd_name(), Arc::clone(&rotated));
        let (url, own) = (webhook.url(), webhook.ca_bundle());
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(2)).await;
                let ca_bundle = with_another_ca(&own);
                let conversion = Conversion::Webhook { url: url.clone(), ca_bundle };
                crd::set_conversion(&client, &name, &conversion).await.expect("rotate the CA bundle");
                rotated.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let status = scene.until(Reason::Migrated).await;
    rotation.abort();
    let rotations = rotated.load(Ordering::Relaxed);
    assert!(rotations >= 4, "{rotations} rotations: the test shows nothing");
    assert_eq!(status.start_time, started, "the run started over");
    assert_eq!(status.progress.map(|p| (p.total, p.rewritten, p.refused)), Some((300, 300, 0)));
    let visits = scene.visits();
    assert!(visits <= OBJECTS + REPEATED_MAX, "{visits} visits: the sweep started over");
    trims.assert_one("v1", OBJECTS).await;
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

/// The bundle with a further CA in it, as in a rotation: PEM in base64.
fn with_another_ca(own: &str) -> String {
    let pem = |bundle: &str| serde_json::from_value::<ByteString>(json!(bundle)).expect("base64").0;
    let other = Identity::generate().expect("another CA").ca_bundle();
    let both = ByteString([pem(own), b"\n".to_vec(), pem(&other)].concat());
    serde_json::to_value(&both).expect("base64").as_str().expect("text").to_owned()
}
