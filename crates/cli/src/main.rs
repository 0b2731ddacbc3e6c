//! `llmscaler`: scales LLM inference workloads on Kubernetes, and shows how it decides.

mod crd;
mod decide;
mod failure;
mod operator;
mod simulate;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::crd::CrdArguments;
use crate::decide::DecideArguments;
use crate::failure::Failure;
use crate::operator::OperatorArguments;
use crate::simulate::SimulateArguments;

const EXIT_CODES: &str = "Exit codes:
  0  all is well; so it is when whoever reads the output has seen enough
  1  something failed that was to be expected to work, such as reading a file
  2  the input or the arguments are not what they should be";

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
    Simulate(Box<SimulateArguments>),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = BufWriter::new(io::stdout().lock());
    let result = match &arguments.command {
        Command::Decide(arguments) => decide::run(arguments, &mut out),
        Command::Crd(arguments) => crd::run(arguments, &mut out),
        Command::Operator(arguments) => operator::run_operator(arguments),
        Command::Simulate(arguments) => simulate::run(arguments, &mut out),
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
