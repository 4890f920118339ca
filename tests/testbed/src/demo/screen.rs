//! What the demo looks like: numbered steps, indented lines, a bar where there is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, Write as _};

/// The bar of a running migration.
const BAR: &str = "     {bar:30} {pos}/{len} {msg}";

/// Where the demo writes to: standard output, and standard error for the bar.
#[derive(Debug, Default)]
pub struct Screen {
    steps: usize,
}

impl Screen {
    /// Begins the next step.
    pub fn step(&mut self, text: &str) {
        self.steps += 1;
        self.write(&format!("\n{:>2}. {text}", self.steps));
    }

    /// A line of what the step shows.
    pub fn line(&self, text: &str) {
        self.write(&format!("    {text}"));
    }

    /// Words of somebody else.
    pub fn quote(&self, text: &str) {
        for line in text.lines() {
            self.write(&format!("    | {line}"));
        }
    }

    /// A name and what stands behind it.
    pub fn entry(&self, name: &str, value: &str) {
        self.write(&format!("    {name:<15} {value}"));
    }

    /// A line at the margin.
    pub fn write(&self, text: &str) {
        // Whoever closed the pipe has seen enough; what the demo checks is worth going on for.
        let _ = writeln!(io::stdout(), "{text}");
    }

    /// A bar for a migration of so many objects. Without a terminal it is hidden.
    #[must_use]
    pub fn bar(&self, objects: u32) -> ProgressBar {
        let bar = ProgressBar::new(objects.into());
        match ProgressStyle::with_template(BAR) {
            Ok(style) => bar.with_style(style.progress_chars("█▌░")),
            Err(_) => bar,
        }
    }
}
