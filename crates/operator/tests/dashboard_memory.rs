//! What the dashboard keeps of a scaler, as this process's own memory shows it; by itself, so that nothing else grows meanwhile.

#![allow(clippy::unwrap_used, reason = "what helps a test may fail it")]

#[path = "dashboard/fleet.rs"]
mod fleet;

use std::fs;
use std::io::Write as _;

use llmscaler_operator::dashboard::{History, SAMPLES};

use crate::fleet::Scaler;

const SCALERS: usize = 200;

/// Resident memory in bytes; pages are 4 KiB where this runs.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Feeds one scaler until all its lists are full: the load swings, so that each sync is a decision to keep.
fn feed(history: &History, number: usize) {
    let mut scaler = Scaler::new("serving", &format!("fleet-{number}"), 8, 0);
    for sync in 0..SAMPLES + 20 {
        let queued = (sync % 7 != 0).then_some(5.0 + (sync % 30) as f64);
        scaler.sync(history, queued, Some(0.01));
    }
    assert!(scaler.replicas() > 2, "it has scaled");
}

#[test]
#[cfg(target_os = "linux")]
fn a_scaler_takes_less_than_sixty_kibibytes() {
    let history = History::new();
    // What the first one needs, the others share.
    feed(&history, SCALERS);
    let before = resident();
    (0..SCALERS).for_each(|number| feed(&history, number));
    let each = resident().saturating_sub(before) / SCALERS;
    let _ = writeln!(std::io::stderr(), "the dashboard keeps {each} bytes of a scaler with two signals");
    assert!((1..60 * 1024).contains(&each), "{each} bytes");
}
