//! Findings as text.

use std::io::{self, Write};

use super::finding::{Finding, Report, Severity};
use crate::prose::{count, paragraph};

/// Writes what was found, worst last, so that it is what a terminal shows.
pub fn write(out: &mut impl Write, reports: &[Report], columns: usize) -> io::Result<()> {
    for report in reports {
        writeln!(out, "{}", report.subject)?;
        let mut findings: Vec<&Finding> = report.findings.iter().collect();
        findings.sort_by_key(|finding| finding.severity);
        for finding in findings {
            write_finding(out, finding, columns)?;
        }
        writeln!(out)?;
    }
    let number = |severity| i32::try_from(reports.iter().map(|report| report.count(severity)).sum::<usize>()).unwrap_or(i32::MAX);
    let summary = [
        count(number(Severity::Problem), "problem"),
        count(number(Severity::Warning), "warning"),
        count(number(Severity::Note), "note"),
        format!("{} as it should be", number(Severity::Ok)),
    ];
    writeln!(out, "{}", summary.join(", "))
}

fn write_finding(out: &mut impl Write, finding: &Finding, columns: usize) -> io::Result<()> {
    let first = format!("  {:<7}  {:<10}  ", finding.severity.as_str(), finding.check);
    writeln!(out, "{}", paragraph(&first, &finding.found, columns))?;
    match &finding.advice {
        Some(advice) => writeln!(out, "{}", paragraph(&format!("{}→ ", " ".repeat(first.chars().count())), advice, columns)),
        None => Ok(()),
    }
}
