//! The page, in Markdown.

mod cells;
mod changes;
mod policies;
mod ramp;
mod reference;
mod summary;

use std::fmt::{Result as Written, Write as _};

use anyhow::Result;

use super::reference::{robustness, tables};
use super::{RAMP_SEEDS, Results};

/// What was found by looking at the figures, written by hand.
const FINDINGS: &str = include_str!("page/findings.md");
const TRIED: &str = include_str!("page/tried.md");
const EXPLAINED: &str = include_str!("page/explained.md");
const METRICS: &str = include_str!("page/metrics.md");
const CHANGED: &str = include_str!("page/changed.md");
const RAMP: &str = include_str!("page/ramp.md");

/// The whole page.
pub fn write(results: &Results) -> Result<String> {
    let mut page = String::with_capacity(1 << 17);
    head(&mut page, results)?;
    summary::write(&mut page, results)?;
    section(&mut page, FINDINGS)?;
    writeln!(page, "\n## The ramp, closely\n")?;
    ramp::write(&mut page, &results.ramp)?;
    section(&mut page, RAMP)?;
    section(&mut page, TRIED)?;
    writeln!(page, "\n## With the metrics of a cluster\n")?;
    changes::metrics(&mut page, &results.metrics)?;
    section(&mut page, METRICS)?;
    writeln!(page, "\n## When something is not as expected\n")?;
    changes::write(&mut page, results, &robustness()?)?;
    section(&mut page, CHANGED)?;
    writeln!(page, "\n## Every policy on every workload\n")?;
    policies::write(&mut page, results)?;
    writeln!(page, "\n## Against the specification's tables\n")?;
    section(&mut page, EXPLAINED)?;
    reference::write(&mut page, results, &tables()?)?;
    Ok(page)
}

fn section(page: &mut String, text: &str) -> Written {
    writeln!(page, "\n{}", text.trim())
}

fn head(page: &mut String, results: &Results) -> Written {
    let traces = if results.with_traces { " --traces DIR" } else { "" };
    let (first, last) = (results.seeds.first().copied().unwrap_or(0), results.seeds.last().copied().unwrap_or(0));
    writeln!(page, "# Results\n")?;
    writeln!(page, "Every policy on every workload, simulated. One command makes this page, the same bytes again on the same machine:\n")?;
    writeln!(page, "```sh\ncargo run --release -p xtask -- results{traces} --seeds {first}-{last}\n```\n")?;
    let fewer: Vec<&str> = results.played.iter().filter(|played| played.bounds.len() == 1).map(|played| played.stage.name()).collect();
    let fewer = if fewer.is_empty() { String::new() } else { format!(" ({}: the first alone)", fewer.join(", ")) };
    writeln!(
        page,
        "Made with llmscaler {}: engine {}, pods ready after 100 s, least loaded replica first, ideal metrics unless said otherwise. Figures \
         are means over the seeds {first} to {last} with their range in brackets; foresight over the first three of them{fewer}. GPU-hours count from the \
         creation of a pod to its exit, warm-up and draining included, until ten minutes after the last arrival. *In time* is the share of \
         all requests, the unfinished included, that kept both promises. The seeds of the closer look at the ramp are {} to {}. \
         Tables and pictures come from the runs; the text between them was written by hand after looking at them. \
         [simulate.md](simulate.md) says what is modelled and what is not, [headroom.md](headroom.md) what the law does.",
        env!("CARGO_PKG_VERSION"),
        llmscaler_engine::Profile::DEFAULT,
        RAMP_SEEDS.start(),
        RAMP_SEEDS.end(),
    )
}
