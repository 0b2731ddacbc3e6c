//! A picture and a table for each workload.

use std::fmt::{Result, Write as _};

use llmscaler_simulator::report::Kind;
use llmscaler_simulator::report::figures::{count, percent, three};

use super::cells::{Verdict, differences, hours, mean, share, verdict};
use crate::results::runs::Row;
use crate::results::{OURS, Played, Results};

pub fn write(page: &mut String, results: &Results) -> Result {
    writeln!(
        page,
        "The cheapest first. The last column holds each row against headroom 0.99: points of attainment and cost, and *better* or *beaten* where \
         both point the same way. The pictures have the usual settings; the green line is foresight."
    )?;
    for played in &results.played {
        let name = played.stage.name();
        writeln!(page, "\n### {name}\n\n{}\n", describe(&played.stage.scenario.workload.describe()))?;
        writeln!(page, "![Attainment against GPU-hours on {name}](pictures/{name}.svg)\n")?;
        table(page, played)?;
    }
    Ok(())
}

fn describe(text: &str) -> String {
    let text = text.split_once(": ").map_or(text, |(_, rest)| rest);
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>() + ".").unwrap_or_default()
}

fn table(page: &mut String, played: &Played) -> Result {
    writeln!(page, "| policy | in time, % | GPU-hours | x foresight | events | worst 5 min | against headroom 0.99 |")?;
    writeln!(page, "|---|---|---|---|---|---|---|")?;
    let mut rows: Vec<&Row> = played.rows.iter().collect();
    rows.sort_by(|one, other| one.summary.gpu_hours.mean.total_cmp(&other.summary.gpu_hours.mean));
    let Some(ours) = played.row(OURS) else { return Ok(()) };
    for row in rows {
        let name = if row.kind == Kind::Ours { format!("**{}**", row.name()) } else { row.name().to_owned() };
        let against = match verdict(mean(ours), mean(row)) {
            _ if row.text == OURS => String::new(),
            Verdict::Better => format!("**better**: {}", differences(mean(row), mean(ours))),
            Verdict::Beaten => format!("beaten: {}", differences(mean(row), mean(ours))),
            Verdict::Equal => "equal".to_owned(),
            Verdict::Neither => differences(mean(row), mean(ours)),
        };
        let summary = &row.summary;
        writeln!(
            page,
            "| {name} | {} | {} | {} | {} | {} | {against} |",
            share(summary.attainment),
            hours(summary.gpu_hours),
            row.times(&played.bounds).map_or_else(|| "-".to_owned(), three),
            count(summary.scale_events.mean),
            percent(summary.worst_five_minutes.mean),
        )?;
    }
    Ok(())
}
