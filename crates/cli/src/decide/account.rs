//! The answer to one tick as an account for people.

use std::io::{self, Write};

use llmscaler_engine::{Condition, ConditionType, Decision, ReadingState, ReadingTrace, Time};

/// Writes what was read, what each stage made of it, and what came of it.
pub fn write(out: &mut impl Write, at: Time, decision: &Decision, sync_period: f64) -> io::Result<()> {
    let Decision { replicas, ready, .. } = decision;
    let plural = if replicas.get() == 1 { "" } else { "s" };
    writeln!(out, "at {} s: {replicas} replica{plural}, {ready} ready", at.as_seconds())?;
    let width = decision.readings.iter().map(|reading| reading.name.chars().count()).max().unwrap_or(0);
    for reading in &decision.readings {
        writeln!(out, "  {:<width$}  {}", reading.name, said(reading))?;
    }
    for trace in &decision.stages {
        let count = if trace.count_in == trace.out { trace.out.to_string() } else { format!("{} → {}", trace.count_in, trace.out) };
        writeln!(out, "  {:<9}  {count:<9}  {}: {}", trace.stage.as_str(), trace.reason, trace.message)?;
    }
    if !decision.victims.names.is_empty() {
        writeln!(out, "  to go, in this order: {}", decision.victims.names.join(", "))?;
    }
    for condition in decision.conditions.iter().filter(|condition| noteworthy(condition)) {
        let status = if condition.status { "True" } else { "False" };
        writeln!(out, "  {} is {status}, {}: {}", condition.kind.as_str(), condition.reason, condition.message)?;
    }
    match decision.write {
        Some(count) => write!(out, "  writes {count}"),
        None => write!(out, "  writes nothing"),
    }?;
    writeln!(out, "; {}; next sync in {sync_period} s\n", decision.reason)
}

fn said(reading: &ReadingTrace) -> String {
    let against = reading.target.map_or_else(String::new, |target| format!(" against {}", readable(target)));
    let asks = reading.replicas.map_or_else(String::new, |count| format!(", asks for {count}"));
    match &reading.state {
        ReadingState::Unknown(why) => format!("unknown: {why}"),
        // Its own words name the marks and the count.
        ReadingState::Value(_) if let Some(account) = &reading.account => account.clone(),
        ReadingState::Idle if let Some(account) = &reading.account => format!("idle: {account}"),
        ReadingState::Value(value) => format!("{}{against}{asks}", readable(value.get())),
        ReadingState::Idle => format!("idle{asks}"),
    }
}

/// A number, as a power of ten where zeros would only be counted.
fn readable(number: f64) -> String {
    if number == 0.0 || (1e-9..1e15).contains(&number.abs()) { number.to_string() } else { format!("{number:e}") }
}

/// Limited scaling, and what troubles the headroom law, is worth a line when it is so; everything else when it is not.
fn noteworthy(condition: &Condition) -> bool {
    condition.status == (condition.kind == ConditionType::ScalingLimited || ConditionType::OF_HEADROOM.contains(&condition.kind))
}
