//! Where the binaries are that are built for the tests, and what happens to the tests when they are not there.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Each server that a control plane consists of.
const NAMES: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "prometheus"];

/// The root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The ignored folder of what was built for the control plane, and of the logs of its runs.
pub(crate) fn cache() -> PathBuf {
    repository().join(".cache/control-plane")
}

/// The folder of the servers' binaries; otherwise as [`built`].
pub(crate) fn folder() -> Option<PathBuf> {
    built("control-plane", &NAMES)
}

/// The folder of what `make TARGET` builds, or `None`, with a sentence on stderr, when one of these was never built.
///
/// # Panics
/// When one is missing and `LLMSCALER_E2E=require` is set, so that CI cannot pass by skipping everything.
#[must_use]
pub fn built(target: &str, names: &[&str]) -> Option<PathBuf> {
    static ANNOUNCED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let folder = repository().join(".cache").join(target).join("bin");
    let missing: Vec<_> = names.iter().copied().filter(|name| !folder.join(name).is_file()).collect();
    if missing.is_empty() {
        return Some(folder);
    }
    let sentence = format!("end-to-end tests need {}, built once by `make {target}` (some minutes, needs Go)", missing.join(", "));
    assert!(std::env::var("LLMSCALER_E2E").as_deref() != Ok("require"), "{sentence}");
    // The handle, because the print macros are captured, and a skipped test looks like a passed one.
    if ANNOUNCED.lock().unwrap().insert(sentence.clone()) {
        let _ = writeln!(std::io::stderr(), "skipped: {sentence}");
    }
    None
}
