//! A StorageMigration from its creation to its end, as its status tells it.

use super::claim::{Doing as _, Failure};
use super::screen::Screen;
use super::stage::Stage;
use futures::{StreamExt as _, TryStreamExt as _};
use indicatif::ProgressBar;
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::watch_object;
use kube::{Api, ResourceExt as _};
use serde_json::Value;
use std::fmt;
use std::time::Duration;
use tokio::time::timeout;

/// What is applied.
pub(super) const MANIFEST: &str = include_str!("../../fixtures/migration.yaml");
/// A migration that is slower than this many objects a second has gone wrong; the pace by default is 100.
const RATE_MIN: u32 = 10;
/// Time that does not depend on the number of objects: settling, two lists, the trim.
const OVERHEAD_MAX: Duration = Duration::from_mins(2);
/// Without a bar, a line is written each time this much more is done.
const PERCENT_STEP: u64 = 25;

/// A condition as it is shown.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    kind: String,
    status: String,
    reason: String,
    message: String,
}

/// How a migration ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) conditions: Vec<Condition>,
    pub(super) counts: String,
}

impl Ended {
    /// Status and reason of the condition that says whether all went well.
    pub(super) fn succeeded(&self) -> String {
        let found = self.conditions.iter().find(|condition| condition.kind == "Succeeded");
        found.map_or_else(|| "absent".to_owned(), |it| format!("{} ({})", it.status, it.reason))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<15} {} ({}): {}", self.kind, self.status, self.reason, self.message)
    }
}

/// Applies the migration and follows it until it has succeeded or needs somebody.
pub(super) async fn migration(stage: &Stage, objects: u32, screen: &Screen) -> Result<Ended, Failure> {
    let manifest: DynamicObject = serde_saphyr::from_str(MANIFEST).doing("parse the StorageMigration")?;
    let gvk = GroupVersionKind::gvk("restow.dev", "v1alpha1", "StorageMigration");
    let migrations: Api<DynamicObject> = Api::all_with(stage.client.clone(), &ApiResource::from_gvk(&gvk));
    let name = manifest.name_any();
    let params = PatchParams::apply("demo");
    migrations.patch(&name, &params, &Patch::Apply(&manifest)).await.doing("apply the StorageMigration")?;

    let deadline = OVERHEAD_MAX + Duration::from_secs((objects / RATE_MIN).into());
    let ended = timeout(deadline, watch(migrations, &name, screen.bar(objects), screen));
    let Some(restow) = &stage.restow else { return ended.await.doing("wait for the migration")? };
    tokio::select! {
        ended = ended => match ended {
            Ok(ended) => ended,
            Err(_) => Err(problem(stage, format!("the migration has not ended after {} s", deadline.as_secs()))),
        },
        exit = restow.wait_exit(deadline * 2) => {
            let exit = exit.doing("wait for restow")?;
            Err(problem(stage, format!("restow ended before the migration: {exit:?}")))
        }
    }
}

fn problem(stage: &Stage, problem: String) -> Failure {
    Failure::Product { problem, log: stage.log_tail() }
}

async fn watch(
    migrations: Api<DynamicObject>,
    name: &str,
    bar: ProgressBar,
    screen: &Screen,
) -> Result<Ended, Failure> {
    let mut view = View { bar, screen, reason: String::new(), percent: 0 };
    let mut changes = watch_object(migrations, name).boxed();
    while let Some(object) = changes.try_next().await.doing("watch the StorageMigration")? {
        let status = object.map(|object| object.data["status"].clone()).unwrap_or_default();
        let conditions = conditions(&status);
        let Some(succeeded) = conditions.iter().find(|condition| condition.kind == "Succeeded") else {
            continue;
        };
        let progress = &status["progress"];
        view.show(&succeeded.reason, progress);
        if succeeded.status != "Unknown" {
            view.bar.finish_and_clear();
            return Ok(Ended { counts: counts(progress), conditions });
        }
    }
    Err(Failure::unlike("the StorageMigration", "watched to its end", "the watch ended"))
}

fn conditions(status: &Value) -> Vec<Condition> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions
        .map(|it| Condition {
            kind: text(&it["type"]),
            status: text(&it["status"]),
            reason: text(&it["reason"]),
            message: text(&it["message"]),
        })
        .collect()
}

fn counts(progress: &Value) -> String {
    let names = ["total", "visited", "rewritten", "unchanged", "gone", "refused"];
    let counts: Vec<_> = names.map(|name| format!("{name} {}", progress[name].as_u64().unwrap_or(0))).into();
    format!("{:<15} {}", "objects", counts.join(", "))
}

/// What is seen of a running migration.
struct View<'a> {
    bar: ProgressBar,
    screen: &'a Screen,
    reason: String,
    percent: u64,
}

impl View<'_> {
    fn show(&mut self, reason: &str, progress: &Value) {
        let (total, visited) =
            (progress["total"].as_u64().unwrap_or(0), progress["visited"].as_u64().unwrap_or(0));
        if total > 0 {
            self.bar.set_length(total);
        }
        self.bar.set_position(visited);
        self.bar.set_message(reason.to_owned());
        let percent = (visited * 100).checked_div(total).unwrap_or(0);
        let news = self.reason != reason || percent >= self.percent + PERCENT_STEP;
        if self.bar.is_hidden() && news {
            self.screen.line(&format!("{reason:<15} {visited}/{total} {percent}%"));
            self.percent = percent;
        }
        reason.clone_into(&mut self.reason);
    }
}
