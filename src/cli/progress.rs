//! Progress of the one-shot command: a bar on a terminal, log lines otherwise.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use crate::api::{Reason, StorageMigrationStatus, TargetResource};
use crate::plan::Finding;

/// How often a phase that lasts is logged again.
const LOG_PAUSE: Duration = Duration::from_secs(10);

/// All bars.
#[derive(Debug)]
pub(super) struct Progress {
    bars: MultiProgress,
}

/// One migration's bar, or its lines.
#[derive(Debug)]
pub(super) struct Line {
    bar: Option<ProgressBar>,
    resource: String,
    logged: Option<(Reason, Instant)>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { bars: MultiProgress::with_draw_target(ProgressDrawTarget::stderr()) }
    }

    pub(super) fn line(&self, resource: &TargetResource) -> Line {
        let resource = resource.to_string();
        let bar = (!self.bars.is_hidden()).then(|| {
            let bar = self.bars.add(ProgressBar::new(0).with_prefix(resource.clone()));
            let form = "{prefix:30} {bar:30} {pos}/{len} {percent}% {per_sec} {msg}";
            bar.with_style(
                ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar()),
            )
        });
        Line { bar, resource, logged: None }
    }

    pub(super) fn clear(&self) {
        // Only a terminal that is gone can fail here.
        drop(self.bars.clear());
    }
}

impl Line {
    pub(super) fn show(&mut self, finding: &Finding, status: &StorageMigrationStatus) {
        if let Some(bar) = &self.bar {
            if let Some(progress) = &status.progress {
                bar.set_length(progress.total);
                bar.set_position(progress.visited);
            }
            bar.set_message(finding.reason.to_string());
            bar.tick();
            return;
        }
        let due =
            self.logged.is_none_or(|(reason, at)| reason != finding.reason || at.elapsed() >= LOG_PAUSE);
        if due {
            self.logged = Some((finding.reason, Instant::now()));
            tracing::info!(target = self.resource, reason = finding.reason.as_str(), "{}", finding.message);
        }
    }
}
