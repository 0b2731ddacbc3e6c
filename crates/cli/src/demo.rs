//! `llmscaler demo`: the operator at work, in one process and in compressed time.
//!
//! A Kubernetes API, fleets of simulated vLLM replicas with their endpoint pickers, traffic, and the operator itself with its
//! dashboard. All of it is on loopback, and ends with the command.

mod cast;
mod commentary;
mod duration;
mod scenario;
mod stage;
mod summary;
mod traffic;

use std::io::Write;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use futures::{StreamExt, TryStreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, ResourceExt};
use llmscaler_api::LLMScaler;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::commentary::{Commentary, Line, Moment};
use self::scenario::Scenario;
use self::stage::Stage;
use crate::failure::Failure;
use crate::operator::shutdown;

/// Where the dashboard is unless something else is asked for or is there already.
const PORT: u16 = 8082;

/// How often the demo looks what is due.
const TICK: Duration = Duration::from_millis(50);

/// The fastest that time may go: a sync period of 15 s takes 62 ms then.
const FASTEST: u32 = 240;

/// Arguments of `llmscaler demo`.
#[derive(Debug, Args)]
pub struct DemoArguments {
    /// What happens; --list tells of each
    #[arg(long, value_name = "NAME", default_value = scenario::USUAL, value_parser = PossibleValuesParser::new(scenario::NAMES))]
    scenario: String,
    /// How many times as fast as time it goes, 1 to 240; each scenario has its own
    #[arg(long, value_name = "TIMES", value_parser = speed, allow_hyphen_values = true)]
    speed: Option<NonZeroU32>,
    /// Port of the dashboard on 127.0.0.1; 8082, or any that is free, unless given
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// One more LLMScaler, in YAML or JSON, on a fleet of its own under the same traffic. Its target and its source become the demo's
    #[arg(long, value_name = "FILE")]
    scaler: Option<PathBuf>,
    /// End by itself after so long, such as 90s, 4m30s or 1h
    #[arg(long, value_name = "TIME", value_parser = duration::parse, allow_hyphen_values = true)]
    duration: Option<Duration>,
    /// Print the scenarios, and end
    #[arg(long)]
    list: bool,
}

fn speed(text: &str) -> Result<NonZeroU32, String> {
    let wrong = || format!("write a whole number from 1 to {FASTEST}, such as 60");
    text.parse().ok().filter(|speed: &NonZeroU32| speed.get() <= FASTEST).ok_or_else(wrong)
}

/// Runs the demo until it is told to end.
pub fn run(arguments: &DemoArguments, out: &mut impl Write) -> Result<(), Failure> {
    if arguments.list {
        return scenario::list(out).map_err(Failure::Output);
    }
    let Some(scenario) = Scenario::named(&arguments.scenario) else {
        return Err(Failure::Demo(format!("there is no scenario {}; --list tells them all", arguments.scenario)));
    };
    let guest = arguments.scaler.as_deref().map(cast::guest).transpose()?;
    // Once for the process, before the first connection. It fails only when there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| Failure::Demo(error.to_string()))?;
    runtime.block_on(async {
        let shutdown = shutdown()?;
        let speed = arguments.speed.unwrap_or(scenario.speed);
        let mut stage = Stage::set(scenario, speed, guest, arguments.port, &shutdown).await?;
        out.write_all(stage.opening().as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)?;
        let played = play(&mut stage, arguments.duration, out).await;
        let summary = summary::table(&stage);
        shutdown.cancel();
        stage.end().await;
        played?;
        out.write_all(summary.as_bytes()).map_err(Failure::Output)
    })
}

/// Tells what happens, until somebody wants it to end or the time is over.
async fn play(stage: &mut Stage, duration: Option<Duration>, out: &mut impl Write) -> Result<(), Failure> {
    let scalers: Api<LLMScaler> = Api::namespaced(stage.client.clone(), stage::NAMESPACE);
    let mut seen = watcher(scalers, watcher::Config::default()).default_backoff().applied_objects().boxed();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let end = async {
        match duration {
            Some(duration) => tokio::time::sleep(duration).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(end);
    let mut commentary = Commentary::default();
    let mut busy = Busy::default();
    let shutdown = stage.shutdown.clone();
    loop {
        let mut lines = vec![];
        // In this order: at the shutdown the operator ends, too, which is no failure then.
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            () = &mut end => return Ok(()),
            failed = stage.operator_ended() => return Err(failed),
            _ = ticks.tick() => {
                // What was kept back is older than what is due now.
                lines.extend(commentary.overdue(Instant::now()));
                let due = stage.go_on().await?.into_iter().chain(busy.tell(stage.behind()).map(str::to_owned));
                lines.extend(due.map(|text| Line { at: stage.own_time(), text }));
            }
            seen = seen.try_next() => if let Ok(Some(scaler)) = seen && let Some(status) = &scaler.status {
                let now = Moment { real: Instant::now(), own: stage.own_time() };
                lines.extend(commentary.hear(&scaler.name_any(), status, now));
            },
        }
        for Line { at, text } in &lines {
            writeln!(out, "{}  {text}", at.strftime("%H:%M:%S")).map_err(Failure::Output)?;
        }
        if !lines.is_empty() {
            out.flush().map_err(Failure::Output)?;
        }
    }
}

/// Whether it was told that the machine has no time for the demo.
#[derive(Debug, Default)]
struct Busy(bool);

impl Busy {
    /// What is to be told, once, when the machine was behind for so many seconds of the demo's time.
    fn tell(&mut self, behind: f64) -> Option<&'static str> {
        let news = !self.0 && behind > summary::BEARABLE;
        self.0 |= news;
        news.then_some(
            "* this machine is too busy for the speed: pods and syncs come late, and fewer requests are in time for that; try a lower --speed",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_told_of_once() {
        let mut busy = Busy::default();
        let told = [0.0, summary::BEARABLE, 61.0, 61.0, 500.0].map(|behind| busy.tell(behind).is_some());
        assert_eq!(told, [false, false, true, false, false]);
    }

    #[test]
    fn speeds_are_whole_and_not_too_fast() {
        assert_eq!(speed("60").unwrap().get(), 60);
        for wrong in ["0", "241", "1.5", "fast", ""] {
            assert!(speed(wrong).unwrap_err().contains("such as 60"), "{wrong}");
        }
    }
}
