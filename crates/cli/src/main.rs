//! The `llmscaler` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    llmscaler::run()
}
