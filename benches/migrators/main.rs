//! The benchmark: restow, the migrator that is built into Kubernetes, and a bare loop of the same patches, side by side on the
//! same API server. `docs/scalability.md` says how the figures are taken, and what they were.
//!
//! What is measured is the release build of the real binary, run under the shipped RBAC. The clock is the API server's own
//! audit log, for all alike, and each round ends with a look into etcd.
#![expect(clippy::expect_used, reason = "a benchmark stops at the first thing that is not right")]
#![expect(clippy::print_stdout, reason = "the figures are its output")]

mod bed;
mod contestant;
mod counter;
mod foreground;
mod meter;
mod plot;
mod report;
mod round;
mod scenario;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use serde_json::{Map, Value};

/// Compares restow with the migrator that is built into Kubernetes, and with a bare loop of patches
#[derive(Debug, Parser)]
#[command(name = "migrators")]
struct Args {
    /// What to measure; may be given several times; all of them where none is given
    #[arg(long, value_enum)]
    scenario: Vec<Scenario>,

    /// How many objects there are; where it isn't given, as many as the scenario takes for its table
    #[arg(long)]
    objects: Option<usize>,

    /// How many patches are under way at once, for the bare loop and for restow where it is not held back
    #[arg(long, default_value_t = 32)]
    in_flight: usize,

    /// The build of restow that is measured
    #[arg(long, default_value = env!("CARGO_BIN_EXE_restow"))]
    binary: PathBuf,

    /// Where JSON, tables and plots are written
    #[arg(long, default_value = "target/benchmark")]
    out: PathBuf,

    /// Given by `cargo bench`; without it nothing is done
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Conversion None, small objects
    Plain,
    /// The same at the default pace
    DefaultPace,
    /// A conversion webhook
    Webhook,
    /// Objects of 10 KB, with bytes counted
    TenKb,
    /// Objects of 100 KB, with bytes counted
    HundredKb,
    /// Bytes counted
    Bytes,
    /// kill -9 in the middle
    Restart,
    /// A second run with nothing to do
    Again,
    /// What another client waits meanwhile
    Foreground,
    /// Peak memory of the controller at a hundredth, a tenth and all of the objects
    Memory,
}

impl Scenario {
    /// As many objects as give a figure that is worth its time.
    fn objects(self) -> usize {
        match self {
            Self::Plain => 20_000,
            Self::Memory => 200_000,
            Self::Webhook | Self::TenKb | Self::Bytes | Self::Restart | Self::Again => 5000,
            Self::DefaultPace | Self::Foreground => 6000,
            Self::HundredKb => 1000,
        }
    }
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    if !args.bench {
        return;
    }
    std::fs::create_dir_all(&args.out).expect("a directory for what is found");
    let write =
        |name: &str, text: &str| std::fs::write(args.out.join(name), text).expect("write what was found");
    let mut found = Map::new();
    let chosen = if args.scenario.is_empty() { Scenario::value_variants() } else { &args.scenario };
    for scenario in chosen {
        let name = scenario.to_possible_value().expect("it can be chosen").get_name().to_owned();
        let objects = args.objects.unwrap_or_else(|| scenario.objects());
        println!("\n## {name}: {objects} objects, {} in flight\n", args.in_flight);
        let scenario::Found { text, json, plot } = scenario::run(*scenario, &args, objects).await;
        println!("{text}");
        write(&format!("{name}.md"), &text);
        if let Some(plot) = plot {
            write(&format!("{name}.svg"), &plot);
        }
        found.insert(name, json);
        write("benchmark.json", &format!("{:#}\n", Value::Object(found.clone())));
    }
}
