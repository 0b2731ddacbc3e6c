//! Ours beside the tables that the law was specified with.

use std::fmt::{Result, Write as _};

use llmscaler_simulator::report::Point;
use llmscaler_simulator::report::figures::{count, percent, three};

use super::cells::{differences, hours, mean, share};
use crate::results::Results;
use crate::results::reference::Reference;
use crate::results::runs::Row;

pub fn write(page: &mut String, results: &Results, tables: &[Reference]) -> Result {
    let found = tables.iter().filter_map(|reference| {
        let played = results.played.iter().find(|played| played.stage.name() == reference.workload)?;
        Some((reference, played.row(reference.policy)?))
    });
    let found: Vec<_> = found.collect();
    let agree = |reference: &Reference, row: &Row| reference.agrees(row.summary.attainment, row.summary.gpu_hours);
    let agreeing = |wanted: (bool, bool)| found.iter().filter(|(reference, row)| agree(reference, row) == wanted).count();
    writeln!(
        page,
        "\nA figure agrees where it differs by less than 0.3 points or 3 % of the cost, or where the ranges over the seeds meet. Of {} rows {} \
         agree in both, {} in the cost alone, {} in attainment alone, and {} in neither.\n",
        found.len(),
        agreeing((true, true)),
        agreeing((false, true)),
        agreeing((true, false)),
        agreeing((false, false)),
    )?;
    writeln!(page, "| workload | policy | here: in time | GPU-hours | events | stated | events | difference | agree |")?;
    writeln!(page, "|---|---|---|---|---|---|---|---|---|")?;
    for (reference, row) in found {
        let summary = &row.summary;
        let stated = Point { attainment: reference.attainment.mean, gpu_hours: reference.gpu_hours.mean };
        writeln!(
            page,
            "| {} | {} | {} | {} | {} | {} at {} | {} | {} | {} |",
            reference.workload,
            row.name(),
            share(summary.attainment),
            hours(summary.gpu_hours),
            count(summary.scale_events.mean),
            percent(stated.attainment),
            three(stated.gpu_hours),
            reference.events.map_or_else(|| "-".to_owned(), count),
            differences(mean(row), stated),
            match agree(reference, row) {
                (true, true) => "yes",
                (false, true) => "cost",
                (true, false) => "in time",
                (false, false) => "no",
            },
        )?;
    }
    Ok(())
}
