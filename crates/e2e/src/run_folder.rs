//! The two folders of a run: data that goes with it and logs that stay.

use crate::binaries;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// How many past runs' logs stay for a look afterwards.
const KEPT: usize = 10;

/// Removes the data folder once the test process is gone: what a static holds is never dropped.
///
/// An interrupt from the terminal goes to the whole process group, and must not keep it from its work.
const JANITOR: &str = r#"trap '' INT; read -r _
for _ in 1 2 3 4 5; do rm -rf "$0" 2>/dev/null && break; sleep 1; done"#;

/// A run's data folder, removed when the process ends, and its log folder, kept.
#[derive(Debug)]
pub(crate) struct RunFolder {
    data: PathBuf,
    logs: PathBuf,
    // Its stdin is what the janitor waits on.
    _janitor: Child,
}

impl RunFolder {
    /// Makes both folders and forgets the logs of old runs.
    pub(crate) fn create() -> anyhow::Result<Self> {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let data = tempfile::Builder::new().prefix("llmscaler-e2e-").tempdir()?.keep();
        let janitor = Command::new("sh").args(["-c", JANITOR]).arg(&data).stdin(Stdio::piped()).spawn()?;

        let all = binaries::cache().join("logs");
        forget_old(&all);
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let logs = all.join(format!("{seconds}-{}-{run}", std::process::id()));
        std::fs::create_dir_all(&logs)?;
        Ok(Self { data, logs, _janitor: janitor })
    }

    /// The folder of what only the running servers need.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// The folder of the logs.
    pub(crate) fn logs(&self) -> &Path {
        &self.logs
    }
}

fn forget_old(all: &Path) {
    let Ok(entries) = std::fs::read_dir(all) else { return };
    let past = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|run| !is_going_on(run));
    let mut runs: Vec<PathBuf> = past.collect();
    // The names begin with the time.
    runs.sort();
    for run in &runs[..runs.len().saturating_sub(KEPT)] {
        let _ = std::fs::remove_dir_all(run);
    }
}

/// Whether the process still lives that the run is of, by its name: time, process, number. A suite may have more runs than are kept.
fn is_going_on(run: &Path) -> bool {
    let name = run.file_name().unwrap_or_default().to_string_lossy();
    name.split('-').nth(1).is_some_and(|process| Path::new("/proc").join(process).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_goes_on_keeps_its_logs_and_of_the_others_the_newest_do() {
        let all = tempfile::tempdir().unwrap();
        // No process has a number as large.
        let folder = |time: usize, process: u32| all.path().join(format!("{time}-{process}-0"));
        let mine: Vec<PathBuf> = (0..KEPT + 5).map(|time| folder(100 + time, std::process::id())).collect();
        let past: Vec<PathBuf> = (0..KEPT + 5).map(|time| folder(200 + time, u32::MAX)).collect();
        mine.iter().chain(&past).for_each(|folder| std::fs::create_dir(folder).unwrap());
        forget_old(all.path());
        assert!(mine.iter().all(|folder| folder.is_dir()), "a suite with many runs lost the first one's logs while it wrote them");
        let left: Vec<bool> = past.iter().map(|folder| folder.is_dir()).collect();
        assert_eq!(left, [vec![false; 5], vec![true; KEPT]].concat());
    }
}
