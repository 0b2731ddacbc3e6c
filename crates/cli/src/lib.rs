//! `llmscaler`: scales LLM inference workloads on Kubernetes, and shows how it decides.
//!
//! Arguments and output only. The binary calls [`run`]; what is written about the command, such as its completions, is made from
//! [`command`].

mod advice;
mod cluster;
mod crd;
mod decide;
#[cfg(feature = "simulated-fleets")]
mod demo;
mod dns;
mod doctor;
mod explain;
mod failure;
mod metrics_mock;
mod migrate;
mod operator;
mod prose;
mod scalers;
#[cfg(feature = "simulated-fleets")]
mod simulate;

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::crd::CrdArguments;
use crate::decide::DecideArguments;
#[cfg(feature = "simulated-fleets")]
use crate::demo::DemoArguments;
use crate::doctor::DoctorArguments;
use crate::explain::ExplainArguments;
use crate::failure::Failure;
use crate::metrics_mock::MetricsMockArguments;
use crate::migrate::MigrateArguments;
use crate::operator::OperatorArguments;
#[cfg(feature = "simulated-fleets")]
use crate::simulate::SimulateArguments;

const EXIT_CODES: &str = "Exit codes:
  0  all is well; so it is when whoever reads the output has seen enough
  1  something failed that was to be expected to work, such as reading a file
  2  the input or the arguments are not what they should be";

const DOCTOR_EXIT_CODES: &str = "Exit codes:
  0  nothing was found that needs anybody
  1  a problem was found, or the cluster could not be asked
  2  the arguments are not what they should be
  3  there are warnings, and no problem";

const MIGRATE_EXIT_CODES: &str = "Exit codes:
  0  every field is carried, or needs no counterpart
  1  something failed that was to be expected to work, such as reading a file or asking the cluster
  2  the input or the arguments are not what they should be
  3  something could not be carried; the report names it, and the scalers are printed all the same";

/// As which file kubectl finds its plugin.
const PLUGIN: &str = "kubectl-llmscaler";

/// Scales LLM inference workloads on Kubernetes, and shows how it decides.
#[derive(Debug, Parser)]
#[command(name = "llmscaler", version, after_help = EXIT_CODES, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Decide from a file as the operator would
    ///
    /// The document holds a scaler, optionally what is remembered, and what is seen at each tick; the answer to each tick says what
    /// would be written and why, stage by stage. Nothing is asked of a cluster or of a metrics server.
    #[command(after_help = EXIT_CODES)]
    Decide(DecideArguments),
    /// Watch the operator scale simulated fleets, without a cluster
    ///
    /// A Kubernetes API, fleets of simulated vLLM replicas under traffic, and the operator with its dashboard, all in this process and on
    /// loopback, in compressed time. Ctrl-C ends it.
    #[command(after_help = EXIT_CODES)]
    #[cfg(feature = "simulated-fleets")]
    Demo(DemoArguments),
    /// Print the definition of the LLMScaler resource
    #[command(after_help = EXIT_CODES)]
    Crd(CrdArguments),
    /// Run the operator against the cluster that KUBECONFIG or the pod's service account names
    #[command(after_help = EXIT_CODES)]
    Operator(Box<OperatorArguments>),
    /// Hold policies against each other in virtual time
    ///
    /// Traffic goes to a fleet of simulated vLLM replicas, which each policy resizes in its turn: what share of the requests would have
    /// been in time, and what it would have cost. Our own policy is the operator's, decision by decision. Nothing is asked of a cluster.
    #[command(after_help = EXIT_CODES)]
    #[cfg(feature = "simulated-fleets")]
    Simulate(Box<SimulateArguments>),
    /// Explain the last decision of a live scaler in words
    ///
    /// From its status: what each metric said, which stages changed the count and why, what holds it back, and what comes next.
    #[command(after_help = EXIT_CODES)]
    Explain(Box<ExplainArguments>),
    /// Turn HPAs, ScaledObjects, VariantAutoscalings and PodAutoscalers into scalers
    ///
    /// Prints scalers that are ready to be applied, what became of each field of the old objects, what will behave differently, and the
    /// steps of a hand-over without a gap. Nothing is changed.
    #[command(after_help = MIGRATE_EXIT_CODES)]
    Migrate(Box<MigrateArguments>),
    /// Look for whatever keeps scalers from doing their work
    ///
    /// The resource's definition, the operator and its rights, the targets and who else scales them, every query and page with the
    /// scaler's own credentials: what was found, and what to do about it. Nothing is changed.
    #[command(after_help = DOCTOR_EXIT_CODES)]
    Doctor(Box<DoctorArguments>),
    /// Answer every query of a scaler with a number that is set by hand, for trying it out
    #[command(hide = true, after_help = EXIT_CODES)]
    MetricsMock(MetricsMockArguments),
}

/// The command with its subcommands, as clap knows it.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Does what the arguments of this process ask for, and answers the exit code that their help documents.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = arguments();
    let mut out = BufWriter::new(io::stdout().lock());
    let result = match &arguments.command {
        Command::Decide(arguments) => decide::run(arguments, &mut out),
        #[cfg(feature = "simulated-fleets")]
        Command::Demo(arguments) => demo::run(arguments, &mut out),
        Command::Crd(arguments) => crd::run(arguments, &mut out),
        Command::Operator(arguments) => operator::run_operator(arguments),
        #[cfg(feature = "simulated-fleets")]
        Command::Simulate(arguments) => simulate::run(arguments, &mut out),
        Command::Explain(arguments) => explain::run(arguments, &mut out),
        Command::Migrate(arguments) => migrate::run(arguments, &mut out),
        Command::Doctor(arguments) => doctor::run(arguments, &mut out),
        Command::MetricsMock(arguments) => metrics_mock::run(arguments, &mut out),
    };
    match result.and(out.flush().map_err(Failure::Output)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            // Where not even that can be written, the exit code must do.
            let _ = writeln!(io::stderr(), "llmscaler: {failure}");
            failure.exit_code()
        }
    }
}

/// The arguments, under the name by which the command was called.
fn arguments() -> Arguments {
    let called = std::env::args_os().next().unwrap_or_default();
    let mut command = command();
    if Path::new(&called).file_stem().is_some_and(|name| name == PLUGIN) {
        command = command.bin_name("kubectl llmscaler");
    }
    Arguments::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
}
