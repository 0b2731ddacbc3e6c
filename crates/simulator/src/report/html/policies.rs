//! The table of policies.

use std::fmt::{Result, Write as _};

use super::super::figures::{coarse_percent, count, latency, percent, range, short_percent, three};
use super::super::{Comparison, Contender, Kind, Spread};
use super::{class, escape};

pub fn table(page: &mut String, comparison: &Comparison) -> Result {
    let goal = short_percent(comparison.setting.objective);
    writeln!(
        page,
        "<p class=\"legend\">The cheapest first. Means over the seeds, the range below. <b class=\"good\">✓</b> at least {goal} % in time, \
         <b class=\"bad\">✗</b> less; <b>●</b> no other policy has more for less.</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-labelledby=\"policies\">\n<table class=\"policies\">\n<caption class=\"unseen\">The policies, the cheapest first</caption>\n\
         <thead><tr><th scope=\"col\" class=\"number\">#</th>"
    )?;
    let heads = [
        ("Policy", "", false),
        ("In time, %", "Share of all requests that kept both promises", true),
        ("GPU-hours", "From each pod's creation to its exit, warm-up and draining included", true),
        ("× foresight", "GPU-hours as a multiple of what a clairvoyant pays for as much", true),
        ("Changes", "Changes of the number of replicas", true),
        ("Worst 5 min, %", "Share in time of the worst five minutes", true),
        ("TTFT p99", "Time to first token that 99 of 100 requests have at most", true),
        ("TPOT p99", "Time per output token that 99 of 100 requests have at most", true),
        ("Replicas", "Mean number asked for", true),
    ];
    for (head, title, right) in heads {
        writeln!(
            page,
            "<th scope=\"col\"{}{}>{head}</th>",
            if right { " class=\"number\"" } else { "" },
            if title.is_empty() { String::new() } else { format!(" title=\"{title}\"") }
        )?;
    }
    writeln!(page, "</tr></thead>\n<tbody>")?;
    let dearest = comparison.policies.iter().map(|policy| policy.summary.gpu_hours.mean).fold(0.0, f64::max);
    for (index, policy) in comparison.policies.iter().enumerate() {
        row(page, policy, index + 1, dearest)?;
    }
    writeln!(page, "</tbody>\n</table>\n</div>")
}

fn row(page: &mut String, policy: &Contender, number: usize, dearest: f64) -> Result {
    let summary = &policy.summary;
    writeln!(
        page,
        "<tr class=\"{}\"><td class=\"number\">{number}</td><th scope=\"row\"><a href=\"#run-{number}\">{}</a>{}</th>",
        class(policy),
        escape(&policy.name),
        badges(policy)
    )?;
    let verdict = if policy.meets_objective {
        "<b class=\"good\" title=\"meets the objective\">✓</b> "
    } else {
        "<b class=\"bad\" title=\"misses the objective\">✗</b> "
    };
    cell(page, &format!("{verdict}{}", percent(summary.attainment.mean)), &range(summary.attainment, coarse_percent))?;
    let share = 100.0 * summary.gpu_hours.mean / dearest.max(1e-9);
    writeln!(
        page,
        "<td class=\"number cost\" style=\"--share:{share:.1}%\">{}<small>{}</small></td>",
        three(summary.gpu_hours.mean),
        range(summary.gpu_hours, three)
    )?;
    cell(page, &policy.times_clairvoyant.map_or_else(|| "-".to_owned(), three), "")?;
    cell(page, &count(summary.scale_events.mean), &range(summary.scale_events, count))?;
    cell(page, &percent(summary.worst_five_minutes.mean), &range(summary.worst_five_minutes, coarse_percent))?;
    promised(page, summary.ttft_p99, policy.runs.first().map_or(f64::INFINITY, |run| run.promised.ttft))?;
    promised(page, summary.tpot_p99, policy.runs.first().map_or(f64::INFINITY, |run| run.promised.tpot))?;
    cell(page, &three(summary.average_replicas.mean), "")?;
    writeln!(page, "</tr>")
}

fn badges(policy: &Contender) -> String {
    let mut badges = String::new();
    if policy.on_front {
        badges.push_str(" <b title=\"no other policy has more for less\">●</b>");
    }
    badges.push_str(match policy.kind {
        Kind::Ours => " <span class=\"badge\">ours</span>",
        Kind::Clairvoyant => " <span class=\"badge\">foresight</span>",
        Kind::Peer | Kind::Fixed => "",
    });
    badges
}

fn cell(page: &mut String, figure: &str, range: &str) -> Result {
    let range = if range.is_empty() { String::new() } else { format!("<small>{range}</small>") };
    writeln!(page, "<td class=\"number\">{figure}{range}</td>")
}

/// A latency, told apart when it is over the promise.
fn promised(page: &mut String, spread: Spread, promise: f64) -> Result {
    let over = if spread.mean > promise { " over" } else { "" };
    writeln!(page, "<td class=\"number{over}\">{}</td>", latency(spread.mean))
}
