//! What the resource lets users name is what the presets know.

use llmscaler_api::{PresetName, Signal};
use llmscaler_signals::preset::{self, Preset};

fn preset(name: PresetName) -> &'static Preset {
    Preset::named(name.as_str()).unwrap_or_else(|| panic!("no table for preset {name}"))
}

#[test]
fn every_preset_has_its_table() {
    assert_eq!(PresetName::ALL.map(PresetName::as_str).as_slice(), Preset::names().collect::<Vec<_>>());
}

#[test]
fn every_signal_is_one_that_the_presets_measure() {
    for name in PresetName::ALL {
        for signal in Signal::ALL {
            let known: preset::Signal = signal.as_str().parse().unwrap();
            assert_eq!(name.emits(signal), preset(name).signals().any(|measured| measured == known), "{name} {signal}");
        }
    }
}

#[test]
fn every_preset_measures_both_latencies() {
    for name in PresetName::ALL {
        for latency in [preset::Signal::Ttft, preset::Signal::Tpot] {
            assert!(preset(name).row(latency).is_some(), "{name} {latency}");
        }
    }
}
