//! The two folders of a run: data that goes with it and logs that stay.

use crate::binaries;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// How many runs' logs stay for a look afterwards.
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
    let mut runs: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // The names begin with the time.
    runs.sort();
    for run in &runs[..runs.len().saturating_sub(KEPT - 1)] {
        let _ = std::fs::remove_dir_all(run);
    }
}
