//! How a command fails: what it says, and the exit code.

use std::io;
use std::process::ExitCode;

use llmscaler_api::Invalid;

use crate::prose::count;

/// Why a command failed. The texts say what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The input could not be had.
    #[error("cannot read {file}: {cause}; check the path and its permissions")]
    Unreadable {
        /// The input.
        file: String,
        /// What the system says.
        cause: io::Error,
    },
    /// A file could not be written.
    #[cfg(feature = "simulated-fleets")]
    #[error("cannot write {file}: {cause}; check the folder and its permissions")]
    Unwritable {
        /// The file.
        file: String,
        /// What the system says.
        cause: io::Error,
    },
    /// There is no simulation of what was asked for.
    #[cfg(feature = "simulated-fleets")]
    #[error("simulate: {0}")]
    Simulation(String),
    /// The demo could not start, or had to end.
    #[cfg(feature = "simulated-fleets")]
    #[error("demo: {0}")]
    Demo(String),
    /// The metrics mock could not be served.
    #[error("metrics-mock: {0}; choose another --bind-address where that one is taken")]
    MetricsMock(String),
    /// The output could not be written.
    #[error("cannot write the output: {0}; check where it goes")]
    Output(io::Error),
    /// The cluster could not be asked, or has not what was asked for.
    #[error("{0}")]
    Cluster(String),
    /// The doctor found problems.
    #[error("doctor: {}{} found", count(*.problems, "problem"), and_warnings(*.warnings))]
    Problems {
        /// How many.
        problems: i32,
        /// And how many warnings.
        warnings: i32,
    },
    /// The doctor found warnings only.
    #[error("doctor: {} found", count(*.0, "warning"))]
    Warnings(i32),
    /// A migration lost something.
    #[error("migrate: parts of {} are not carried; the report says which, and what to do", count(*.0, "object"))]
    NotCarried(i32),
    /// The operator could not start, or had to end.
    #[error("operator: {0}")]
    Operator(String),
    /// The operator's arguments do not fit together, or not where it runs.
    #[error("operator: {0}")]
    Arguments(String),
    /// The input was read and is not what it should be.
    #[error("{file}: {}{}", place(.invalid), .invalid.message)]
    Invalid {
        /// The input.
        file: String,
        /// The place in it, and what to write there instead.
        invalid: Invalid,
    },
}

fn and_warnings(warnings: i32) -> String {
    if warnings == 0 { String::new() } else { format!(" and {}", count(warnings, "warning")) }
}

fn place(invalid: &Invalid) -> String {
    if invalid.field.is_empty() { String::new() } else { format!("{}: ", invalid.field) }
}

impl Failure {
    /// Whether the reader of the output has seen enough, as `head` has, which is no failure.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(cause) if cause.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The exit code, as the help documents it.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            #[cfg(feature = "simulated-fleets")]
            Self::Unwritable { .. } | Self::Demo(_) => 1,
            #[cfg(feature = "simulated-fleets")]
            Self::Simulation(_) => 2,
            Self::Unreadable { .. }
            | Self::Output(_)
            | Self::Operator(_)
            | Self::MetricsMock(_)
            | Self::Cluster(_)
            | Self::Problems { .. } => 1,
            Self::Arguments(_) | Self::Invalid { .. } => 2,
            Self::Warnings(_) | Self::NotCarried(_) => 3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_found_is_not_counted() {
        let said = |problems, warnings| Failure::Problems { problems, warnings }.to_string();
        assert_eq!(said(1, 0), "doctor: 1 problem found");
        assert_eq!(said(2, 1), "doctor: 2 problems and 1 warning found");
    }
}
