//! `llmscaler crd`: the definition of the resource.

use std::io::{self, Write};

use clap::{Args, ValueEnum};

use crate::failure::Failure;

/// The arguments of `crd`.
#[derive(Debug, Args)]
pub struct CrdArguments {
    /// How it is printed
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

/// Prints the custom resource definition.
pub fn run(arguments: &CrdArguments, out: &mut impl Write) -> Result<(), Failure> {
    let crd = llmscaler_api::definition().map_err(|error| Failure::Output(io::Error::other(error)))?;
    let text = match arguments.output {
        Format::Yaml => serde_saphyr::to_string(&crd).map_err(io::Error::other),
        Format::Json => serde_json::to_string_pretty(&crd).map_err(io::Error::other),
    };
    text.and_then(|text| writeln!(out, "{}", text.trim_end())).map_err(Failure::Output)
}
