//! `restow leftovers`: what is still to do before an old version leaves, and is not restow's to do. It writes nothing.

use std::io::{self, Write};
use std::str::FromStr;

use super::Exit;
use super::resource::Resource;
use super::session::SessionArgs;
use crate::cluster::{Cluster, Gate};
use crate::plan::{Failure, LastingVersion, Leftover};

/// What `--help` says of exit codes.
pub(super) const HELP: &str = "\
Exit codes:
  0  nothing names another version than the storage version
  1  failed
  2  the command line can't be understood
  3  something does; it is on standard output";

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// The custom resource, by its plural name and its group, for example crontabs.example.com
    #[arg(value_name = "PLURAL.GROUP")]
    resource: Resource,

    /// Look for ownerReferences to it in this resource, too, for example configmaps or deployments.apps
    #[arg(long = "in", value_name = "PLURAL[.GROUP]")]
    children: Vec<Child>,

    #[command(flatten)]
    session: SessionArgs,
}

/// A resource of any kind, built in or not.
#[derive(Clone, Debug)]
struct Child {
    group: String,
    plural: String,
}

/// Why the search could not be brought to its end.
#[derive(Debug, thiserror::Error)]
enum LeftoversError {
    #[error("there is no CustomResourceDefinition {0}")]
    NoCrd(String),
    #[error("read {what}: {failure}")]
    Read { what: String, failure: Failure },
    #[error("write to standard output")]
    Write(#[from] io::Error),
    #[error("interrupted")]
    Interrupted,
}

#[derive(Default)]
struct Counts {
    objects: usize,
    owners: usize,
    managers: usize,
}

impl FromStr for Child {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (plural, group) = text.split_once('.').unwrap_or((text, ""));
        if plural.is_empty() || text.contains('/') || text.chars().any(char::is_uppercase) {
            return Err("expected a plural name in lower case and its group, if it has one".to_owned());
        }
        Ok(Self { group: group.to_owned(), plural: plural.to_owned() })
    }
}

pub(super) async fn run(args: Args) -> Exit {
    let (cluster, stop) = match args.session.begin(Gate::open()).await {
        Ok(begun) => begun,
        Err(exit) => return exit,
    };
    let searched = tokio::select! {
        searched = search(&cluster, &args) => searched,
        () = stop.cancelled() => Err(LeftoversError::Interrupted),
    };
    match searched {
        Ok(Counts { owners: 0, managers: 0, .. }) => Exit::Done,
        Ok(_) => Exit::Found,
        Err(LeftoversError::Write(error)) => Exit::Found.after_output(Err(error)),
        Err(error) => Exit::fail(&error),
    }
}

async fn search(cluster: &Cluster, args: &Args) -> Result<Counts, LeftoversError> {
    let resource = &args.resource.0;
    let name = resource.crd_name();
    let failed = |failure| LeftoversError::Read { what: name.clone(), failure };
    let lasting = cluster.lasting_version(&name).await.map_err(failed)?;
    let lasting = lasting.ok_or_else(|| LeftoversError::NoCrd(name.clone()))?;
    let mut counts = Counts::default();
    let own = format!("/apis/{}/{}/{}", lasting.group, lasting.version, resource.resource);
    search_in(cluster, &lasting, (&name, &own), true, &mut counts).await?;
    for child in &args.children {
        let Child { group, plural } = child;
        let what = if group.is_empty() { plural.clone() } else { format!("{plural}.{group}") };
        let path = cluster.collection(group, plural).await;
        let path = path.map_err(|failure| LeftoversError::Read { what: what.clone(), failure })?;
        search_in(cluster, &lasting, (&what, &path), false, &mut counts).await?;
    }
    let Counts { objects, owners, managers } = counts;
    let version = &lasting.version;
    writeln!(
        io::stdout(),
        "{objects} objects: {owners} ownerReferences and {managers} managedFields name another version than {version}"
    )?;
    Ok(counts)
}

/// Searches one resource page by page. What is found is printed at once, so that nothing of it is kept.
async fn search_in(
    cluster: &Cluster,
    lasting: &LastingVersion,
    (what, path): (&str, &str),
    is_own: bool,
    counts: &mut Counts,
) -> Result<(), LeftoversError> {
    let mut token = None;
    loop {
        let page = cluster.mentions(path, token).await;
        let page = page.map_err(|failure| LeftoversError::Read { what: what.to_owned(), failure })?;
        let mut out = io::stdout().lock();
        for (name, mentions) in page.objects {
            counts.objects += 1;
            for leftover in lasting.leftovers(mentions, is_own) {
                writeln!(out, "{what} {name}: {leftover}")?;
                match leftover {
                    Leftover::Owner(_) => counts.owners += 1,
                    Leftover::Manager(_) => counts.managers += 1,
                }
            }
        }
        token = page.continue_token;
        if token.is_none() {
            return Ok(());
        }
    }
}
