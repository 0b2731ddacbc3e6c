//! The public traces, where the environment variable `LLMSCALER_TRACES` names the folder that has them as
//! `t_seconds,prompt_tokens,output_tokens` files. They are not part of this repository.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "what helps a test may fail it, and says when it does nothing")]

use std::fs::File;
use std::path::{Path, PathBuf};

use llmscaler_engine::Profile;
use llmscaler_simulator::metrics::PipelineSettings;
use llmscaler_simulator::outcome::Outcome;
use llmscaler_simulator::policy::{self, named};
use llmscaler_simulator::report::Summary;
use llmscaler_simulator::scenario::FleetSettings;
use llmscaler_simulator::workload::{Replay, Setting, TRACES, Trace, TracePreset};
use llmscaler_simulator::{Arrivals, Request, Scenario, Workload};

/// The folder of the traces; without one the tests say that they have nothing to look at.
fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("LLMSCALER_TRACES").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: LLMSCALER_TRACES names no folder of traces");
    }
    folder
}

fn read(folder: &Path, name: &str) -> Trace {
    let path = folder.join(format!("{name}.csv"));
    Trace::read(name, File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).unwrap()
}

fn workload(folder: &Path, preset: TracePreset) -> Workload {
    let replay = Replay::new(read(folder, preset.trace), preset.multiply, preset.shift).unwrap();
    Workload::from_trace(replay, Setting::of_trace(preset.trace).unwrap())
}

fn requests(workload: &Workload, seed: u64) -> Vec<Request> {
    match workload.arrivals(seed) {
        Arrivals::Open(requests) => requests,
        Arrivals::Closed(_) => panic!("a trace does not wait for answers"),
    }
}

#[test]
fn traces_have_the_counts_and_lengths_that_are_known_of_them() {
    let Some(folder) = folder() else { return };
    for (name, count, minutes, prompt, output) in [
        ("azure2023_conv", 19_366, 58.0, 1155.0, 211.0),
        ("azure2023_code", 8_819, 57.0, 2048.0, 28.0),
        ("mooncake_synthetic", 3_993, 17.0, 15_325.0, 149.0),
        ("servegen_m-mid_day", 103_335, 1440.0, 373.0, 53.0),
    ] {
        let trace = read(&folder, name);
        let mean =
            |tokens: fn(&Request) -> u32| trace.requests().iter().map(|request| f64::from(tokens(request))).sum::<f64>() / f64::from(count);
        assert_eq!(trace.requests().len(), count as usize, "{name}");
        assert!((trace.seconds() / 60.0 - minutes).abs() <= 0.6, "{name}: {} s", trace.seconds());
        assert!((mean(|request| request.prompt) - prompt).abs() <= 0.5, "{name}: {}", mean(|request| request.prompt));
        assert!((mean(|request| request.output) - output).abs() <= 0.5, "{name}: {}", mean(|request| request.output));
    }
}

#[test]
fn presets_scale_them_and_keep_their_minutes() {
    let Some(folder) = folder() else { return };
    for preset in TRACES {
        let trace = read(&folder, preset.trace);
        let workload = workload(&folder, preset);
        assert_eq!(workload.name, preset.name);
        let copies = requests(&workload, 1);
        assert_eq!(copies.len(), trace.requests().len() * preset.multiply as usize);

        let minutes = (trace.seconds() / 60.0) as usize + 1;
        let counts = |requests: &[Request]| {
            let mut counts = vec![0.0; minutes];
            requests.iter().for_each(|request| counts[(request.at / 60.0) as usize] += 1.0);
            counts
        };
        // A shift moves what is within it of a boundary; within three minutes the counts are those of the trace.
        let smooth = |counts: Vec<f64>| counts.windows(3).map(|three| three.iter().sum::<f64>()).collect::<Vec<_>>();
        let (before, after) = (smooth(counts(trace.requests())), smooth(counts(&copies)));
        let error: f64 = before.iter().zip(&after).map(|(before, after)| (before * preset.multiply - after).abs()).sum();
        let share = error / after.iter().sum::<f64>();
        assert!(share < if preset.trace == "azure2023_code" { 0.2 } else { 0.1 }, "{}: {share}", preset.name);
    }
}

/// What the law was specified with: 99.59 % (99.5 to 99.7) at 18.0 GPU-hours (17.6 to 18.4), and 99.40 % (99.3 to 99.6) at 24.6 (24.3 to
/// 24.8). Ours may have a third of a point less, or cost as much more as the seeds differ.
#[test]
fn headroom_keeps_promises_on_traces_for_what_it_was_specified_with() {
    let Some(folder) = folder() else { return };
    for (name, attainment, gpu_hours) in [("conv60", 0.993, 18.6), ("code60", 0.991, 25.0)] {
        let preset = TRACES.into_iter().find(|preset| preset.name == name).unwrap();
        let profile = Profile::named(Profile::DEFAULT).unwrap().clone();
        let (fleet, pipeline) = (FleetSettings::default(), PipelineSettings::default());
        let scenario = Scenario { workload: workload(&folder, preset), profile, fleet, pipeline };
        let (workload, costs) = (&scenario.workload, scenario.profile.costs);
        let setting = policy::Setting { promised: workload.promised, bounds: workload.bounds, costs, profile_given: true };
        let runs: Vec<Outcome> = (1..=3).map(|seed| scenario.run(&mut *named("headroom", &setting).unwrap(), seed)).collect();
        let mean = Summary::of(&runs);
        let (kept, cost) = (mean.attainment.mean, mean.gpu_hours.mean);
        assert!(kept >= attainment && cost <= gpu_hours && cost > 0.8 * gpu_hours, "{name}: {kept} at {cost}");
    }
}
