//! What docs/operations.md tells somebody to type at night does what it says there.

use std::time::Duration;

use restow::api::Reason;
use serde_json::json;

use crate::manifests::succeeds;
use crate::scene::{Scene, counts};

const DOCS: &str = include_str!("../../docs/operations.md");

/// Longer than one step sends visits.
const GRACE: Duration = Duration::from_secs(2);

#[tokio::test]
async fn the_commands_against_a_migration_slow_it_down_pause_it_and_let_it_go_on() {
    let scene = Scene::old_widgets("operations", 200).await;
    let _controller = scene.begin(json!({ "pace": { "writesPerSecond": 10 } })).await;
    scene.until_visits(1).await;
    let commands = commands("kubectl patch smig crontabs ");
    let [slower, pause, on] = commands.as_slice() else { panic!("{commands:?}") };
    let patch = async |args: &String| {
        let args = args.replace('\'', "");
        let args: Vec<&str> =
            ["patch", "smig", scene.migration()].into_iter().chain(args.split(' ')).collect();
        succeeds(scene.plane, &args).await;
    };
    patch(slower).await;
    let pace = scene.migrations().get(scene.migration()).await.unwrap().spec.pace.unwrap();
    assert_eq!((pace.writes_per_second, pace.max_in_flight), (Some(5), Some(1)));
    patch(pause).await;
    scene.until(Reason::Suspended).await;
    scene.no_visits_for(GRACE).await;
    let stored = scene.stored().await;
    assert!(stored["v1"] < 200, "{stored:?}");
    patch(on).await;
    scene.patch_spec(scene.migration(), json!({ "pace": null })).await;
    scene.until(Reason::Migrated).await;
    assert_eq!(scene.stored().await, counts([("v1", 200)]));
}

/// What follows `start` in the lines of the documentation that are to be typed.
fn commands(start: &str) -> Vec<String> {
    DOCS.lines().filter_map(|line| line.strip_prefix("$ ")?.strip_prefix(start)).map(str::to_owned).collect()
}
