//! What a user sees with kubectl.

use std::process::Output;

use restow::api::{Reason, State};
use serde_json::json;

use crate::scene::{Scene, eventually, reason_of};

#[tokio::test]
async fn a_running_migration_shows_in_columns_what_it_is_doing() {
    let scene = Scene::old_widgets("kubectl-get", 40).await;
    let _controller = scene.begin(json!({ "pace": { "writesPerSecond": 2 } })).await;
    let is_running = |status: &restow::api::StorageMigrationStatus| {
        status.progress.as_ref().is_some_and(|progress| progress.visited > 0)
    };
    scene.until_of(scene.migration(), "progress", is_running).await;

    let [head, row] = table(&kubectl(&scene, &["get", "smig", scene.migration()]).await);
    assert_eq!(head, ["NAME", "RESOURCE", "STATUS", "PROGRESS", "REFUSED", "AGE"]);
    let [name, resource, status, progress, refused, age] = row.as_slice() else { panic!("{row:?}") };
    assert_eq!(
        (name.as_str(), resource.as_str(), status.as_str()),
        (scene.migration(), "widgets", "Sweeping")
    );
    let (visited, percent) = progress.split_once("/40 ").expect(progress);
    let visited: usize = visited.parse().unwrap();
    assert!((1..40).contains(&visited), "{progress}");
    assert_eq!(percent, format!("{}%", visited * 100 / 40));
    assert_eq!(refused, "0");
    assert!(age.ends_with('s'), "{age}");

    let [head, row] = table(&kubectl(&scene, &["get", "smig", scene.migration(), "-o", "wide"]).await);
    assert_eq!(head[6..], ["VERSION", "STARTED", "DURATION"]);
    assert_eq!(row[6], "v1");
    assert!(row[7].ends_with('s') && row[8].ends_with('s'), "{row:?}");
}

#[tokio::test]
async fn a_migration_that_has_not_listed_anything_does_not_look_complete() {
    let scene = Scene::old_widgets("kubectl-settling", 1).await;
    let _controller = scene.controller(&["--settle", "10m"]).await;
    scene.migrate(json!({})).await;
    scene.until(Reason::Settling).await;
    let [_, row] = table(&kubectl(&scene, &["get", "smig", scene.migration()]).await);
    assert_eq!(row[2..4], ["Settling", "0/0 0%"]);
    assert_eq!(scene.audit.count(&scene.requests()), 0);
}

#[tokio::test]
async fn waiting_for_success_ends_when_the_migration_does() {
    let scene = Scene::old_widgets("kubectl-wait", 20).await;
    let _controller = scene.begin(json!({})).await;
    let target = format!("smig/{}", scene.migration());
    kubectl(&scene, &["wait", "--for=condition=Succeeded", &target, "--timeout=120s"]).await;
    assert_eq!(scene.stored_versions().await, ["v1"]);
    assert_eq!(reason_of(&scene.status_of(scene.migration()).await), Some(Reason::Migrated));
}

#[tokio::test]
async fn a_description_shows_the_message_and_an_event_for_each_phase() {
    let scene = Scene::old_widgets("kubectl-describe", 20).await;
    let controller = scene.controller(&[]).await;
    scene.migrate(json!({ "pace": { "writesPerSecond": 10 } })).await;
    let status = scene.until(Reason::Migrated).await;
    let message = &status.conditions[0].message;
    // The log has a line for each phase, too.
    let log = controller.log();
    assert!(!log.contains("reconciling object"), "{log}");
    let phases: Vec<_> = Reason::ALL
        .into_iter()
        .filter(|reason| log.contains(&format!("reason=\"{reason}\"")))
        .filter(|reason| matches!(reason.state(), State::Working | State::Done))
        .collect();
    assert!(phases.contains(&Reason::Sweeping) && phases.len() >= 2, "{phases:?} in {log}");
    eventually("the events", async || {
        let described = kubectl(&scene, &["describe", "smig", scene.migration()]).await;
        let (object, events) = described.split_once("\nEvents:")?;
        assert!(object.contains(message), "{object}");
        let has_event = |reason: &Reason| {
            events.lines().any(|line| {
                let mut words = line.split_whitespace();
                words.next() == Some("Normal") && words.next() == Some(reason.as_str())
            })
        };
        (has_event(&Reason::Migrated) && phases.iter().all(has_event)).then_some(())
    })
    .await;
}

/// Runs kubectl, which must succeed, and answers with what it printed.
async fn kubectl(scene: &Scene, args: &[&str]) -> String {
    let Output { status, stdout, stderr } = scene.plane.kubectl(args).await.unwrap();
    assert!(status.success(), "{args:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// A table of one row, by column: columns are set apart by several spaces.
fn table(printed: &str) -> [Vec<String>; 2] {
    let cells = |line: &str| -> Vec<String> {
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
    };
    let [head, row] = printed.lines().collect::<Vec<_>>().try_into().unwrap();
    [cells(head), cells(row)]
}
