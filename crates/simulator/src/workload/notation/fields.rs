//! The parts of a notation.

use crate::workload::amount::Amount;
use crate::workload::{LONGEST, MOST_REQUESTS, MOST_TOKENS};

/// What stands behind the colon: values with a key, and values without one.
pub(super) struct Fields<'a> {
    keyed: Vec<(&'a str, &'a str)>,
    bare: Vec<&'a str>,
}

impl<'a> Fields<'a> {
    pub fn new(text: &'a str) -> Self {
        let fields = text.split(',').map(str::trim).filter(|field| !field.is_empty());
        let (keyed, bare): (Vec<_>, Vec<_>) = fields.partition(|field| field.contains('='));
        Self { keyed: keyed.into_iter().filter_map(|field| field.split_once('=')).collect(), bare }
    }

    pub fn has(&self, key: &str) -> bool {
        self.keyed.iter().any(|(name, _)| *name == key)
    }

    pub fn take(&mut self, key: &str) -> Option<&'a str> {
        let position = self.keyed.iter().position(|(name, _)| *name == key)?;
        Some(self.keyed.remove(position).1)
    }

    pub fn take_bare(&mut self) -> Option<&'a str> {
        (!self.bare.is_empty()).then(|| self.bare.remove(0))
    }

    /// Values such as `2x330`: an amount for a time.
    pub fn stages(&mut self) -> Result<Vec<(f64, f64)>, String> {
        let stages = std::mem::take(&mut self.bare).into_iter().map(|stage| {
            let (amount, seconds) =
                stage.split_once('x').ok_or_else(|| format!("{stage} is no step; write amount x time, such as 4x360"))?;
            Ok((checked("a step", number(amount)?, 0.0, MOST_REQUESTS)?, time("a step", seconds)?))
        });
        let stages: Vec<_> = stages.collect::<Result<_, String>>()?;
        let lasting: f64 = stages.iter().map(|(_, seconds)| seconds).sum();
        if stages.is_empty() {
            Err("there is no step; give some, such as 2x330,4x360".to_owned())
        } else {
            checked("all steps", lasting, 0.0, LONGEST).map(|_| stages)
        }
    }

    pub fn within(&mut self, key: &str, usual: Option<f64>, least: f64, most: f64) -> Result<f64, String> {
        match (self.take(key), usual) {
            (Some(text), _) => checked(key, number(text)?, least, most),
            (None, Some(usual)) => Ok(usual),
            (None, None) => Err(format!("{key} is missing; add {key}=…")),
        }
    }

    pub fn rate(&mut self, key: &str) -> Result<f64, String> {
        self.within(key, None, 0.0, MOST_REQUESTS)
    }

    pub fn positive(&mut self, key: &str) -> Result<f64, String> {
        self.within(key, None, 1.0, f64::from(MOST_TOKENS))
    }

    pub fn time(&mut self, key: &str, usual: Option<f64>) -> Result<f64, String> {
        match (self.take(key), usual) {
            (Some(text), _) => time(key, text),
            (None, Some(usual)) => Ok(usual),
            (None, None) => Err(format!("{key} is missing; add {key}=…, such as {key}=1h")),
        }
    }

    pub fn finish(self) -> Result<(), String> {
        let left = self.keyed.first().map(|(key, _)| *key).or(self.bare.first().copied());
        left.map_or(Ok(()), |left| Err(format!("{left} has no meaning here, or stands twice; take it out")))
    }
}

pub(super) fn number(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is no number"))
}

fn time(key: &str, text: &str) -> Result<f64, String> {
    let text = text.trim();
    let unit = text.find(|c: char| c.is_ascii_alphabetic() && c != 'e').unwrap_or(text.len());
    let factor = match &text[unit..] {
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        unit => return Err(format!("{key}: {unit} is no unit of time; give s, m or h")),
    };
    let seconds = number(&text[..unit])? * factor;
    if seconds > 0.0 { checked(key, seconds, 0.0, LONGEST) } else { Err(format!("{key} must be a time above 0 and is {text}")) }
}

fn checked(key: &str, value: f64, least: f64, most: f64) -> Result<f64, String> {
    if (least..=most).contains(&value) { Ok(value) } else { Err(format!("{key} must be {least} to {most} and is {}", Amount(value))) }
}

pub(super) fn whole(key: &str, value: f64) -> Result<u32, String> {
    if value.fract() == 0.0 { Ok(value as u32) } else { Err(format!("{key} must be a whole number and is {value}")) }
}

pub(super) fn tokens(key: &str, value: f64) -> Result<u32, String> {
    checked(key, value, 1.0, f64::from(MOST_TOKENS)).and_then(|value| whole(key, value))
}
