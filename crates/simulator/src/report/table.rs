//! The comparison as plain text, a hundred columns wide.

use std::fmt::Write as _;

use super::figures::{coarse_percent, count, latency, percent, range, short_percent, three};
use super::{Comparison, Contender, Kind, Setting};

const WIDTH: usize = 100;

const NAME: usize = 24;

/// The comparison for a terminal: what was simulated, a line for each policy, and what to conclude.
#[must_use]
pub fn table(comparison: &Comparison) -> String {
    let mut text = String::new();
    setting(&mut text, &comparison.setting);
    text.push('\n');
    for header in [
        ["", "in time", "", "GPU-", "", "x fore", "scale", "worst", "TTFT", "TPOT"],
        ["policy", "%", "(range)", "hours", "(range)", "sight", "events", "5 min", "p99", "p99"],
    ] {
        line(&mut text, ' ', header.map(str::to_owned));
    }
    for policy in &comparison.policies {
        line(&mut text, mark(policy), row(policy));
    }
    let goal = short_percent(comparison.setting.objective);
    wrap(
        &mut text,
        "",
        &format!(
            "\n* nothing else here has more for less; ! less than {goal} %; ~ foresight, no policy to run. In time: of all requests, those that kept both promises; worst 5 min likewise. x foresight: times what foresight pays for as much."
        ),
    );
    if let Some(fluid) = comparison.bound.fluid_gpu_hours {
        wrap(
            &mut text,
            "",
            &format!("Replicas that just hold the load at every moment, started in time, would cost {} GPU-hours.", three(fluid)),
        );
    }
    for tuning in &comparison.tunings {
        wrap(&mut text, "", &format!("\n{}", tuning.sentence()));
        text.extend(tuning.spec.iter().map(|spec| format!("\n{}\n", spec.trim_end())));
    }
    text.push('\n');
    for conclusion in &comparison.conclusions {
        wrap(&mut text, "- ", conclusion);
    }
    text
}

fn setting(text: &mut String, setting: &Setting) {
    let Setting { workload, description, profile, profile_title, profile_fit, promised, .. } = setting;
    wrap(text, "", &format!("{workload}: {description}"));
    wrap(
        text,
        "",
        &format!(
            "promised: first token within {}, then {} per token; objective {} % of the requests",
            latency(promised.ttft),
            latency(promised.tpot),
            short_percent(setting.objective)
        ),
    );
    wrap(
        text,
        "",
        &format!(
            "fleet: {} from {}, ready after {}; {}",
            setting.size(),
            setting.start,
            setting.warmup,
            [vec![setting.router.clone()], setting.conditions()].concat().join("; ")
        ),
    );
    wrap(text, "", &format!("engine: {profile}, {profile_title}. How it fits: {profile_fit}"));
    wrap(text, "", &format!("metrics: {}", setting.metrics));
    let seeds: Vec<String> = setting.seeds.iter().map(u64::to_string).collect();
    wrap(text, "", &format!("seeds: {}; figures are means, with the range", seeds.join(", ")));
}

fn mark(policy: &Contender) -> char {
    match policy {
        Contender { kind: Kind::Clairvoyant, .. } => '~',
        Contender { meets_objective: false, .. } => '!',
        Contender { on_front: true, .. } => '*',
        _ => ' ',
    }
}

fn row(policy: &Contender) -> [String; 10] {
    let summary = &policy.summary;
    [
        policy.name.clone(),
        percent(summary.attainment.mean),
        range(summary.attainment, coarse_percent),
        three(summary.gpu_hours.mean),
        range(summary.gpu_hours, three),
        policy.times_clairvoyant.map_or_else(|| "-".to_owned(), three),
        count(summary.scale_events.mean),
        percent(summary.worst_five_minutes.mean),
        latency(summary.ttft_p99.mean),
        latency(summary.tpot_p99.mean),
    ]
}

fn line(text: &mut String, mark: char, cells: [String; 10]) {
    let [name, kept, kept_range, cost, cost_range, times, events, worst, ttft, tpot] = cells;
    let name = if name.chars().count() > NAME { name.chars().take(NAME - 1).chain(['…']).collect() } else { name };
    let cells = format!(
        "{mark} {name:<NAME$} {kept:>7} {kept_range:<11} {cost:>5} {cost_range:<11} {times:>6} {events:>6} {worst:>6} {ttft:>6} {tpot:>6}"
    );
    // A String takes whatever is written.
    let _ = writeln!(text, "{}", cells.trim_end());
}

/// Adds a paragraph whose lines end between words; those after the first are indented as far as `bullet` reaches.
fn wrap(text: &mut String, bullet: &str, paragraph: &str) {
    let mut line = bullet.to_owned();
    let indent = " ".repeat(if bullet.is_empty() { 2 } else { bullet.len() });
    let body = paragraph.trim_start_matches('\n');
    text.push_str(&paragraph[..paragraph.len() - body.len()]);
    let mut fresh = true;
    for word in body.split_whitespace() {
        if !fresh && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line.clone_from(&indent);
            fresh = true;
        }
        if !fresh {
            line.push(' ');
        }
        line.push_str(word);
        fresh = false;
    }
    text.push_str(&line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::example::comparison;
    use super::*;

    #[test]
    fn the_cheapest_comes_first_and_marks_tell_them_apart() {
        let text = table(&comparison());
        let lines: Vec<&str> = text.lines().collect();
        let header = lines.iter().position(|line| line.starts_with("  policy")).unwrap();
        let marks: Vec<&str> = lines[header + 1..header + 6].iter().map(|line| &line[..6]).collect();
        assert_eq!(marks, ["! hpa-", "~ clai", "* head", "  in-f", "  stat"]);
        let expected = "* headroom 0.99              99.60 (99.5-99.7)  8.57 (8.37-8.77)   1.14      1  98.60 1.20 s  61 ms";
        assert_eq!(lines[header + 3], expected);
    }

    #[test]
    fn no_line_is_wider_than_a_hundred_columns() {
        let mut comparison = comparison();
        comparison.policies[0].name = "a name that is much longer than what there is room for".to_owned();
        for line in table(&comparison).lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn long_paragraphs_break_between_words() {
        let mut text = String::new();
        wrap(&mut text, "- ", &"word ".repeat(30));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("- word") && lines[1].starts_with("  word") && lines[0].len() <= WIDTH);
    }
}
