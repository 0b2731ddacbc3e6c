//! The ramp with many seeds.

use std::fmt::{Result, Write as _};

use llmscaler_simulator::report::Summary;
use llmscaler_simulator::report::figures::{percent, three};

use super::cells::{hours, share};
use crate::results::runs::Row;

/// Seeds of a group.
const GROUP: usize = 5;

pub fn write(page: &mut String, rows: &[Row]) -> Result {
    let names: Vec<&str> = rows.iter().map(Row::name).collect();
    writeln!(page, "| seeds | {} |\n|---|{}|", names.join(" | "), vec!["---"; rows.len()].join("|"))?;
    let groups = rows.iter().map(|row| row.runs.len().div_ceil(GROUP)).max().unwrap_or(0);
    for group in 0..groups {
        let of = |row: &Row| row.runs.iter().skip(group * GROUP).take(GROUP).cloned().collect::<Vec<_>>();
        let seeds: Vec<u64> = rows.first().map(of).unwrap_or_default().iter().map(|run| run.seed).collect();
        let cell = |row: &Row| {
            let summary = Summary::of(&of(row));
            format!("{} at {}", percent(summary.attainment.mean), three(summary.gpu_hours.mean))
        };
        let cells: Vec<String> = rows.iter().map(cell).collect();
        writeln!(page, "| {} to {} | {} |", seeds.first().unwrap_or(&0), seeds.last().unwrap_or(&0), cells.join(" | "))?;
    }
    let all: Vec<String> =
        rows.iter().map(|row| format!("{} at {}", share(row.summary.attainment), hours(row.summary.gpu_hours))).collect();
    writeln!(page, "| all | {} |", all.join(" | "))
}
