//! What comes: a built-in workload, a trace, or traffic as described.

use std::path::{Path, PathBuf};

use clap::Args;
use llmscaler_engine::{Bounds, Replicas};
use llmscaler_simulator::workload::{Length, Lengths, Replay, Setting, Trace};
use llmscaler_simulator::{Promised, Workload};

use crate::decide::suggestion;
use crate::failure::Failure;

/// The group of the arguments that may name a trace.
pub const TRACES: &str = "traces";

/// The longest latency that can be promised, in seconds: everything keeps it.
const LONGEST: f64 = 1e6;

/// Arguments about what comes, and what was promised for it.
#[derive(Debug, Args)]
pub struct TrafficArguments {
    /// A built-in workload; --list tells them all. The published ramp unless something else is given
    #[arg(long, value_name = "NAME", help_heading = "Traffic", conflicts_with_all = ["trace", "traffic"])]
    workload: Option<String>,
    /// A trace: CSV with the columns t_seconds,prompt_tokens,output_tokens[,reusable_prefix_tokens]
    #[arg(long, value_name = "FILE", help_heading = "Traffic", conflicts_with = "traffic")]
    trace: Option<PathBuf>,
    /// Every request of the trace so many times
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, help_heading = "Traffic", requires = TRACES, allow_hyphen_values = true)]
    multiply: f64,
    /// Each copy is moved by up to so many seconds, either way
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, help_heading = "Traffic", requires = TRACES, allow_hyphen_values = true)]
    shift: f64,
    /// Traffic as described: constant:rate=5,seconds=1h, steps:2x330,4x6m, ramp:from=5,to=10,seconds=1h, day:low=1,high=8,
    /// bursts:rate=5,seconds=2h, on-off:low=1,high=20,on=1m,off=5m,seconds=1h or users:64x6m,128x6m
    #[arg(long, value_name = "SHAPE", help_heading = "Traffic")]
    traffic: Option<String>,
    /// Tokens of the prompts of --traffic: a number, normal:mean=4000,sd=300 or lognormal:median=250,sigma=0.8
    #[arg(long, value_name = "LENGTH", default_value = "normal:mean=4000,sd=300", help_heading = "Traffic", requires = "traffic", conflicts_with_all = ["workload", "trace"])]
    prompts: Length,
    /// Tokens of the answers of --traffic
    #[arg(long, value_name = "LENGTH", default_value = "normal:mean=1000,sd=80", help_heading = "Traffic", requires = "traffic", conflicts_with_all = ["workload", "trace"])]
    answers: Length,
    /// Promised seconds to the first token; the workload's own, or 3, unless given
    #[arg(long, value_name = "SECONDS", help_heading = "Promise", value_parser = seconds, allow_hyphen_values = true)]
    ttft: Option<f64>,
    /// Promised seconds per output token after it; the workload's own, or 0.1, unless given
    #[arg(long, value_name = "SECONDS", help_heading = "Promise", value_parser = seconds, allow_hyphen_values = true)]
    tpot: Option<f64>,
}

/// What is promised and allowed where neither the workload nor the user says so.
const USUAL: Setting =
    Setting { promised: Promised { ttft: 3.0, tpot: 0.1 }, bounds: Bounds { min: Replicas::ONE, max: Replicas::new(40) }, start: 4 };

impl TrafficArguments {
    /// The workload that was asked for.
    pub fn workload(&self) -> Result<Workload, Failure> {
        let workload = match (&self.trace, &self.traffic) {
            (Some(file), _) => self.trace(file)?,
            (None, Some(traffic)) => {
                let lengths = Lengths { prompt: self.prompts.clone(), output: self.answers.clone() };
                Workload::drawn(traffic, lengths, USUAL).map_err(|error| Failure::Simulation(format!("--traffic {error}")))?
            }
            (None, None) => named(self.workload.as_deref().unwrap_or("ramp"))?,
        };
        Ok(self.promise(workload))
    }

    /// The workload of a name, or the trace of a file, scaled as the one that was asked for.
    pub fn other(&self, name: &str) -> Result<Workload, Failure> {
        let file = Path::new(name);
        let workload = if file.extension().is_some() || file.exists() { self.trace(file)? } else { named(name)? };
        Ok(self.promise(workload))
    }

    fn promise(&self, mut workload: Workload) -> Workload {
        let Promised { ttft, tpot } = workload.promised;
        workload.promised = Promised { ttft: self.ttft.unwrap_or(ttft), tpot: self.tpot.unwrap_or(tpot) };
        workload
    }

    fn trace(&self, file: &Path) -> Result<Workload, Failure> {
        let shown = file.display().to_string();
        let csv = std::fs::read(file).map_err(|cause| Failure::Unreadable { file: shown.clone(), cause })?;
        let name = file.file_stem().map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
        let trace = Trace::read(&name, csv.as_slice()).map_err(|error| Failure::Simulation(format!("{shown}: {error}")))?;
        let setting = Setting::of_trace(&name).unwrap_or(USUAL);
        let replay = Replay::new(trace, self.multiply, self.shift).map_err(|error| Failure::Simulation(format!("{shown}: {error}")))?;
        Ok(Workload::from_trace(replay, setting))
    }
}

fn named(name: &str) -> Result<Workload, Failure> {
    Workload::named(name).ok_or_else(|| {
        let known: Vec<&str> = Workload::names().collect();
        let meant = suggestion(name, &known);
        Failure::Simulation(format!("there is no workload {name}{meant}; known are {}, and --trace takes a file", known.join(", ")))
    })
}

fn seconds(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|seconds: &f64| *seconds > 0.0 && *seconds <= LONGEST)
        .ok_or_else(|| format!("write seconds above 0 and up to {LONGEST}, such as 0.1"))
}
