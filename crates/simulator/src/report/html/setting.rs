//! What was simulated, and how the page was made.

use std::fmt::{Result, Write as _};

use super::super::figures::{latency, percent, short_percent, three};
use super::super::{Setting, Tuning};
use super::escape;

/// The facts that decide how to read everything below.
pub fn facts(page: &mut String, setting: &Setting) -> Result {
    let seeds = setting.seeds.len();
    let facts = [
        ("Promised", format!("first token in {}, then {} per token", latency(setting.promised.ttft), latency(setting.promised.tpot))),
        ("Objective", format!("{} % of requests", short_percent(setting.objective))),
        ("Fleet", [vec![format!("{}, from {}", setting.size(), setting.start)], setting.conditions()].concat().join("; ")),
        ("Warm-up", setting.warmup.clone()),
        ("Engine", setting.profile_title.clone()),
        ("Seeds", format!("{seeds}{}", if seeds < 5 { " (five or more to decide on)" } else { "" })),
    ];
    writeln!(page, "<dl class=\"facts\">")?;
    for (name, fact) in facts {
        writeln!(page, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&fact))?;
    }
    writeln!(page, "</dl>")
}

/// What was tuned where, and what was scored where.
pub fn tunings(page: &mut String, tunings: &[Tuning]) -> Result {
    if tunings.is_empty() {
        return Ok(());
    }
    writeln!(page, "<section aria-labelledby=\"tuning\">\n<h2 id=\"tuning\">How the settings were found</h2>")?;
    tunings.iter().try_for_each(|tuning| one(page, tuning))?;
    writeln!(page, "</section>")
}

fn one(page: &mut String, tuning: &Tuning) -> Result {
    writeln!(page, "<p>{}</p>", escape(&tuning.sentence()))?;
    writeln!(
        page,
        "<details><summary>All {} settings that were tried</summary>\n<div class=\"scroll\" tabindex=\"0\">\n<table>\n<caption>On {}, where settings were searched; not comparable with the figures above.</caption>",
        tuning.candidates.len(),
        escape(&tuning.tuned_on)
    )?;
    writeln!(
        page,
        "<thead><tr><th scope=\"col\">Policy</th><th scope=\"col\" class=\"number\">In time, %</th><th scope=\"col\" class=\"number\">GPU-hours</th></tr></thead>\n<tbody>"
    )?;
    for candidate in &tuning.candidates {
        let chosen = if candidate.name == tuning.chosen { " <span class=\"badge\">chosen</span>" } else { "" };
        writeln!(
            page,
            "<tr><th scope=\"row\">{}{chosen}</th><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            escape(&candidate.name),
            percent(candidate.point.attainment),
            three(candidate.point.gpu_hours)
        )?;
    }
    writeln!(page, "</tbody>\n</table>\n</div>\n</details>")?;
    if let Some(spec) = &tuning.spec {
        writeln!(page, "<p>In the resource:</p>\n<pre>{}</pre>", escape(spec.trim_end()))?;
    }
    Ok(())
}

/// Everything that is needed to do it again, and to doubt it.
pub fn made(page: &mut String, setting: &Setting) -> Result {
    let seeds: Vec<String> = setting.seeds.iter().map(u64::to_string).collect();
    let facts = [
        ("Version", format!("llmscaler {}", setting.version)),
        ("Workload", format!("{}: {}", setting.workload, setting.description)),
        ("Engine", format!("{} ({}); {}", setting.profile, setting.profile_title, setting.profile_fit)),
        ("Router", setting.router.clone()),
        ("Warm-up", setting.warmup.clone()),
        ("Metrics", setting.metrics.clone()),
        ("Seeds", seeds.join(", ")),
        ("Billed", "from the creation of each pod to its exit, until ten minutes after the last arrival".to_owned()),
    ];
    writeln!(
        page,
        "<section aria-labelledby=\"made\">\n<h2 id=\"made\">How it was made</h2>\n<pre>{}</pre>\n<dl class=\"made\">",
        escape(&setting.command)
    )?;
    for (name, fact) in facts {
        writeln!(page, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&fact))?;
    }
    writeln!(
        page,
        "</dl>\n<p>This is a simulation: it says how policies compare on this load and this model of the engine, not what a cluster will measure.</p>\n</section>"
    )
}
