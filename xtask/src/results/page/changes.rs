//! What was changed, beside what was not.

use std::fmt::{Result, Write as _};

use llmscaler_simulator::report::figures::{percent, three};

use super::cells::{at, differences, mean};
use crate::results::Results;
use crate::results::changes::{Changed as Run, OURS, POLICIES};
use crate::results::reference::Changed;
use crate::results::runs::Row;

/// Headroom with ideal metrics and with those of a cluster.
pub fn metrics(page: &mut String, metrics: &[(String, [Row; 4])]) -> Result {
    writeln!(page, "Headroom 0.99, in time at GPU-hours, and the difference to ideal metrics:\n")?;
    writeln!(page, "| workload | ideal | real | ideal, no gateway | real, no gateway |\n|---|---|---|---|---|")?;
    for (workload, [ideal, others @ ..]) in metrics {
        let cells: Vec<String> = others.iter().map(|row| format!("{} ({})", at(mean(row)), differences(mean(row), mean(ideal)))).collect();
        writeln!(page, "| {workload} | {} | {} |", at(mean(ideal)), cells.join(" | "))?;
    }
    Ok(())
}

/// A table for each workload.
pub fn write(page: &mut String, results: &Results, stated: &[Changed]) -> Result {
    let seeds: Vec<String> = results.changed_seeds.iter().map(u64::to_string).collect();
    writeln!(page, "In time at GPU-hours, means over the seeds {}; *stated* is what the law was specified with.", seeds.join(", "))?;
    let mut workloads: Vec<&str> = Vec::new();
    for change in &results.changed {
        if !workloads.contains(&change.workload) {
            workloads.push(change.workload);
        }
    }
    for workload in workloads {
        writeln!(page, "\n**{workload}**\n")?;
        writeln!(page, "| changed | headroom 0.99 | stated | seed-exact | in-flight 32 |\n|---|---|---|---|---|")?;
        for change in results.changed.iter().filter(|change| change.workload == workload) {
            line(page, change, stated)?;
        }
    }
    Ok(())
}

fn line(page: &mut String, change: &Run, stated: &[Changed]) -> Result {
    let cell = |policy: &str| change.rows.iter().find(|row| row.text == policy).map_or_else(|| "-".to_owned(), |row| at(mean(row)));
    let known = stated.iter().find(|line| (line.0, line.1, line.2) == (change.what, change.workload, OURS));
    let known = known.map_or_else(|| "-".to_owned(), |line| format!("{} at {}", percent(line.3), three(line.4)));
    let [ours, seed, in_flight] = POLICIES.map(cell);
    writeln!(page, "| {} | {ours} | {known} | {seed} | {in_flight} |", change.what)
}
