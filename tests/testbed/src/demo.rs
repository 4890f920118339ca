//! `cargo demo`: one migration from beginning to end on a real API server, to watch and to check.
//!
//! This file is the story; each of its sentences is checked as it is told, and the first that doesn't hold ends it with
//! an error. The parts are in the modules below; nothing in them is needed by a test.

mod claim;
mod follow;
mod product;
mod screen;
mod stage;

use crate::crd::{self, Removal};
use crate::objects::{self, Snapshot, content};
use claim::{Doing as _, check};
use clap::Parser;
use serde_json::json;
use stage::{NEW, OLD};
use std::time::Instant;

pub use claim::Failure;
pub use screen::Screen;
pub use stage::Stage;

/// Shows and checks a storage version migration on a control plane of its own.
#[derive(Clone, Debug, Parser)]
#[command(name = "cargo demo", bin_name = "cargo demo")]
pub struct Args {
    /// How many objects to migrate
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    objects: u32,
    /// Writes per second that restow may send; without this, restow's own default
    #[arg(long)]
    writes_per_second: Option<u32>,
    /// Leave everything running at the end, for kubectl, until Ctrl-C
    #[arg(long)]
    pub keep: bool,
}

/// Tells the story. What it started goes on running until the answer is dropped.
///
/// # Errors
/// If a step can't be made, or what it shows is not what it should show.
pub async fn run(args: &Args, screen: &mut Screen) -> Result<Stage, Failure> {
    let stage = Stage::set(screen).await?;
    let before = prepare(args, &stage, screen).await?;
    refusal(&stage, screen).await?;
    let stage = stage.start_controller(args.writes_per_second, screen).await?;
    migrate(args, &stage, screen).await?;
    aftermath(args, &stage, &before, screen).await?;
    Ok(stage)
}

/// Objects in the old version, and a storage flag that has moved on without them.
async fn prepare(args: &Args, stage: &Stage, screen: &mut Screen) -> Result<Snapshot, Failure> {
    let count = args.objects as usize;
    screen.step(&format!("Create {count} CronTabs at {OLD}"));
    let started = Instant::now();
    stage.create(count).await?;
    let before = objects::snapshot(&stage.client, &stage.kind, NEW).await.doing("read the objects")?;
    check("objects that the server shows", &count, &before.len())?;
    screen.line(&format!("done in {:.1} s", started.elapsed().as_secs_f32()));

    screen.step(&format!("Move the storage flag of the CRD to {NEW}"));
    crd::move_storage(&stage.client, &stage.kind.crd_name(), NEW).await.doing("move the storage flag")?;
    screen.line("The server accepts it, and rewrites nothing:");
    stage.show_stored(screen, &[(OLD, count)], &[OLD, NEW]).await?;
    Ok(before)
}

/// The error that brings people here.
async fn refusal(stage: &Stage, screen: &mut Screen) -> Result<(), Failure> {
    screen.step(&format!("Try to remove {OLD} from the CRD"));
    match stage.remove_old_version().await? {
        Removal::Refused(text) => {
            screen.line("Refused:");
            screen.quote(&text);
            check("the refusal names storedVersions", &true, &text.contains("status.storedVersions"))
        }
        Removal::Accepted => Err(Failure::unlike("the removal", "refused", "accepted")),
    }
}

async fn migrate(args: &Args, stage: &Stage, screen: &mut Screen) -> Result<(), Failure> {
    screen.step("Apply a StorageMigration");
    screen.quote(follow::MANIFEST.trim_end());
    let started = Instant::now();
    let ended = follow::migration(stage, args.objects, screen).await?;
    screen.step(&format!("Look at the result, {:.1} s later", started.elapsed().as_secs_f32()));
    for condition in &ended.conditions {
        screen.line(&condition.to_string());
    }
    screen.line(&ended.counts);
    check("condition Succeeded", &"True (Migrated)".to_owned(), &ended.succeeded())?;
    stage.show_stored(screen, &[(NEW, args.objects as usize)], &[NEW]).await
}

/// What could not be done before can be done now, and nothing was lost on the way.
async fn aftermath(
    args: &Args,
    stage: &Stage,
    before: &Snapshot,
    screen: &mut Screen,
) -> Result<(), Failure> {
    screen.step(&format!("Remove {OLD} from the CRD again"));
    match stage.remove_old_version().await? {
        Removal::Accepted => screen.line("Accepted."),
        Removal::Refused(text) => return Err(Failure::unlike("the removal", "accepted", &text)),
    }
    screen.step(&format!("Read all objects at {NEW}"));
    let after = objects::snapshot(&stage.client, &stage.kind, NEW).await.doing("read the objects")?;
    check("differences to what was there before", &Vec::new(), &before.differences(&after))?;
    for number in 0..args.objects as usize {
        let key = stage::key(number);
        let spec = after.get(&key).map(|object| object["spec"].clone()).unwrap_or_default();
        let expected = json!([format!("node-{number}.example.com"), content::port(number).to_string(), null]);
        check(&key, &expected, &json!([spec["host"], spec["port"], spec.get("hostPort")]))?;
    }
    screen
        .line(&format!("All {} are as before, resourceVersion aside; host and port are apart.", after.len()));
    if let Some((key, object)) = after.iter().next() {
        screen.line(&format!("{key}: {}", object["spec"]));
    }
    let asked = stage.webhook.asked();
    screen.line(&format!("The webhook was asked {} times to convert an object.", asked.objects));
    Ok(())
}
