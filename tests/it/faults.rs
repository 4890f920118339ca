//! A bad day between restow and the API server: what costs time only, what is one object's own, what is never lost.

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use restow::api::Reason;
use serde_json::json;
use testbed::proxy::{Fault, Proxy, Rule};

use crate::scene::{Scene, counts, eventually};

fn broken() -> Fault {
    Fault::status(500, "InternalError", "Internal error occurred: failed calling webhook")
}

#[tokio::test]
async fn connections_that_break_cost_nothing_but_time() {
    let scene = Scene::old_widgets("faults-resets", 50).await;
    let proxy = Proxy::start(scene.plane).await.unwrap();
    proxy.add(Rule::new(Fault::CutBefore).method("PATCH").uri("/widgets/").after(5).times(4));
    proxy.add(Rule::new(Fault::CutAfter).method("PATCH").uri("/widgets/").times(4));
    proxy.add(Rule::new(Fault::CutAfter).method("PATCH").uri("customresourcedefinitions").times(1));
    let _controller = scene.begin_through(&proxy, json!({})).await;
    let status = scene.until_all_migrated(50).await;
    assert_eq!(status.progress.unwrap().refused, 0);
}

#[tokio::test]
async fn a_server_that_asks_for_patience_is_left_alone() {
    let scene = Scene::old_widgets("faults-patience", 60).await;
    let proxy = Proxy::start(scene.plane).await.unwrap();
    let busy = Fault::status(429, "TooManyRequests", "please try again later").retry_after(4);
    proxy.add(Rule::new(busy).method("PATCH").uri("/widgets/").after(20).times(1));
    let _controller = scene.begin_through(&proxy, json!({})).await;
    let status = scene.until_of(scene.migration(), "BackingOff", |s| {
        crate::scene::reason_of(s) == Some(Reason::BackingOff)
    });
    let message = status.await.conditions[0].message.clone();
    assert!(message.contains("please try again later"), "{message}");
    let status = scene.until(Reason::Migrated).await;
    assert_eq!(status.progress.unwrap().refused, 0);
    let visits: Vec<_> =
        proxy.passed().into_iter().filter(|p| p.uri.contains("/widgets/") && p.method == "PATCH").collect();
    let asked = visits.iter().position(|p| p.code == Some(429)).unwrap();
    let longest = visits[asked..].windows(2).map(|w| w[1].at.duration_since(w[0].at)).max().unwrap();
    assert!(longest.as_secs_f64() > 3.0, "the longest pause was {longest:?}");
    assert_eq!(scene.stored().await, counts([("v1", 60)]));
}

#[tokio::test]
async fn an_object_that_always_fails_is_named_and_stops_no_other() {
    // In the middle, and as the last one: then no neighbour is left to tell by.
    for (name, bad) in [("faults-middle", "w007"), ("faults-last", "w029")] {
        let scene = Scene::old_widgets(name, 30).await;
        let proxy = Proxy::start(scene.plane).await.unwrap();
        proxy.add(Rule::new(broken()).method("PATCH").uri(format!("/{bad}?")));
        let _controller = scene.begin_through(&proxy, json!({})).await;
        let status = scene.until(Reason::ObjectsRefused).await;
        assert_eq!(scene.stored().await, counts([("v1", 29), ("v1alpha1", 1)]));
        assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
        assert_eq!(status.progress.unwrap().refused, 1);
        let refusal = &status.refusals[0];
        assert_eq!((refusal.name.as_str(), refusal.code), (bad, 500));
        assert!(refusal.message.contains("failed calling webhook"), "{refusal:?}");
        proxy.heal();
        // A change of the spec asks for another try at once.
        scene.patch_spec(scene.migration(), json!({ "pageSize": 10 })).await;
        scene.until_all_migrated(30).await;
    }
}

#[tokio::test]
async fn a_first_page_on_which_every_object_fails_is_gone_through_in_reasonable_time() {
    let scene = Scene::old_widgets("faults-page", 60).await;
    let proxy = Proxy::start(scene.plane).await.unwrap();
    for bad in ["/w00", "/w01", "/w02"] {
        proxy.add(Rule::new(broken()).method("PATCH").uri(bad));
    }
    let _controller = scene.begin_through(&proxy, json!({ "pageSize": 20 })).await;
    let status = scene.until(Reason::ObjectsRefused).await;
    assert_eq!(status.progress.map(|p| (p.rewritten, p.refused)), Some((30, 30)));
    assert_eq!(scene.stored().await, counts([("v1", 30), ("v1alpha1", 30)]));
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
}

#[tokio::test]
async fn a_server_that_fails_everything_is_no_objects_fault() {
    let scene = Scene::old_widgets("faults-outage", 30).await;
    let proxy = Proxy::start(scene.plane).await.unwrap();
    proxy.add(Rule::new(broken()).method("PATCH").uri("/widgets/").after(10).times(6));
    let _controller = scene.begin_through(&proxy, json!({})).await;
    let status = scene.until(Reason::Migrated).await;
    assert_eq!(status.progress.unwrap().refused, 0);
    assert_eq!(scene.stored().await, counts([("v1", 30)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test]
async fn a_key_that_a_policy_refuses_stops_no_run() {
    let scene = Scene::old_widgets("faults-key", 5).await;
    let proxy = Proxy::start(scene.plane).await.unwrap();
    proxy.add(Rule::new(Fault::status(404, "NotFound", "there is none yet")).method("GET").uri("/secrets/"));
    let refused = Fault::status(422, "Invalid", "ValidatingAdmissionPolicy 'no-secrets' denied request");
    proxy.add(Rule::new(refused).method("POST").uri("/secrets"));
    let _controller = scene.begin_through(&proxy, json!({})).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 5)]));
}

#[tokio::test]
async fn where_no_status_can_be_written_the_events_still_tell() {
    let scene = Scene::old_widgets("faults-status", 5).await;
    let proxy = Proxy::start(scene.plane).await.unwrap();
    let denied = Fault::status(403, "Forbidden", "cannot patch storagemigrations/status");
    proxy.add(Rule::new(denied).method("PATCH").uri("/storagemigrations/").uri("/status"));
    let _controller = scene.begin_through(&proxy, json!({})).await;
    let events: Api<Event> = Api::all(scene.client.clone());
    eventually("an event of the end", async || {
        let events = events.list(&ListParams::default()).await.ok()?.items;
        let tells = |e: &Event| {
            e.reason.as_deref() == Some("Migrated")
                && e.regarding.as_ref().is_some_and(|r| r.name.as_deref() == Some(scene.migration()))
        };
        events.iter().any(tells).then_some(())
    })
    .await;
    assert_eq!(scene.stored().await, counts([("v1", 5)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
    assert_eq!(scene.status_of(scene.migration()).await.observed_generation, Some(-1));
}
