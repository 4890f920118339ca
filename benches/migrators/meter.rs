//! What processes cost, by the kernel's own count.

use std::fs;
use std::path::Path;

/// The name of the thread that the webhook runs on.
pub(crate) const WEBHOOK: &str = "webhook";

/// Of a second: `sysconf(_SC_CLK_TCK)` on Linux.
const TICKS: f64 = 100.0;

/// The seconds of CPU that a process has used; `None` if it has ended.
pub(crate) fn cpu_seconds(pid: i32) -> Option<f64> {
    ticks(Path::new(&format!("/proc/{pid}/stat")))
}

/// The most memory that a process had in use, in KiB; `None` if it has ended.
pub(crate) fn peak_kib(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// The seconds of CPU that the webhook's thread has used.
pub(crate) fn webhook_seconds() -> f64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let own = tasks
        .filter(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == WEBHOOK));
    own.filter_map(|task| ticks(&task.path().join("stat"))).sum()
}

fn ticks(stat: &Path) -> Option<f64> {
    let stat = fs::read_to_string(stat).ok()?;
    // After the name, which may hold anything: user and system time are the 12th and 13th of what follows.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS)
}
