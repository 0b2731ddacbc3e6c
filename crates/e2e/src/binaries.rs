//! Where the servers' binaries are, and what happens to the tests when they are not there.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Once;

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

/// The folder of the binaries, or `None`, with a sentence on stderr, when they were never built.
///
/// # Panics
/// When they are missing and `LLMSCALER_E2E=require` is set, so that CI cannot pass by skipping everything.
pub(crate) fn folder() -> Option<PathBuf> {
    static ANNOUNCED: Once = Once::new();
    let folder = cache().join("bin");
    let missing: Vec<_> = NAMES.into_iter().filter(|name| !folder.join(name).is_file()).collect();
    if missing.is_empty() {
        return Some(folder);
    }
    let sentence = format!("end-to-end tests need {}, built once by `make control-plane` (about 6 minutes, needs Go)", missing.join(", "));
    assert!(std::env::var("LLMSCALER_E2E").as_deref() != Ok("require"), "{sentence}");
    // The handle, because the print macros are captured, and a skipped test looks like a passed one.
    ANNOUNCED.call_once(|| {
        let _ = writeln!(std::io::stderr(), "skipped: {sentence}");
    });
    None
}
