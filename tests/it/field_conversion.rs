//! Field cases of the conversion webhook: absent, slow to come up, wrong for one object, replaced during the run.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::{Api, Patch, PatchParams, PostParams};
use restow::api::{Reason, StorageMigrationStatus};
use serde_json::{Value, json};
use testbed::crd::{self, Conversion, Fixture};
use testbed::objects::{self, Batch, content};
use testbed::webhook::admission::{AdmissionWebhook, Denial};
use testbed::webhook::{Fault, Mapping, Webhook};

use crate::health::Health;
use crate::scene::{Scene, counts, eventually, reason_of};

/// Widgets that `webhook` converts.
async fn widgets(name: &str, webhook: &Webhook) -> Scene {
    Scene::new(name, |group| Fixture::widgets(group).converted_by(webhook.conversion())).await
}

fn is_migrated(status: &StorageMigrationStatus) -> bool {
    reason_of(status) == Some(Reason::Migrated)
}

fn is_backing_off(status: &StorageMigrationStatus) -> bool {
    reason_of(status) == Some(Reason::BackingOff)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b29_a_webhook_that_is_down_is_waited_for_and_holds_up_no_other_crd() {
    let mut webhook = Webhook::start(Mapping::ApiVersionOnly).await.unwrap();
    let scene = widgets("b29-down", &webhook).await;
    let other = crd::apply(&scene.client, &Fixture::gadgets(&scene.kind.group)).await.unwrap();
    scene.grant(&other).await;
    objects::create(&scene.client, &other, "v1alpha1", &Batch::plain(10)).await.unwrap();
    crd::move_storage(&scene.client, &other.crd_name(), "v1").await.unwrap();
    objects::create(&scene.client, &scene.kind, "v1alpha1", &Batch::plain(50)).await.unwrap();
    webhook.stop();
    // The server has to read all objects anew after this, and can't.
    scene.move_storage("v1").await;
    let _controller = scene.begin(json!({})).await;
    let status = scene.until_of(scene.migration(), "BackingOff", is_backing_off).await;
    let message = &status.conditions[0].message;
    assert!(status.refusals.is_empty() && message.contains("trying again in"), "{status:#?}");
    scene
        .migrate_as("b29-other", json!({ "resource": { "group": other.group, "resource": "gadgets" } }))
        .await;
    scene.until_of("b29-other", "Migrated", is_migrated).await;
    let says_why = |status: &StorageMigrationStatus| {
        is_backing_off(status) && status.conditions[0].message.contains("conversion webhook")
    };
    scene.until_of(scene.migration(), "the server's own words", says_why).await;
    assert_eq!(scene.stored().await, counts([("v1alpha1", 50)]));
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    let asked = scene.audit.count(&scene.requests());
    assert!(asked <= 15, "{asked} requests in an outage of seconds");

    webhook.restart().await.unwrap();
    let status = scene.until(Reason::Migrated).await;
    assert_eq!(status.progress.map(|p| (p.rewritten, p.refused)), Some((50, 0)));
    assert_eq!(scene.stored().await, counts([("v1", 50)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b29_a_webhook_that_fails_or_dawdles_costs_time_only() {
    let webhook = Webhook::start(Mapping::ApiVersionOnly).await.unwrap();
    let scene = widgets("b29-failing", &webhook).await;
    scene.stored_old(&Batch::plain(30)).await;
    webhook.misbehave(Fault::Status(500));
    let _controller = scene.begin(json!({})).await;
    scene.until_of(scene.migration(), "BackingOff", is_backing_off).await;
    webhook.misbehave(Fault::Slow(Duration::from_millis(50)));
    let status = scene.until(Reason::Migrated).await;
    assert_eq!(status.progress.map(|p| (p.rewritten + p.unchanged, p.refused)), Some((30, 0)));
    assert_eq!(scene.stored().await, counts([("v1", 30)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b29_a_webhook_that_is_down_is_held_against_no_object_while_others_need_no_conversion() {
    let mut webhook = Webhook::start(Mapping::ApiVersionOnly).await.unwrap();
    let scene = widgets("b29-half", &webhook).await;
    objects::create(&scene.client, &scene.kind, "v1alpha1", &Batch::plain(3)).await.unwrap();
    scene.move_storage("v1").await;
    let current = Batch::plain(20).across(&["b29-half"]);
    objects::create(&scene.client, &scene.kind, "v1", &current).await.unwrap();
    // For a moment after the flag has moved the server may still store some in the old version.
    let before = scene.stored().await;
    let [new, old] = ["v1", "v1alpha1"].map(|version| before.get(version).map_or(0, |count| *count as u64));
    assert!(new > 0 && old >= 3, "{before:?}");
    // With the lists still in its cache the server needs the webhook for the visits alone.
    webhook.stop();
    let _controller = scene.begin(json!({})).await;
    let is_waiting = |status: &StorageMigrationStatus| {
        assert!(status.refusals.is_empty(), "{status:#?}");
        is_backing_off(status) && status.conditions[0].message.contains("conversion webhook")
    };
    let is_either = |status: &StorageMigrationStatus| is_waiting(status) || is_migrated(status);
    let status = scene.until_of(scene.migration(), "the webhook's silence", is_either).await;
    if is_migrated(&status) {
        // Older servers write what they have in their cache, where it is converted already.
        assert!(scene.kubernetes_minor().await < 37, "{status:#?}");
        assert_eq!(scene.stored().await, counts([("v1", 23)]));
        return;
    }
    let probes = scene.requests().verb("get");
    eventually("several probes", async || {
        let status = scene.migrations().get(scene.migration()).await.ok()?.status?;
        assert!(status.refusals.is_empty(), "{status:#?}");
        (scene.audit.count(&probes) >= 3).then_some(())
    })
    .await;
    assert_eq!(scene.stored().await, before);
    webhook.restart().await.unwrap();
    let status = scene.until(Reason::Migrated).await;
    assert_eq!(status.progress.map(|p| (p.rewritten, p.unchanged, p.refused)), Some((old, new, 0)));
    assert_eq!(scene.stored().await, counts([("v1", 23)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b31_one_object_that_crashes_the_webhook_is_named_and_keeps_no_other_waiting() {
    let webhook = Webhook::start(Mapping::ApiVersionOnly).await.unwrap();
    let scene = widgets("b31-crash", &webhook).await;
    scene.stored_old(&Batch::plain(12)).await;
    webhook.misbehave(Fault::CrashOn("w003".to_owned()));
    let _controller = scene.begin(json!({})).await;
    let status = scene.until(Reason::ObjectsRefused).await;
    let named: Vec<_> = status.refusals.iter().map(|refusal| refusal.name.as_str()).collect();
    assert_eq!(named, ["w003"], "{status:#?}");
    assert_eq!(scene.stored().await, counts([("v1", 11), ("v1alpha1", 1)]));
    webhook.heal();
    scene.ask_retry("repaired").await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 12)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b31_one_object_that_the_webhook_refuses_is_named_and_migrated_once_it_is_repaired() {
    const NAMESPACES: [&str; 3] = ["b31-a", "b31-b", "b31-c"];
    let webhook = Webhook::start(Mapping::ApiVersionOnly).await.unwrap();
    let scene = widgets("b31-mixed", &webhook).await;
    let batch = Batch::plain(60).across(&NAMESPACES);
    objects::create(&scene.client, &scene.kind, "v1alpha1", &batch).await.unwrap();
    webhook.misbehave(Fault::refuse("w031", "a bug in the webhook"));
    // The server's cache of v1 is cold now, so that its lists fail as well.
    scene.move_storage("v1").await;
    let _controller = scene.controller(&["--page-size", "20"]).await;
    scene.migrate(json!({})).await;
    let status = scene.until(Reason::ObjectsRefused).await;
    let [refusal] = &status.refusals[..] else { panic!("{:#?}", status.refusals) };
    assert_eq!((refusal.namespace.as_deref(), refusal.name.as_str()), (Some("b31-b"), "w031"));
    assert!(refusal.message.contains("a bug in the webhook"), "{}", refusal.message);
    assert_eq!(scene.stored().await, counts([("v1", 59), ("v1alpha1", 1)]));
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);

    webhook.heal();
    let before = scene.visits();
    scene.ask_retry("repaired").await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.visits() - before, 1, "only what was refused is written again");
    assert_eq!(scene.stored().await, counts([("v1", 60)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b33_the_controller_comes_up_while_every_webhook_is_down() {
    let mut webhook = Webhook::start(Mapping::ApiVersionOnly).await.unwrap();
    let scene = widgets("b33-start", &webhook).await;
    let mut kinds = vec![scene.kind.clone()];
    for number in 1..3 {
        let fixture = Fixture::widgets(&format!("b33-start-{number}.example.com"));
        let fixture = fixture.converted_by(webhook.conversion());
        kinds.push(crd::apply(&scene.client, &fixture).await.unwrap());
        scene.grant(fixture.kind()).await;
    }
    for kind in &kinds {
        objects::create(&scene.client, kind, "v1alpha1", &Batch::plain(5)).await.unwrap();
    }
    webhook.stop();
    for kind in &kinds {
        crd::move_storage(&scene.client, &kind.crd_name(), "v1").await.unwrap();
        let resource = json!({ "group": kind.group, "resource": kind.plural });
        scene.migrate_as(&kind.group, json!({ "resource": resource })).await;
    }
    // The controller's own kind is a resource like any other.
    let own = json!({ "group": "restow.dev", "resource": "storagemigrations" });
    scene.migrate_as("b33-own-kind", json!({ "resource": own })).await;
    let health = Health::free();
    let controller = scene.controller(&["--admin-address", &health.address]).await;
    eventually("/readyz", async || health.is_ok("/readyz").then_some(())).await;
    for kind in &kinds {
        scene.until_of(&kind.group, "BackingOff", is_backing_off).await;
    }
    let is_met = |status: &StorageMigrationStatus| reason_of(status) == Some(Reason::NothingToMigrate);
    scene.until_of("b33-own-kind", "NothingToMigrate", is_met).await;
    assert!(health.is_ok("/readyz") && controller.is_running());
    webhook.restart().await.unwrap();
    for kind in &kinds {
        let is_met = |status: &StorageMigrationStatus| reason_of(status) == Some(Reason::Migrated);
        scene.until_of(&kind.group, "Migrated", is_met).await;
    }
    assert!(controller.is_running());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b35_an_annotation_that_grows_too_long_is_one_objects_refusal() {
    let webhook = Webhook::start(Mapping::ApiVersionOnly).await.unwrap();
    let scene = widgets("b35-annotation", &webhook).await;
    scene.stored_old(&Batch::of(20, one_big)).await;
    webhook.misbehave(Fault::AnnotateSpec { to: "v1".to_owned() });
    let _controller = scene.begin(json!({})).await;
    let status = scene.until(Reason::ObjectsRefused).await;
    let [refusal] = &status.refusals[..] else { panic!("{:#?}", status.refusals) };
    assert_eq!(refusal.name, "w007");
    // It is the answer of the webhook that is too long, so the conversion fails; a write would be Invalid.
    assert!([422, 500].contains(&refusal.code), "{refusal:#?}");
    assert!(refusal.message.contains("Too long"), "{}", refusal.message);
    assert!(refusal.attempts <= 5, "{refusal:#?}");
    assert_eq!(scene.stored().await, counts([("v1", 19), ("v1alpha1", 1)]));
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
    scene.no_visits_for(Duration::from_secs(2)).await;
}

fn one_big(number: usize) -> Value {
    widget_with_text(number, 300_000)
}

fn one_huge(number: usize) -> Value {
    widget_with_text(number, 1_400_000)
}

fn widget_with_text(number: usize, bytes: usize) -> Value {
    let mut widget = content::plain(number);
    if number == 7 {
        widget["spec"]["raw"] = json!({ "text": "x".repeat(bytes) });
    }
    widget
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b59_an_object_that_conversion_makes_too_large_is_refused_and_no_other() {
    let webhook = Webhook::start(Mapping::ApiVersionOnly).await.unwrap();
    let scene = widgets("b59-too-large", &webhook).await;
    scene.stored_old(&Batch::of(10, one_huge)).await;
    webhook.misbehave(Fault::Grow { to: "v1".to_owned(), bytes: 200_000 });
    let _controller = scene.begin(json!({})).await;
    let status = scene.until(Reason::ObjectsRefused).await;
    let [refusal] = &status.refusals[..] else { panic!("{:#?}", status.refusals) };
    assert_eq!(refusal.name, "w007");
    assert!(refusal.message.contains("too large"), "{}", refusal.message);
    assert!(refusal.attempts <= 5, "{refusal:#?}");
    assert_eq!(scene.stored().await, counts([("v1", 9), ("v1alpha1", 1)]));
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b25_a_webhook_that_fails_on_parts_of_objects_fails_no_visit() {
    let webhook = Webhook::start(Mapping::ApiVersionOnly).await.unwrap();
    let scene = widgets("b25-fragments", &webhook).await;
    let keys = objects::create(&scene.client, &scene.kind, "v1alpha1", &Batch::hard(20)).await.unwrap();
    for key in &keys {
        let label = json!({ "metadata": { "labels": { "seen": "v1" } } });
        objects::patch(&scene.client, &scene.kind, "v1", key, &label).await.unwrap();
    }
    scene.move_storage("v1").await;
    webhook.misbehave(Fault::FailFragments);
    // The fault is there: an apply, as other migrators send it, meets it.
    let api = scene.kind.api(&scene.client, "v1", Some("default"));
    let theirs = json!({ "apiVersion": scene.kind.api_version("v1"), "kind": scene.kind.kind });
    let params = PatchParams { dry_run: true, ..PatchParams::apply(objects::CO_OWNER) };
    let apply = api.patch_metadata(&keys[0].name, &params, &Patch::Apply(theirs)).await;
    assert!(apply.is_err(), "{apply:?}");
    let _controller = scene.begin(json!({})).await;
    let status = scene.until(Reason::Migrated).await;
    assert_eq!(status.progress.map(|p| (p.rewritten, p.refused)), Some((20, 0)));
    assert_eq!(scene.stored().await, counts([("v1", 20)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b43_a_404_that_speaks_of_something_else_is_a_refusal() {
    let scene = Scene::old_widgets("b43-elsewhere", 20).await;
    let denial = Denial {
        name: "w004".to_owned(),
        status: json!({
            "code": 404, "reason": "NotFound", "message": "secrets \"w004\" not found",
            "details": { "kind": "secrets", "name": "w004" },
        }),
    };
    let webhook = AdmissionWebhook::start(denial).await.unwrap();
    let configuration = webhook.configuration("b43-elsewhere.example.com", &scene.kind);
    let configuration = serde_json::from_value(configuration).unwrap();
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(scene.client.clone());
    configurations.create(&PostParams::default(), &configuration).await.unwrap();
    let api = scene.kind.api(&scene.client, "v1", Some("default"));
    let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
    eventually("the webhook to be asked", async || {
        api.patch_metadata("w004", &dry_run, &Patch::Merge(json!({}))).await.err().map(drop)
    })
    .await;
    let _controller = scene.begin(json!({})).await;
    let status = scene.until(Reason::ObjectsRefused).await;
    let [refusal] = &status.refusals[..] else { panic!("{:#?}", status.refusals) };
    assert_eq!((refusal.name.as_str(), refusal.code), ("w004", 404));
    assert_eq!(refusal.reason, "NotFoundElsewhere");
    assert!(refusal.message.contains("b43-elsewhere.example.com"), "{}", refusal.message);
    assert_eq!(status.progress.map(|p| (p.rewritten, p.gone, p.refused)), Some((19, 0, 1)));
    assert_eq!(scene.stored().await, counts([("v1", 19), ("v1alpha1", 1)]));
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b15_a_conversion_that_changes_during_the_run_stops_the_writes_at_once() {
    const OBJECTS: usize = 200;
    let webhook = Webhook::start(Mapping::CronTab).await.unwrap();
    let conversion = webhook.conversion();
    let scene = Scene::new("b15-conversion", |group| Fixture::crontabs_in(group, conversion.clone())).await;
    let batch = Batch::of(OBJECTS, content::crontab);
    objects::create(&scene.client, &scene.kind, "v1beta1", &batch).await.unwrap();
    scene.move_storage("v1").await;
    let _controller = scene.begin(json!({ "pace": { "writesPerSecond": 40 } })).await;
    scene.until_stored("v1", 60).await;
    crd::set_conversion(&scene.client, &scene.kind.crd_name(), &Conversion::None).await.unwrap();
    let changed_at = Timestamp::now();
    scene.until(Reason::ConversionChanged).await;
    scene.no_visits_for(Duration::from_secs(2)).await;
    let late = changed_at + Duration::from_secs(3);
    let visits = scene.audit.entries(&scene.requests().verb("patch"));
    assert!(visits.iter().all(|v| v.received < late), "visits went on after {changed_at}: {visits:#?}");
    assert_eq!(scene.stored_versions().await, ["v1beta1", "v1"]);
    let untouched = |stored: &Value| stored["spec"]["hostPort"].is_string();
    let values = || async {
        scene.values().await.iter().filter_map(testbed::etcd::Stored::object).collect::<Vec<_>>()
    };
    let old: Vec<_> = values().await.into_iter().filter(untouched).collect();
    assert!(old.len() > OBJECTS / 4, "{} objects are as they were", old.len());

    crd::set_conversion(&scene.client, &scene.kind.crd_name(), &conversion).await.unwrap();
    // It goes on by itself.
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", OBJECTS)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
    let now = values().await;
    for object in old {
        let name = &object["metadata"]["name"];
        let migrated = now.iter().find(|it| it["metadata"]["name"] == *name).unwrap();
        let (spec, was) = (&migrated["spec"], &object["spec"]["hostPort"]);
        let joined = format!("{}:{}", spec["host"].as_str().unwrap(), spec["port"].as_str().unwrap());
        assert_eq!(*was, json!(joined));
    }
}
