//! Whatever a pod serves as its metrics: no panic, no number that is none, and the same whoever reads it.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use llmscaler_engine::{Reading, Time};
use llmscaler_signals::preset::{Aggregate, Latency, Preset, Signal};
use llmscaler_signals::scrape::exposition::Line;
use llmscaler_signals::scrape::{PodPage, Scrape};

/// Between the two pages of an input, which otherwise is both.
const NEXT_PAGE: u8 = 0x1e;

fuzz_target!(|input: &[u8]| {
    let mut pages = input.splitn(2, |&byte| byte == NEXT_PAGE);
    let first = pages.next().unwrap_or_default();
    let second = pages.next().unwrap_or(first);
    for name in Preset::names() {
        let preset = Preset::named(name).expect("it has that name");
        let mut scrape = Scrape::new(preset, true, Signal::ALL, &BTreeMap::new(), Scrape::SHORTEST_WINDOW);
        for (page, at) in [first, second].into_iter().zip([0, 15_000]) {
            let now = Time::from_millis(at);
            let pods = ["a", "b", "c"].map(|pod| PodPage { name: pod, uid: pod, page: Ok(page) });
            scrape.read(&pods, &[("http://router".to_owned(), Ok(page))], now);
            for signal in Signal::ALL {
                if let Reading::Unknown(why) = scrape.signal(signal, Aggregate::Total, now) {
                    assert!(why.len() < 4096 && !why.chars().any(char::is_control), "{why:?}");
                }
                assert!(scrape.pods_with(signal, now).values().all(|value| value.is_finite()));
            }
            let _ = (scrape.latency(Latency::Ttft, 0.9, now), scrape.latency(Latency::Tpot, 0.9, now), scrape.problems(now));
        }
    }
    for line in first.split(|&byte| byte == b'\n') {
        if let Ok(Some(line)) = Line::of(line)
            && let Ok(sample) = line.sample()
        {
            assert!(sample.labels.iter().enumerate().all(|(i, (name, _))| sample.labels[..i].iter().all(|(other, _)| other != name)));
        }
    }
});
