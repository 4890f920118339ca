//! Logs: where they go, in which form, and how much of them.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

/// How to log.
#[derive(Clone, Debug, Args)]
pub(super) struct LogArgs {
    /// How much to log: error, warn, info, debug, trace, or a filter such as `restow=debug,kube=info`
    #[arg(long, value_name = "FILTER", env = "RESTOW_LOG", default_value = "info")]
    log: String,

    /// The form of log lines, on standard error
    #[arg(long, value_name = "FORM", env = "RESTOW_LOG_FORMAT", default_value = "text")]
    log_format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// The filter can't be read.
#[derive(Debug, thiserror::Error)]
#[error("read the log filter {filter:?}")]
pub(super) struct LogError {
    filter: String,
    source: tracing_subscriber::filter::ParseError,
}

impl LogArgs {
    /// Starts logging.
    pub(super) fn start(&self) -> Result<(), LogError> {
        // kube logs each refused request as an error; here they are counted, shown and acted upon.
        // Its spans would put the name of each StorageMigration before lines that say it already.
        let directives = format!("kube_client=off,kube_runtime=warn,{}", self.log);
        let filter =
            EnvFilter::try_new(directives).map_err(|source| LogError { filter: self.log.clone(), source })?;
        let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        // Colours are for eyes: in a file or a log collector they are noise.
        let lines = if std::io::stderr().is_terminal() { lines } else { lines.with_ansi(false) };
        match self.log_format {
            Format::Text => lines.with_target(false).init(),
            Format::Json => lines.json().flatten_event(true).with_target(false).init(),
        }
        Ok(())
    }
}
