//! The scenarios: who runs in which order, and what of it is worth telling.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use testbed::audit::{Entry, Filter};
use testbed::process::Signal;
use testbed::restow::Restow;
use tokio::time::sleep;

use crate::bed::{Bed, Objects};
use crate::contestant::{Order, Pace, Who, has_succeeded, start_controller};
use crate::counter::Counter;
use crate::plot::{Line, svg};
use crate::round::Round;
use crate::{Args, Scenario, foreground, report};

/// Alternating, so that whatever grows during the run (etcd's history, the audit log) weighs on all alike, and so that
/// each has as many rounds to one version as to the other.
const ALL: [Who; 8] = [
    Who::Bare,
    Who::Controller(Pace::Unlimited),
    Who::Migrate(Pace::Unlimited),
    Who::Builtin,
    Who::Builtin,
    Who::Migrate(Pace::Unlimited),
    Who::Controller(Pace::Unlimited),
    Who::Bare,
];

const DEFAULT_PACE: [Who; 4] = [
    Who::Controller(Pace::Default),
    Who::Controller(Pace::Unlimited),
    Who::Controller(Pace::Unlimited),
    Who::Controller(Pace::Default),
];

/// What came of a scenario.
pub(crate) struct Found {
    pub(crate) text: String,
    pub(crate) json: Value,
    pub(crate) plot: Option<String>,
}

pub(crate) async fn run(scenario: Scenario, args: &Args, count: usize) -> Found {
    let plain = Objects { count, padding: 0, webhook: false };
    match scenario {
        Scenario::Plain => compare(args, plain, &ALL, false).await,
        Scenario::DefaultPace => compare(args, plain, &DEFAULT_PACE, false).await,
        Scenario::Webhook => compare(args, Objects { webhook: true, ..plain }, &ALL, false).await,
        Scenario::Bytes => compare(args, plain, &ALL[..4], true).await,
        Scenario::TenKb => compare(args, Objects { padding: 10_000, ..plain }, &ALL[..4], true).await,
        Scenario::HundredKb => compare(args, Objects { padding: 100_000, ..plain }, &ALL[..4], true).await,
        Scenario::Restart => restart(args, plain).await,
        Scenario::Again => again(args, plain).await,
        Scenario::Foreground => foreground::run(args, plain).await,
        Scenario::Memory => memory(args, count).await,
    }
}

/// One round of each of them.
async fn compare(args: &Args, objects: Objects, all: &[Who], count_bytes: bool) -> Found {
    let mut bed = Bed::set(&args.binary, objects).await;
    let counter = if count_bytes { Some(Counter::start(&bed.plane.server_url()).await) } else { None };
    let mut rounds: Vec<Round> = Vec::new();
    for who in all {
        let round = Round::run(&mut bed, *who, args.in_flight, counter.as_ref()).await;
        println!(
            "{:24} {:7.2} s, {:6.0} objects/s",
            round.who,
            round.sweep,
            round.objects as f64 / round.sweep
        );
        rounds.push(round);
    }
    let mut lines: Vec<Line> = Vec::new();
    for round in &rounds {
        if lines.iter().all(|line| line.name != round.who) {
            let points = round.progress.iter().map(|(at, count)| (*at, *count as f64)).collect();
            lines.push(Line { name: round.who.clone(), points });
        }
    }
    Found {
        text: report::table(&rounds),
        json: rounds.iter().map(Round::json).collect(),
        plot: Some(svg("Objects migrated over time", "seconds since the first patch", "objects", &lines)),
    }
}

/// How much is done twice where the controller is killed in the middle.
async fn restart(args: &Args, objects: Objects) -> Found {
    let mut bed = Bed::set(&args.binary, objects).await;
    bed.make_stale().await;
    let flags = vec!["--settle=1s".to_owned(), "--writes-per-second=0".to_owned()];
    let patches = Filter::group(&bed.kind.group).user_agent("restow/").verb("patch");
    let audit = bed.plane.audit().from_now();
    let first: Restow = start_controller(&bed, &flags, None).await;
    let order = Order::create(&bed, "restow.dev", "v1alpha1", "StorageMigration").await;
    while audit.count(&patches) < objects.count / 2 {
        sleep(Duration::from_millis(50)).await;
    }
    first.signal(Signal::Kill);
    drop(first);
    let second = start_controller(&bed, &flags, None).await;
    order.until(has_succeeded).await;
    drop(second);
    sleep(Duration::from_secs(1)).await;
    let (_, is_right) = bed.writes().await;
    assert!(is_right, "not every object is stored anew");
    let (repeated, confirmed) = repeated(&audit.entries(&patches));
    // What isn't remembered after a restart is visited by the confirm, which finds it unchanged.
    let text = format!("visited twice by the first sweep: {repeated}; by the confirm: {confirmed}\n");
    let json = json!({ "objects": objects.count, "repeated": repeated, "confirmed": confirmed });
    Found { text, json, plot: None }
}

/// How many visits were repetitions before each object had its first, and how many after that.
fn repeated(visits: &[Entry]) -> (usize, usize) {
    let mut first: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for visit in visits {
        let name = visit.object.as_ref().map_or("", |object| &object.name);
        let at = first.entry(name).or_insert(visit.received);
        *at = visit.received.min(*at);
    }
    let swept = first.values().max().copied().unwrap_or_default();
    let within = visits.iter().filter(|visit| visit.received <= swept).count();
    (within - first.len(), visits.len() - within)
}

/// A run that finds every object as it should be.
async fn again(args: &Args, objects: Objects) -> Found {
    let mut bed = Bed::set(&args.binary, objects).await;
    let first = Round::run(&mut bed, Who::Controller(Pace::Unlimited), args.in_flight, None).await;
    let (before, _) = bed.writes().await;
    let audit = bed.plane.audit().from_now();
    let flags = ["--settle=1s", "--writes-per-second=0", "--adaptive-pace=false"].map(str::to_owned);
    let controller = start_controller(&bed, &flags, None).await;
    let order = Order::create(&bed, "restow.dev", "v1alpha1", "StorageMigration").await;
    order.until(has_succeeded).await;
    drop(controller);
    sleep(Duration::from_secs(1)).await;
    let about_objects = audit.count(&Filter::group(&bed.kind.group).user_agent("restow/"));
    let (after, _) = bed.writes().await;
    let text = format!("requests about objects: {about_objects}, writes: {}\n", after - before);
    let found = json!({ "first": first.json(), "requests": about_objects, "writes": after - before });
    Found { text, json: found, plot: None }
}

/// How much memory the controller needs, by the number of objects. They are stored as they should be already, though nobody
/// knows: each is visited and remembered all the same, in half the time.
async fn memory(args: &Args, most: usize) -> Found {
    let mut text = String::from("| objects | peak MiB | CPU s | s to Succeeded |\n|---|---|---|---|\n");
    let (mut found, mut points) = (Vec::new(), Vec::new());
    for count in [most / 100, most / 10, most] {
        let mut bed =
            Bed::set(&args.binary, Objects { count: count.max(1), padding: 0, webhook: false }).await;
        bed.make_stale().await;
        let round = Round::run(&mut bed, Who::Controller(Pace::Unlimited), args.in_flight, None).await;
        let mib = round.peak_kib as f64 / 1024.0;
        let (cpu, secs) = (round.cpu_seconds[0], round.to_succeeded);
        let _ = writeln!(text, "| {count} | {mib:.1} | {cpu:.1} | {secs:.1} |");
        points.push((count as f64, mib));
        found.push(round.json());
    }
    let line = Line { name: "controller".to_owned(), points };
    let plot = svg("Peak memory by number of objects", "objects", "MiB", &[line]);
    Found { text, json: found.into(), plot: Some(plot) }
}
