//! An account as text.

use std::io::{self, Write};

use jiff::Timestamp;
use llmscaler_api::Mode;

use super::account::{Account, Decision, State};
use crate::prose::{ago, count, lasting, paragraph};

/// Writes one scaler, in lines of at most `columns`.
pub fn write(out: &mut impl Write, account: &Account, now: Timestamp, columns: usize) -> io::Result<()> {
    writeln!(out, "{}", paragraph("", &headline(account), columns))?;
    writeln!(out, "{}", paragraph("  ", &sizes(account, now), columns))?;
    if !account.metrics.is_empty() {
        writeln!(out, "\nMetrics")?;
        let width = account.metrics.iter().map(|metric| metric.name.chars().count()).max().unwrap_or(0);
        for metric in &account.metrics {
            writeln!(out, "{}", paragraph(&format!("  {:<width$}  ", metric.name), &metric.words, columns))?;
        }
    }
    if let Some(decision) = &account.decision {
        write_decision(out, decision, columns)?;
    }
    if !account.states.is_empty() {
        writeln!(out, "\nTo know")?;
        let said = account.decision.as_ref().map_or("", |decision| decision.message.as_str());
        for state in &account.states {
            write_state(out, state, said, now, columns)?;
        }
    }
    writeln!(out, "\nNext")?;
    writeln!(out, "{}", paragraph("  ", &account.next, columns))
}

fn headline(account: &Account) -> String {
    let Account { namespace, name, target, min_replicas, max_replicas, mode, .. } = account;
    let verb = match mode {
        Mode::Auto => "scales",
        Mode::Recommend => "only recommends a size for",
    };
    format!("{namespace}/{name} {verb} {target}, {min_replicas} to {}", count(*max_replicas, "replica"))
}

fn sizes(account: &Account, now: Timestamp) -> String {
    let mut parts = vec![];
    if let Some(replicas) = account.replicas {
        parts.push(format!("now {}", count(replicas, "replica")));
    }
    parts.extend(account.ready_replicas.map(|ready| format!("{ready} ready")));
    parts.extend(account.desired_replicas.map(|desired| format!("{desired} wanted")));
    parts.extend(account.last_scale_time.map(|time| format!("changed {}", ago(time, now))));
    parts.extend(account.last_active_time.map(|time| format!("last active {}", ago(time, now))));
    if let Some(ready) = &account.ready {
        let word = if ready.status == "True" { "Ready" } else { "not Ready" };
        parts.push(format!("{word} {}", lasting(ready.since, now)));
    }
    if parts.is_empty() { "nothing is known of it yet".to_owned() } else { parts.join(", ") }
}

fn write_decision(out: &mut impl Write, decision: &Decision, columns: usize) -> io::Result<()> {
    writeln!(out, "\nDecision")?;
    writeln!(out, "{}", paragraph("  ", &format!("{}: {}", decision.reason, decision.message), columns))?;
    for stage in decision.stages.iter().filter(|stage| stage.changed()) {
        let first = format!("  {:<9}  {:<8}  ", stage.stage, format!("{} → {}", stage.count_in, stage.out));
        writeln!(out, "{}", paragraph(&first, &format!("{}: {}", stage.reason, stage.message), columns))?;
    }
    let unchanged: Vec<&str> = decision.stages.iter().filter(|stage| !stage.changed()).map(|stage| stage.stage.as_str()).collect();
    if unchanged.is_empty() {
        return Ok(());
    }
    let what = if unchanged.len() == decision.stages.len() { "no stage changed the count" } else { "unchanged by" };
    let names = if unchanged.len() == decision.stages.len() { String::new() } else { format!(" {}", unchanged.join(", ")) };
    writeln!(out, "{}", paragraph("  ", &format!("{what}{names}"), columns))
}

/// `said` is what the decision says; nobody has to read it twice.
fn write_state(out: &mut impl Write, state: &State, said: &str, now: Timestamp, columns: usize) -> io::Result<()> {
    let State { condition, status, reason, message, since, advice } = state;
    let why = if message == said { String::new() } else { format!(": {message}") };
    let text = format!("{condition} is {status} {}, {reason}{why}", lasting(*since, now));
    writeln!(out, "{}", paragraph("  ", &text, columns))?;
    match advice {
        Some(advice) => writeln!(out, "{}", paragraph("    → ", advice, columns)),
        None => Ok(()),
    }
}

/// Writes a line for each scaler, the widest words setting the columns.
pub fn table(out: &mut impl Write, accounts: &[Account], now: Timestamp) -> io::Result<()> {
    let header = ["SCALER", "TARGET", "BOUNDS", "NOW", "READY", "WANTED", "CHANGED", "WHY"].map(str::to_owned);
    let rows: Vec<[String; 8]> = std::iter::once(header).chain(accounts.iter().map(|account| row(account, now))).collect();
    let mut widths = [0_usize; 8];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in &rows {
        let line: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", line.join("  ").trim_end())?;
    }
    Ok(())
}

fn row(account: &Account, now: Timestamp) -> [String; 8] {
    let number = |number: Option<i32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let trouble = account.ready.as_ref().filter(|ready| ready.status != "True").map(|ready| format!("not ready: {}", ready.reason));
    [
        format!("{}/{}", account.namespace, account.name),
        account.target.clone(),
        format!("{}-{}", account.min_replicas, account.max_replicas),
        number(account.replicas),
        number(account.ready_replicas),
        number(account.desired_replicas),
        account.last_scale_time.map_or_else(|| "never".to_owned(), |time| ago(time, now)),
        trouble
            .or_else(|| account.decision.as_ref().map(|decision| decision.reason.clone()))
            .unwrap_or_else(|| "nothing reported yet".to_owned()),
    ]
}
