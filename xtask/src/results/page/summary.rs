//! The short answer: a line for each workload, and who beats whom.

use std::fmt::{Result, Write as _};

use llmscaler_simulator::report::figures::three;
use llmscaler_simulator::report::{Kind, Point};

use super::cells::{Verdict, at, mean, verdict};
use crate::results::runs::Row;
use crate::results::{OURS, Played, Results};

/// The tables; the text comes after them.
pub fn write(page: &mut String, results: &Results) -> Result {
    writeln!(page, "\n## In short\n")?;
    writeln!(page, "Share of the requests in time, in per cent, at GPU-hours:\n")?;
    writeln!(page, "| workload | headroom 0.99 | seed law | in flight | KEDA | fixed fleet | x foresight |")?;
    writeln!(page, "|---|---|---|---|---|---|---|")?;
    for played in &results.played {
        let Some(ours) = played.row(OURS) else { continue };
        let cell = |text: &str| played.row(text).map_or_else(|| "-".to_owned(), |row| marked(mean(ours), mean(row)));
        let fixed = played.fixed.as_ref().map_or_else(|| "none".to_owned(), |row| marked(mean(ours), mean(row)));
        writeln!(
            page,
            "| {} | {} | {} | {} | {} | {fixed} | {} |",
            played.stage.name(),
            at(mean(ours)),
            cell("seed"),
            cell(played.stage.in_flight()),
            cell("keda"),
            ours.times(&played.bounds).map_or_else(|| "-".to_owned(), three),
        )?;
    }
    writeln!(
        page,
        "\nBold: more in time, or as many, for no more GPU-hours than headroom 0.99. *Seed law* is llm-d's law on the latencies that the router \
         predicts, 0.55 and 0.40. *In flight* is 32 requests a replica, 4 with long prompts (lday, lramp, moon), at the pace of llm-d's guide. \
         *KEDA* is llm-d's guide, one queued and 16 running. *Fixed fleet* is the smallest that keeps as many in time as headroom 0.99, a \
         size that is known only afterwards. *x foresight* is what headroom 0.99 pays against the cheapest fleet found with every request \
         known in advance; 1.00 means that the search found nothing cheaper.\n"
    )?;
    tally(page, results)
}

fn marked(ours: Point, other: Point) -> String {
    if verdict(ours, other) == Verdict::Better { format!("**{}**", at(other)) } else { at(other) }
}

/// Who beats whom, by workload.
fn tally(page: &mut String, results: &Results) -> Result {
    writeln!(page, "### Wins and losses of headroom 0.99\n")?;
    writeln!(page, "| workload | peers beaten | more for more, or less for less | better than headroom 0.99 |")?;
    writeln!(page, "|---|---|---|---|")?;
    let (mut beaten, mut better, mut all) = (0, 0, 0);
    for played in &results.played {
        let Some(ours) = played.row(OURS) else { continue };
        let others: Vec<&Row> = played.rows.iter().filter(|row| row.kind != Kind::Ours).collect();
        let of = |wanted: Verdict| others.iter().filter(move |row| verdict(mean(ours), mean(row)) == wanted);
        let names: Vec<String> = of(Verdict::Better).map(|row| format!("{} ({})", row.name(), at(mean(row)))).collect();
        let between = of(Verdict::Neither).count() + of(Verdict::Equal).count();
        writeln!(page, "| {} | {} | {between} | {} |", played.stage.name(), of(Verdict::Beaten).count(), or_none(&names))?;
        beaten += of(Verdict::Beaten).count();
        better += names.len();
        all += others.len();
    }
    writeln!(
        page,
        "\nOf {all} comparisons headroom 0.99 wins {beaten} in both attainment and cost and loses {better} in both; in the rest one has more in \
         time and the other costs less. Peers are llm-d's laws and guides, the HPA, Knative, fixed fleets; the settings are those of the \
         tables below, not tuned for each workload, but for targets of requests in flight."
    )
}

fn or_none(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl Played {
    /// The row of a policy.
    pub fn row(&self, text: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.text == text)
    }
}
