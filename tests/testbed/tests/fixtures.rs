//! The fixtures against a real server: what they claim of CRDs, objects and the webhook holds there.
#![allow(clippy::unwrap_used, reason = "a test stops at the first thing that is not as it should be")]

use std::collections::BTreeMap;
use std::time::Duration;
use testbed::control_plane::ControlPlane;
use testbed::crd::{self, Fixture, Removal};
use testbed::objects::{self, Batch, Hot};
use testbed::webhook::{Mapping, Webhook};

fn counts<const N: usize>(versions: [(&str, usize); N]) -> BTreeMap<String, usize> {
    versions.map(|(version, count)| (version.to_owned(), count)).into()
}

#[tokio::test]
async fn hard_objects_survive_a_rewrite_in_another_version() {
    let plane = ControlPlane::shared().await;
    let client = plane.admin();
    let kind = crd::apply(&client, &Fixture::widgets("hard.example.com")).await.unwrap();
    let keys =
        objects::create(&client, &kind, "v1alpha1", &Batch::hard(8).across(&["blue", "red"])).await.unwrap();
    let before = objects::snapshot(&client, &kind, "v1").await.unwrap();
    assert_eq!(before.len(), 8);
    let first = before.get("blue/w000").unwrap();
    assert_eq!(first["metadata"]["managedFields"].as_array().map(Vec::len), Some(2));
    assert_eq!(first["spec"]["raw"]["biggest"], i64::MAX);
    assert!(first["spec"]["raw"]["null"].is_null() && first["spec"]["raw"].get("null").is_some());

    crd::move_storage(&client, &kind.crd_name(), "v1").await.unwrap();
    while !plane.etcd().stored_versions(&kind.group, kind.plural).await.contains_key("hard.example.com/v1") {
        for key in &keys {
            objects::touch(&client, &kind, "v1", key).await.unwrap();
        }
    }
    for key in &keys {
        objects::touch(&client, &kind, "v1", key).await.unwrap();
    }
    assert_eq!(
        plane.etcd().stored_versions(&kind.group, kind.plural).await,
        counts([("hard.example.com/v1", 8)])
    );
    let after = objects::snapshot(&client, &kind, "v1").await.unwrap();
    assert_eq!(before.differences(&after), Vec::<String>::new());
}

#[tokio::test]
async fn a_version_that_may_hold_objects_is_not_removed() {
    let plane = ControlPlane::shared().await;
    let client = plane.admin();
    let kind = crd::apply(&client, &Fixture::gadgets("removal.example.com").without_status()).await.unwrap();
    objects::create(&client, &kind, "v1alpha1", &Batch::plain(3)).await.unwrap();
    crd::move_storage(&client, &kind.crd_name(), "v1").await.unwrap();
    let Removal::Refused(text) = crd::remove_version(&client, &kind.crd_name(), "v1alpha1").await.unwrap()
    else {
        unreachable!("the server let the old version go");
    };
    assert!(
        text.contains(r#"status.storedVersions[0]: Invalid value: "v1alpha1": missing from spec.versions"#),
        "{text}"
    );
    assert_eq!(crd::stored_versions(&client, &kind.crd_name()).await.unwrap(), ["v1alpha1", "v1"]);
    assert_eq!(
        plane.etcd().stored_versions(&kind.group, kind.plural).await,
        counts([("removal.example.com/v1alpha1", 3)])
    );
}

#[tokio::test]
async fn crontabs_are_converted_by_the_webhook() {
    let plane = ControlPlane::shared().await;
    let client = plane.admin();
    let webhook = Webhook::start(Mapping::CronTab).await.unwrap();
    let fixture = Fixture::crontabs_in("crontab.example.com", webhook.conversion());
    let kind = crd::apply(&client, &fixture).await.unwrap();
    let batch = Batch::of(5, objects::content::crontab).named("crontab-");
    objects::create(&client, &kind, "v1beta1", &batch).await.unwrap();
    let new = objects::snapshot(&client, &kind, "v1").await.unwrap();
    let spec = &new.get("default/crontab-003").unwrap()["spec"];
    assert_eq!(spec["host"], "node-3.example.com");
    assert_eq!(spec["port"], "1027");
    assert_eq!(spec.get("hostPort"), None);
    assert!(webhook.asked().objects >= 5);

    drop(webhook);
    let key = objects::Key { namespace: Some("default".to_owned()), name: "crontab-003".to_owned() };
    let failed = objects::touch(&client, &kind, "v1", &key).await.unwrap_err();
    assert!(failed.status().unwrap().message.contains("conversion webhook for"), "{failed:?}");
}

#[tokio::test]
async fn the_generic_webhook_serves_widgets_and_hot_objects_change() {
    let plane = ControlPlane::shared().await;
    let client = plane.admin();
    let kind = crd::apply(&client, &Fixture::widgets("hot.example.com")).await.unwrap();
    let keys = objects::create(&client, &kind, "v1alpha1", &Batch::plain(2)).await.unwrap();
    let webhook = Webhook::start(Mapping::ApiVersionOnly).await.unwrap();
    crd::set_conversion(&client, &kind.crd_name(), &webhook.conversion()).await.unwrap();
    let hot = Hot::start(client.clone(), kind.clone(), "v1", keys, Duration::from_millis(10));
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    let busy = async {
        while hot.written() < 20 || webhook.asked().requests == 0 {
            looks.tick().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), busy).await.unwrap();
    assert_eq!(hot.failed(), 0);
}
