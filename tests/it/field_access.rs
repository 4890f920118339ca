//! Field cases of rights that are missing: on the list, on all objects, on some of them.

use std::time::Duration;

use restow::api::Reason;
use serde_json::json;
use testbed::access;
use testbed::objects::Batch;
use tokio::time::Instant;

use crate::scene::{Scene, counts};

#[tokio::test]
async fn b49_rights_withdrawn_in_mid_run_are_named_and_it_goes_on_once_they_are_back() {
    let scene = Scene::widgets("b49-withdrawn").await;
    let (group, plural) = (scene.kind.group.as_str(), scene.kind.plural);
    scene.stored_old(&Batch::plain(200)).await;
    let _controller = scene.controller(&["--writes-per-second", "20"]).await;
    scene.migrate(json!({})).await;
    scene.until_visits(20).await;
    access::revoke_target(scene.plane, group, plural).await.unwrap();
    let status = scene.until(Reason::AccessDenied).await;
    let message = &status.conditions[0].message;
    assert!(message.contains(&format!("patch {plural}.{group}")), "{message}");
    assert!(status.refusals.is_empty(), "{:#?}", status.refusals);
    scene.no_visits_for(Duration::from_secs(5)).await;
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);

    access::grant_target(scene.plane, group, plural).await.unwrap();
    let granted = Instant::now();
    let status = scene.until(Reason::Migrated).await;
    // At most 30 s until it asks again, and the rest at 20 a second.
    assert!(granted.elapsed() < Duration::from_secs(75), "it took {:?}", granted.elapsed());
    assert_eq!(status.progress.map(|p| p.refused), Some(0));
    assert_eq!(scene.stored().await, counts([("v1", 200)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}

#[tokio::test]
async fn b49_rights_on_half_of_the_objects_refuse_the_others_and_it_ends_once_all_are_granted() {
    let scene = Scene::widgets("b49-names").await;
    let (group, plural) = (scene.kind.group.as_str(), scene.kind.plural);
    let keys = scene.stored_old(&Batch::plain(40)).await;
    let names: Vec<String> = keys.iter().step_by(2).map(|key| key.name.clone()).collect();
    access::grant_names(scene.plane, group, plural, &names).await.unwrap();
    let _controller = scene.begin(json!({})).await;
    let status = scene.until(Reason::ObjectsRefused).await;
    assert_eq!(status.progress.as_ref().map(|p| (p.rewritten, p.refused)), Some((20, 20)));
    assert!(
        status.refusals.iter().all(|r| r.code == 403 && r.message.contains("cannot patch")),
        "{status:#?}"
    );
    assert_eq!(scene.stored().await, counts([("v1", 20), ("v1alpha1", 20)]));
    assert_eq!(scene.stored_versions().await, ["v1alpha1", "v1"]);

    access::grant_target(scene.plane, group, plural).await.unwrap();
    let granted = Instant::now();
    scene.until(Reason::Migrated).await;
    assert!(
        granted.elapsed() < Duration::from_secs(45),
        "it waited for its own next try: {:?}",
        granted.elapsed()
    );
    assert_eq!(scene.stored().await, counts([("v1", 40)]));
    assert_eq!(scene.stored_versions().await, ["v1"]);
}
