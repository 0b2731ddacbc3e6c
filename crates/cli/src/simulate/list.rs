//! What has a name.

use std::io::{self, Write};

use llmscaler_engine::Profile;
use llmscaler_simulator::Workload;
use llmscaler_simulator::policy::notations;
use llmscaler_simulator::scenario::Warmup;
use llmscaler_simulator::workload::TRACES;

use super::contest::OWN;

/// Writes the workloads, policies, engines and warm-ups.
pub fn write(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Workloads (--workload):")?;
    for workload in Workload::names().filter_map(Workload::named) {
        writeln!(out, "  {}", workload.describe())?;
    }
    writeln!(out, "\nPublic traces that have a setting of their own (--trace FILE, after the file's name):")?;
    for trace in TRACES {
        writeln!(out, "  {}: --trace {}.csv --multiply {} --shift {}", trace.name, trace.trace, trace.multiply, trace.shift)?;
    }
    writeln!(out, "\nPolicies (--policy):")?;
    for (notation, what) in notations().chain(OWN) {
        writeln!(out, "  {notation}: {what}")?;
    }
    writeln!(out, "\nEngines (--profile):")?;
    for profile in Profile::all() {
        writeln!(out, "  {}: {}; {} a replica", profile.name, profile.title, gpus(profile.gpus))?;
    }
    writeln!(out, "\nWarm-ups (--warmup):")?;
    for (name, warmup) in Warmup::NAMES.iter().filter_map(|name| Some((name, Warmup::named(name)?))) {
        writeln!(out, "  {name}: {} s", warmup.median)?;
    }
    Ok(())
}

fn gpus(count: u32) -> String {
    if count == 1 { "1 GPU".to_owned() } else { format!("{count} GPUs") }
}
