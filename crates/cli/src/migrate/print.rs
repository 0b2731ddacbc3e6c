//! The scalers and the report, for people and for programs.

use std::io::{self, Write};

use serde::Serialize;

use super::draft::Draft;
use super::ledger::{Entry, Fate};
use super::outcome::{Origin, Outcome};
use super::plan::Step;
use crate::prose::paragraph;

/// Everything that is said, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report<'a> {
    scalers: Vec<&'a Draft>,
    objects: Vec<Object<'a>>,
    notes: &'a [String],
    plan: &'a [Step],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    #[serde(flatten)]
    origin: &'a Origin,
    /// Whether a scaler was made of it.
    migrated: bool,
    fields: &'a [Entry],
    differences: &'a [String],
}

/// The scaler that was made of an object.
fn draft(outcome: &Outcome) -> Option<&Draft> {
    outcome.scaler.as_ref()?.as_ref().ok()
}

/// One JSON object.
pub fn json(out: &mut impl Write, outcomes: &[Outcome], notes: &[String], plan: &[Step]) -> io::Result<()> {
    let objects = outcomes.iter().map(|outcome| Object {
        origin: &outcome.origin,
        migrated: draft(outcome).is_some(),
        fields: &outcome.fields,
        differences: &outcome.differences,
    });
    let report = Report { scalers: outcomes.iter().filter_map(draft).collect(), objects: objects.collect(), notes, plan };
    serde_json::to_writer_pretty(&mut *out, &report)?;
    out.write_all(b"\n")
}

/// The scalers as documents that can be applied.
pub fn scalers(out: &mut impl Write, outcomes: &[Outcome]) -> io::Result<()> {
    for outcome in outcomes {
        let Some(draft) = draft(outcome) else { continue };
        let yaml = serde_saphyr::to_string(draft).map_err(io::Error::other)?;
        writeln!(out, "---\n# Made of {} by llmscaler migrate. It only recommends until mode is Auto.", outcome.origin)?;
        if outcome.is_incomplete() {
            writeln!(out, "# Not all of it could be carried; the report says what.")?;
        }
        writeln!(out, "{}", yaml.trim_end())?;
    }
    Ok(())
}

/// The report and the plan, for people.
pub fn report(out: &mut impl Write, outcomes: &[Outcome], notes: &[String], plan: &[Step], columns: usize) -> io::Result<()> {
    for outcome in outcomes {
        match &outcome.scaler {
            Some(Ok(_)) => writeln!(out, "{} becomes an LLMScaler", outcome.origin)?,
            Some(Err(_)) => writeln!(out, "{} becomes nothing", outcome.origin)?,
            None => writeln!(out, "{}", outcome.origin)?,
        }
        fields(out, outcome, columns)?;
        if !outcome.differences.is_empty() {
            writeln!(out, "  behaves differently:")?;
            for difference in &outcome.differences {
                writeln!(out, "{}", paragraph("    * ", difference, columns))?;
            }
        }
        writeln!(out)?;
    }
    for note in notes {
        writeln!(out, "{}", paragraph("Note: ", note, columns))?;
    }
    if !plan.is_empty() {
        writeln!(out, "Hand-over, without a gap and without two owners:")?;
    }
    for (index, step) in plan.iter().enumerate() {
        writeln!(out, "{}", paragraph(&format!("  {}. ", index + 1), &step.why, columns))?;
        step.commands.iter().try_for_each(|command| writeln!(out, "       {command}"))?;
    }
    Ok(())
}

fn fields(out: &mut impl Write, outcome: &Outcome, columns: usize) -> io::Result<()> {
    let of =
        |wanted: fn(&Fate) -> Option<&String>| outcome.fields.iter().filter_map(move |entry| Some((&entry.field, wanted(&entry.fate)?)));
    let carried: Vec<_> = of(|fate| if let Fate::Carried(to) = fate { Some(to) } else { None }).collect();
    if !carried.is_empty() {
        writeln!(out, "  carried:")?;
        carried.iter().try_for_each(|(field, to)| writeln!(out, "    {field} → {to}"))?;
    }
    for (heading, entries) in [
        ("needs no counterpart", of(|fate| if let Fate::Left(why) = fate { Some(why) } else { None }).collect::<Vec<_>>()),
        ("NOT CARRIED", of(|fate| if let Fate::Lost(why) = fate { Some(why) } else { None }).collect::<Vec<_>>()),
    ] {
        if !entries.is_empty() {
            writeln!(out, "  {heading}:")?;
        }
        let mut by_reason: Vec<(&String, Vec<&str>)> = vec![];
        for (field, why) in entries {
            let field = if field.is_empty() { "all of it" } else { field };
            match by_reason.iter_mut().find(|(reason, _)| *reason == why) {
                Some((_, fields)) => fields.push(field),
                None => by_reason.push((why, vec![field])),
            }
        }
        for (why, fields) in by_reason {
            writeln!(out, "{}", paragraph("    ", &format!("{}: {why}", fields.join(", ")), columns))?;
        }
    }
    Ok(())
}
