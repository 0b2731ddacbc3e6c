//! Generates the files that are derived from code, the page of results, and what a release hands out.
//!
//! `cargo run -p xtask -- generate` writes the files; `cargo run -p xtask -- check` fails when a committed one differs.
//! `cargo run --release -p xtask -- results` simulates every policy on every workload, some twenty minutes, and writes docs/results.md.
//! `cargo run -p xtask -- dist FOLDER` writes completions, manual pages and the JSON schema of the resource.

mod generated;
mod handout;
mod results;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Parser;
use generated::FILES;

/// What a contributor runs.
#[derive(Debug, Parser)]
enum Task {
    /// Write the files that are derived from code
    Generate,
    /// Fail when a committed one differs
    Check,
    /// Simulate every policy on every workload and write docs/results.md with its pictures
    Results(results::Arguments),
    /// Write the completions, the manual pages and the JSON schema that a release hands out
    Dist(handout::Arguments),
}

fn main() -> Result<()> {
    match Task::parse() {
        Task::Generate => generate(),
        Task::Check => check(),
        Task::Dist(arguments) => handout::write(&arguments),
        Task::Results(arguments) => results::write(&arguments, &in_repository("")),
    }
}

fn generate() -> Result<()> {
    let mut out = std::io::stdout().lock();
    for file in FILES {
        let path = in_repository(file.path);
        let content = (file.content)()?;
        if std::fs::read_to_string(&path).is_ok_and(|present| present == content) {
            continue;
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        std::fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        writeln!(out, "{}", file.path)?;
    }
    Ok(())
}

fn check() -> Result<()> {
    let mut stale = Vec::new();
    for file in FILES {
        let content = (file.content)()?;
        if !std::fs::read_to_string(in_repository(file.path)).is_ok_and(|present| present == content) {
            stale.push(file.path);
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    bail!(
        "these files differ from what the code generates: {}\nrun `cargo run -p xtask -- generate` and commit the result",
        stale.join(", ")
    )
}

/// The path below the root of the repository, from wherever this runs.
fn in_repository(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path)
}

#[cfg(test)]
mod tests {
    #[test]
    fn committed_files_are_what_the_code_generates() {
        super::check().unwrap();
    }
}
