//! The built-in workloads, and what is known of public traces.
//!
//! The published ramp is llm-d's SLO benchmark. The others are those on which the headroom law was measured; where that account leaves
//! something open, the comment at the workload says what was taken.

use llmscaler_engine::{Bounds, Replicas};

use super::{Closed, Curve, Length, Lengths, Noise, Open, Replay, Shape, Step, Workload};
use crate::Promised;

pub(super) const NAMES: [&str; 8] = ["ramp", "ramp-warm", "ramp-closed", "short", "rday", "rburst", "lday", "lramp"];

/// No prompt and no answer is longer. Where tails are cut is not in the account; at this length fleets of fixed requests per replica come
/// nearest to its figures on long prompts.
const CONTEXT: u32 = 200_000;

const DAY: f64 = 86_400.0;

/// What is promised and what the fleet may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// The latencies that are promised.
    pub promised: Promised,
    /// Fewest and most replicas.
    pub bounds: Bounds,
    /// Replicas that are ready at the start.
    pub start: u32,
}

/// A workload that is a public trace, scaled; the trace itself is a file of the user's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TracePreset {
    /// What the workload is called.
    pub name: &'static str,
    /// What the trace is called: its file's name without the ending.
    pub trace: &'static str,
    /// How many times each request comes.
    pub multiply: f64,
    /// How far copies are moved at most, in seconds to either side.
    pub shift: f64,
}

/// The workloads that are public traces, scaled.
pub const TRACES: [TracePreset; 6] = [
    TracePreset { name: "conv60", trace: "azure2023_conv", multiply: 10.0, shift: 60.0 },
    TracePreset { name: "conv10", trace: "azure2023_conv", multiply: 10.0, shift: 10.0 },
    TracePreset { name: "code60", trace: "azure2023_code", multiply: 10.0, shift: 60.0 },
    TracePreset { name: "code10", trace: "azure2023_code", multiply: 10.0, shift: 10.0 },
    TracePreset { name: "day", trace: "servegen_m-mid_day", multiply: 40.0, shift: 60.0 },
    TracePreset { name: "moon", trace: "mooncake_synthetic", multiply: 2.0, shift: 60.0 },
];

impl Setting {
    const fn new(ttft: f64, tpot: f64, min: u32, max: u32, start: u32) -> Self {
        let bounds = Bounds { min: Replicas::new(min), max: Replicas::new(max) };
        Self { promised: Promised { ttft, tpot }, bounds, start }
    }

    /// The setting in which a public trace is measured, by the name of the trace.
    #[must_use]
    pub fn of_trace(name: &str) -> Option<Self> {
        match name {
            "azure2023_conv" => Some(Self::new(1.0, 0.05, 2, 40, 6)),
            "azure2023_code" => Some(Self::new(2.0, 0.1, 2, 60, 10)),
            "servegen_m-mid_day" => Some(Self::new(1.0, 0.05, 1, 20, 6)),
            // Bounds and start are not in the account; a static 30 is, and twice the trace takes about ten replicas from the start.
            "mooncake_synthetic" => Some(Self::new(10.0, 0.1, 2, 40, 10)),
            _ => None,
        }
    }
}

/// What a scaled trace is called.
pub(super) fn name_of(replay: &Replay) -> String {
    let (trace, multiply, shift) = (replay.trace().name(), replay.multiply(), replay.shift());
    match TRACES.iter().find(|preset| (preset.trace, preset.multiply, preset.shift) == (trace, multiply, shift)) {
        Some(preset) => preset.name.to_owned(),
        None if (multiply, shift) == (1.0, 0.0) => trace.to_owned(),
        None => format!("{trace} x{multiply} ±{shift} s"),
    }
}

pub(super) fn named(name: &str) -> Option<Workload> {
    let (setting, shape) = match name {
        "ramp" => (Setting::new(3.0, 0.1, 3, 8, 3), ramp()),
        "ramp-warm" => (Setting::new(3.0, 0.1, 3, 8, 8), ramp()),
        "ramp-closed" => (Setting::new(3.0, 0.1, 3, 8, 3), ramp_closed()),
        "short" => (Setting::new(1.0, 0.05, 2, 20, 4), short()),
        "rday" => (Setting::new(2.0, 0.1, 1, 20, 4), poisson(swell(1.0, 8.0, DAY, DAY), reasoning())),
        "rburst" => (Setting::new(2.0, 0.1, 1, 30, 4), rburst()),
        "lday" => (Setting::new(10.0, 0.1, 1, 20, 4), poisson(swell(0.75, 6.0, DAY, DAY), long_chat())),
        "lramp" => (Setting::new(10.0, 0.1, 2, 30, 8), poisson(Curve::Ramp { from: 5.0, to: 10.0, seconds: 3600.0 }, long_chat())),
        _ => return None,
    };
    let Setting { promised, bounds, start } = setting;
    Some(Workload { name: name.to_owned(), promised, bounds, start, shape })
}

fn poisson(curve: Curve, lengths: Lengths) -> Shape {
    Shape::Open(Open { curve, noise: None, batch: 1, lengths })
}

/// The lowest and highest rates are in the account, the course between them is not: nights are as much longer than days here that fleets
/// of fixed requests per replica cost what it says.
fn swell(low: f64, high: f64, period: f64, seconds: f64) -> Curve {
    Curve::Swell { low, high, period, power: 1.5, seconds }
}

fn steps(steps: &[(f64, f64)]) -> Curve {
    Curve::Steps(steps.iter().map(|(rate, seconds)| Step { rate: *rate, seconds: *seconds }).collect())
}

/// About 4,000 tokens in and 1,000 out.
fn ramp_lengths() -> Lengths {
    Lengths {
        prompt: Length::Normal { mean: 4000.0, sd: 300.0, min: 3500, max: 4500 },
        output: Length::Normal { mean: 1000.0, sd: 80.0, min: 900, max: 1100 },
    }
}

fn ramp() -> Shape {
    let course = steps(&[(2.0, 330.0), (4.0, 360.0), (6.0, 360.0), (8.0, 360.0), (10.0, 360.0), (4.0, 360.0), (1.0, 300.0)]);
    poisson(course, ramp_lengths())
}

/// 32 users for each request per second of the ramp, which is what it takes at 30 ms per token; 64 to 320, so the last stage stays at 64.
fn ramp_closed() -> Shape {
    let users = vec![(64, 330.0), (128, 360.0), (192, 360.0), (256, 360.0), (320, 360.0), (128, 360.0), (64, 300.0)];
    Shape::Closed(Closed { users, think: 2.0, lengths: ramp_lengths() })
}

/// 1,500 tokens in and 8 out, 20 to 50 requests per second in steps. Their order and length, the spread of the lengths, bounds and start
/// are not in the account: up and down again in 40 minutes, 20 to 25 % of spread, 2 to 20 replicas from 4.
fn short() -> Shape {
    let course = steps(&[(20.0, 400.0), (30.0, 400.0), (40.0, 400.0), (50.0, 400.0), (30.0, 400.0), (20.0, 400.0)]);
    let prompt = Length::Normal { mean: 1500.0, sd: 300.0, min: 500, max: 2500 };
    poisson(course, Lengths { prompt, output: Length::Normal { mean: 8.0, sd: 2.0, min: 1, max: 16 } })
}

/// Reasoning: prompts of mean 1,300, median 190 and p99 22,000, answers of mean 1,500 and p99 10,800.
fn reasoning() -> Lengths {
    let question = Length::LogNormal { median: 160.0, sigma: 1.0, max: CONTEXT };
    let document = Length::LogNormal { median: 7000.0, sigma: 0.9, max: CONTEXT };
    let prompt = Length::Either(Box::new(question), Box::new(document), 0.1);
    Lengths { prompt, output: Length::LogNormal { median: 800.0, sigma: 1.12, max: CONTEXT } }
}

/// Chat about long prompts: prompts of mean 12,000 and p99 85,000. Of the answers only the mean of 345 is in the account; their spread is
/// taken as usual for chat.
fn long_chat() -> Lengths {
    let prompt = Length::LogNormal { median: 6550.0, sigma: 1.1, max: CONTEXT };
    Lengths { prompt, output: Length::LogNormal { median: 250.0, sigma: 0.8, max: CONTEXT } }
}

/// Two swells of six times in eight hours, on which bursts ride, requests in pairs. The level is not in the account: from 2 to 12 per
/// second fleets of fixed requests per replica cost what it says, or up to a tenth more. Start as for the day.
fn rburst() -> Shape {
    let curve = swell(2.0, 12.0, DAY / 6.0, DAY / 3.0);
    Shape::Open(Open { curve, noise: Some(Noise { sd: 0.35, correlation: 300.0 }), batch: 2, lengths: reasoning() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arrivals, Request};

    fn requests(name: &str, seed: u64) -> Vec<Request> {
        match named(name).unwrap().arrivals(seed) {
            Arrivals::Open(requests) => requests,
            Arrivals::Closed(_) => panic!("{name} is closed"),
        }
    }

    fn mean(values: impl Iterator<Item = u32> + Clone) -> f64 {
        values.clone().map(f64::from).sum::<f64>() / values.count() as f64
    }

    fn quantile(values: impl Iterator<Item = u32>, share: f64) -> f64 {
        let mut values: Vec<_> = values.collect();
        values.sort_unstable();
        f64::from(values[(values.len() as f64 * share) as usize])
    }

    #[track_caller]
    fn near(got: f64, wanted: f64, relative: f64) {
        assert!((got / wanted - 1.0).abs() < relative, "{got} instead of {wanted}");
    }

    #[test]
    fn every_name_has_a_workload_that_can_start() {
        for name in NAMES {
            let workload = named(name).unwrap();
            assert_eq!(workload.name, name);
            assert_eq!(workload.bounds.clamp(Replicas::new(workload.start)).get(), workload.start);
            assert!(workload.span() > 0.0);
        }
        assert_eq!(named("nothing"), None);
        for preset in TRACES {
            assert!(Setting::of_trace(preset.trace).is_some(), "{}", preset.trace);
            assert_eq!(named(preset.name), None);
        }
    }

    #[test]
    fn same_seed_same_requests() {
        for name in NAMES.iter().filter(|name| !name.ends_with("day")) {
            let workload = named(name).unwrap();
            assert_eq!(workload.arrivals(5), workload.arrivals(5), "{name}");
            assert_ne!(workload.arrivals(5), workload.arrivals(6), "{name}");
        }
    }

    #[test]
    fn the_ramp_has_the_published_stages_and_lengths() {
        let stages = [(2.0, 330.0), (4.0, 360.0), (6.0, 360.0), (8.0, 360.0), (10.0, 360.0), (4.0, 360.0), (1.0, 300.0)];
        let runs: Vec<_> = (1..=10).map(|seed| requests("ramp", seed)).collect();
        let mut from = 0.0;
        for (rate, seconds) in stages {
            let count: usize =
                runs.iter().map(|run| run.iter().filter(|request| (from..from + seconds).contains(&request.at)).count()).sum();
            near(count as f64 / 10.0 / seconds, rate, 0.05);
            from += seconds;
        }
        assert_eq!(named("ramp").unwrap().span(), 2430.0);
        near(runs.iter().map(Vec::len).sum::<usize>() as f64 / 10.0, 12_480.0, 0.01);
        let all = runs.iter().flatten();
        near(mean(all.clone().map(|request| request.prompt)), 4000.0, 0.005);
        near(mean(all.clone().map(|request| request.output)), 1000.0, 0.005);
        assert!(all.clone().all(|request| (3500..=4500).contains(&request.prompt) && (900..=1100).contains(&request.output)));
    }

    #[test]
    fn reasoning_has_the_moments_of_the_account() {
        let day = requests("rday", 1);
        // The mean of ((1 − cos)/2)^1.5 is 4/(3π).
        near(day.len() as f64, (1.0 + 7.0 * 4.0 / (3.0 * std::f64::consts::PI)) * DAY, 0.01);
        near(mean(day.iter().map(|request| request.prompt)), 1300.0, 0.03);
        near(quantile(day.iter().map(|request| request.prompt), 0.5), 190.0, 0.05);
        near(quantile(day.iter().map(|request| request.prompt), 0.99), 22_000.0, 0.05);
        near(mean(day.iter().map(|request| request.output)), 1500.0, 0.03);
        near(quantile(day.iter().map(|request| request.output), 0.99), 10_800.0, 0.05);
    }

    #[test]
    fn long_chat_has_the_moments_of_the_account() {
        let day = requests("lday", 1);
        near(day.len() as f64, (0.75 + 5.25 * 4.0 / (3.0 * std::f64::consts::PI)) * DAY, 0.01);
        near(mean(day.iter().map(|request| request.prompt)), 12_000.0, 0.03);
        near(quantile(day.iter().map(|request| request.prompt), 0.99), 85_000.0, 0.05);
        near(mean(day.iter().map(|request| request.output)), 345.0, 0.03);
    }

    #[test]
    fn closed_loop_follows_the_ramp() {
        let Arrivals::Closed(clients) = named("ramp-closed").unwrap().arrivals(1) else { panic!() };
        assert_eq!(clients.users[..3], [(0.0, 64), (330.0, 128), (690.0, 192)]);
        assert_eq!((clients.users.len(), clients.think, clients.until), (7, 2.0, 2430.0));
        assert!(clients.lengths.len() > 12_480);
    }

    #[test]
    fn scaled_traces_are_called_by_their_short_names() {
        let name = |trace: &str, multiply, shift| {
            let trace = crate::workload::Trace::read(trace, &b"t_seconds,prompt_tokens,output_tokens\n0,1,1\n3600,1,1\n"[..]).unwrap();
            let setting = Setting::of_trace("azure2023_code").unwrap();
            Workload::from_trace(Replay::new(trace, multiply, shift).unwrap(), setting).name
        };
        assert_eq!(name("azure2023_conv", 10.0, 60.0), "conv60");
        assert_eq!(name("azure2023_conv", 5.0, 60.0), "azure2023_conv x5 ±60 s");
        assert_eq!(name("mine", 1.0, 0.0), "mine");
    }

    #[test]
    fn a_description_has_all_that_matters() {
        assert_eq!(
            named("rburst").unwrap().describe(),
            "rburst: 8 h of 2 to 12 requests/s and back in 4 h, a sine to the power of 1.5, times a noise of sd 0.35 that lasts 5 min, Poisson in batches of 2; prompts \
             90% lognormal(median 160, sigma 1.00) up to 200000 and 10% lognormal(median 7000, sigma 0.90) up to 200000, answers \
             lognormal(median 800, sigma 1.12) up to 200000 tokens; promised 2 s to the first token and 100 ms per token; 1 to 30 replicas \
             from 4"
        );
        let trace = crate::workload::Trace::read("azure2023_code", &b"t_seconds,prompt_tokens,output_tokens\n90,1,1\n0,1,1\n"[..]).unwrap();
        let setting = Setting::of_trace("azure2023_code").unwrap();
        assert_eq!(
            Workload::from_trace(Replay::new(trace, 2.5, 10.0).unwrap(), setting).describe(),
            "azure2023_code x2.5 ±10 s: trace azure2023_code (2 requests in 1 min 30 s, sorted by time), each request 2.5 times, each copy \
             moved by up to ±10 s; promised 2 s to the first token and 100 ms per token; 2 to 60 replicas from 10"
        );
        assert!(
            named("ramp-closed").unwrap().describe().starts_with("ramp-closed: 40 min 30 s of 64, 128, 192, 256, 320, 128, 64 users who")
        );
    }
}
