//! `llmscaler decide`: the engine and the decoders as they are in the operator, from a file.

mod account;
mod answer;
mod document;
mod fleet;
mod memory;
mod node;
mod readings;
mod suggest;
mod target;
mod traffic;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use llmscaler_api::Invalid;
use llmscaler_engine::{Law, Observation, Spec, Victims, Workload, decide};
use serde::Serialize;

use self::answer::Answer;
use self::document::Document;
#[cfg(feature = "simulated-fleets")]
pub use self::document::value as yaml;
pub use self::document::values as yaml_documents;
use self::readings::Said;
pub use self::suggest::suggestion;
use crate::failure::Failure;

/// The arguments of `decide`.
#[derive(Debug, Args)]
pub struct DecideArguments {
    /// The document, in YAML or JSON; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// json: one object a line for each tick; text: an account for people
    #[arg(short, long, value_name = "FORMAT", default_value = "json")]
    output: Format,
}

/// How answers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Text,
}

/// What a refused document prints for programs.
#[derive(Serialize)]
struct Refusal<'a> {
    error: &'a str,
    field: &'a str,
}

/// Decides at each tick of the document and prints the answers.
pub fn run(arguments: &DecideArguments, out: &mut impl Write) -> Result<(), Failure> {
    match text(read(&arguments.file)?).and_then(|text| document::parse(&text)) {
        Ok(document) => answer(document, arguments.output, out).map_err(Failure::Output),
        Err(invalid) => {
            if arguments.output == Format::Json {
                // That the input is at fault is worth more to report than that the output cannot be written.
                let _ = refuse(&invalid, out);
            }
            Err(Failure::Invalid { file: named(&arguments.file), invalid })
        }
    }
}

/// What a file says that should be YAML or JSON.
pub fn text(bytes: Vec<u8>) -> Result<String, Invalid> {
    String::from_utf8(bytes).map_err(|_| Invalid {
        field: String::new(),
        message: "the document is not UTF-8 text; write YAML or JSON and save it as UTF-8".to_owned(),
    })
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = if file == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    bytes.map_err(|cause| Failure::Unreadable { file: named(file), cause })
}

fn named(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

fn refuse(invalid: &Invalid, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Refusal { error: &invalid.message, field: &invalid.field })?;
    out.write_all(b"\n")
}

/// For a spec that averages latencies, the one for ticks that show the saturation itself.
fn unsmoothed(spec: &Spec) -> Option<Spec> {
    let mut spec = spec.clone();
    let mut sources = spec.sources.iter_mut();
    let (source, band) = sources.find_map(|source| match source.law {
        Law::Band(band) if band.smoothing().is_some() => Some((source, band)),
        _ => None,
    })?;
    source.law = Law::Band(band.unsmoothed());
    Some(spec)
}

fn answer(document: Document, format: Format, out: &mut impl Write) -> io::Result<()> {
    let Document { scaler, mut memory, mut fleet, ticks } = document;
    let (spec, unsmoothed) = (&scaler.spec, unsmoothed(&scaler.spec));
    let sync_period = spec.sync_period.as_secs_f64();
    for tick in ticks {
        let now = tick.at;
        let followed = tick.target.is_none();
        let workload = match (tick.target, &mut fleet) {
            (Some(shown), fleet) => {
                fleet.iter_mut().for_each(|fleet| fleet.follow(&shown, now));
                shown
            }
            (None, Some(fleet)) => fleet.at(now),
            (None, None) => Workload::default(),
        };
        let Said { readings, averaged, traffic, warmup } = tick.said;
        let workload = Workload { warmth: tick.warmth, warmup: warmup.or(workload.warmup), ..workload };
        let seen = Observation { workload, readings, traffic };
        let unsmoothed = unsmoothed.as_ref().filter(|_| averaged);
        let mut decision = decide(unsmoothed.unwrap_or(spec), &seen, &memory, now);
        if unsmoothed.is_some() {
            // What was averaged already is no sample, and the samples are for a later tick.
            decision.memory.saturation = memory.saturation;
        }
        if followed {
            // Its pods have no names.
            decision.victims = Victims::default();
        }
        if let Some(count) = decision.write {
            decision.memory.record_write(spec, now, decision.replicas, count);
            fleet.iter_mut().for_each(|fleet| fleet.resize(count, now));
        }
        match format {
            Format::Json => {
                serde_json::to_writer(&mut *out, &Answer::new(now, &decision, sync_period))?;
                out.write_all(b"\n")?;
            }
            Format::Text => account::write(out, now, &decision, sync_period)?,
        }
        memory = decision.memory;
    }
    Ok(())
}
