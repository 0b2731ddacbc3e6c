//! Requests that were recorded.

use std::io::Read;
use std::sync::Arc;

use csv::{ErrorKind, ReaderBuilder, StringRecord, Trim};
use thiserror::Error;

use super::amount::Amount;
use super::{LONGEST, MOST_TOKENS};
use crate::Request;

/// The header of a trace file; the last column may be missing.
const COLUMNS: [&str; 4] = ["t_seconds", "prompt_tokens", "output_tokens", "reusable_prefix_tokens"];

/// Requests that were recorded, in the order of time, the first at 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    name: String,
    requests: Arc<[Request]>,
    reordered: bool,
}

/// Why a trace cannot be read.
#[derive(Debug, Error)]
#[error("trace {trace}: {problem}")]
pub struct TraceError {
    trace: String,
    problem: Problem,
}

#[derive(Debug, Error)]
enum Problem {
    #[error("{0}; check the file and read it again")]
    Unreadable(String),
    #[error("line {line} is not text; save the file as CSV in UTF-8")]
    NotText { line: u64 },
    #[error("its first line has no column {0}; make it t_seconds,prompt_tokens,output_tokens[,reusable_prefix_tokens]")]
    NoColumn(&'static str),
    #[error("its first line has the column {0} twice; rename or take out the one that does not count")]
    TwoColumns(&'static str),
    #[error("line {line} has {got} values instead of {wanted}; give every column of the first line a value")]
    Values { line: u64, got: u64, wanted: u64 },
    #[error("line {line}: t_seconds is {value:?}; give a finite number of seconds")]
    Time { line: u64, value: String },
    #[error("line {line}: {column} is {value:?}; give a whole number of {} to {MOST_TOKENS} tokens", if *column == COLUMNS[3] { 0 } else { 1 })]
    Tokens { line: u64, column: &'static str, value: String },
    #[error("line {line}: {column} is 0; leave out requests without prompt or answer, which were never served")]
    NoTokens { line: u64, column: &'static str },
    #[error("line {line}: reusable_prefix_tokens is {prefix}, but the prompt has only {prompt} tokens; check which column is which")]
    Prefix { line: u64, prefix: u32, prompt: u32 },
    #[error("it spans {} days; give t_seconds in seconds, for a year at most", Amount(.0.round()))]
    Span(f64),
    #[error("it has no requests; give at least one line after the first")]
    Empty,
}

impl Trace {
    /// Reads a trace from CSV with a header: `t_seconds,prompt_tokens,output_tokens`, and `reusable_prefix_tokens` where known. The
    /// columns may come in any order among others. Requests that are not in the order of time are sorted; times count from the first.
    ///
    /// # Errors
    /// With the line and what to do about it where a column or value is missing, not a number, zero or beyond all measure, and where
    /// there is no request.
    pub fn read(name: &str, csv: impl Read) -> Result<Self, TraceError> {
        let mut requests = rows(csv).map_err(|problem| TraceError { trace: name.to_owned(), problem })?;
        let reordered = !requests.is_sorted_by(|earlier, later| earlier.at <= later.at);
        if reordered {
            requests.sort_by(|one, other| one.at.total_cmp(&other.at));
        }
        let start = requests.first().map_or(0.0, |first| first.at);
        for request in &mut requests {
            request.at -= start;
        }
        let trace = Self { name: name.to_owned(), requests: requests.into(), reordered };
        match trace.seconds() {
            // Times in milliseconds give themselves away by this.
            seconds if seconds > LONGEST => Err(TraceError { trace: trace.name, problem: Problem::Span(seconds / 86_400.0) }),
            _ => Ok(trace),
        }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The requests, in the order of time; at least one.
    #[must_use]
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Whether the file was not in the order of time.
    #[must_use]
    pub fn reordered(&self) -> bool {
        self.reordered
    }

    /// When the last request comes, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.requests.last().map_or(0.0, |last| last.at)
    }
}

fn rows(csv: impl Read) -> Result<Vec<Request>, Problem> {
    let mut reader = ReaderBuilder::new().trim(Trim::All).from_reader(csv);
    let header = reader.headers().map_err(problem)?.clone();
    let column = |name: &'static str| header.iter().position(|column| column == name);
    if let Some(twice) = COLUMNS.into_iter().find(|name| header.iter().filter(|column| column == name).count() > 1) {
        return Err(Problem::TwoColumns(twice));
    }
    let [time, prompt, output] = [COLUMNS[0], COLUMNS[1], COLUMNS[2]].map(|name| column(name).ok_or(Problem::NoColumn(name)));
    let (time, prompt, output, prefix) = (time?, prompt?, output?, column(COLUMNS[3]));

    let mut requests = Vec::new();
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(problem)? {
        let line = record.position().map_or(0, csv::Position::line);
        let value = |column: usize| record.get(column).unwrap_or_default();
        let at = value(time).parse().ok().filter(|at: &f64| at.is_finite());
        let at = at.ok_or_else(|| Problem::Time { line, value: value(time).to_owned() })?;
        let tokens = |column: usize, name: &'static str| {
            let tokens = value(column).parse().ok().filter(|tokens| *tokens <= MOST_TOKENS);
            tokens.ok_or_else(|| Problem::Tokens { line, column: name, value: value(column).to_owned() })
        };
        let some = |column: usize, name: &'static str| match tokens(column, name) {
            Ok(0) => Err(Problem::NoTokens { line, column: name }),
            tokens => tokens,
        };
        let (prompt, output) = (some(prompt, COLUMNS[1])?, some(output, COLUMNS[2])?);
        let prefix = prefix.map_or(Ok(0), |prefix| tokens(prefix, COLUMNS[3]))?;
        if prefix > prompt {
            return Err(Problem::Prefix { line, prefix, prompt });
        }
        // However much of a prompt is cached, its last token is processed to yield the first of the answer.
        requests.push(Request { at, prompt, output, reusable_prefix: prefix.min(prompt - 1) });
    }
    if requests.is_empty() { Err(Problem::Empty) } else { Ok(requests) }
}

fn problem(error: csv::Error) -> Problem {
    match error.kind() {
        ErrorKind::UnequalLengths { pos, expected_len, len } => {
            Problem::Values { line: pos.as_ref().map_or(0, csv::Position::line), got: *len, wanted: *expected_len }
        }
        ErrorKind::Utf8 { pos, .. } => Problem::NotText { line: pos.as_ref().map_or(1, csv::Position::line) },
        _ => Problem::Unreadable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Trace, String> {
        Trace::read("t", text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn columns_are_found_by_name_and_times_count_from_the_first() {
        let trace = read("id,output_tokens, prompt_tokens,t_seconds\na,3,20,100.5\nb,4,30,101\n").unwrap();
        let first = Request { at: 0.0, prompt: 20, output: 3, reusable_prefix: 0 };
        assert_eq!(trace.requests(), [first, Request { at: 0.5, prompt: 30, output: 4, reusable_prefix: 0 }]);
        assert!(!trace.reordered());
        assert_eq!(trace.seconds(), 0.5);
    }

    #[test]
    fn rows_are_sorted_and_those_of_one_instant_stay_as_they_are() {
        let trace = read("t_seconds,prompt_tokens,output_tokens\n5,1,1\n-2,2,1\n5,3,1\n").unwrap();
        assert!(trace.reordered());
        assert_eq!(trace.requests().iter().map(|request| (request.at, request.prompt)).collect::<Vec<_>>(), [(0.0, 2), (7.0, 1), (7.0, 3)]);
    }

    #[test]
    fn a_reused_prompt_still_has_a_token_to_process() {
        let trace = read("\u{feff}t_seconds,prompt_tokens,output_tokens,reusable_prefix_tokens\r\n0,512,9,512\r\n1,600,9,512\r\n").unwrap();
        assert_eq!(trace.requests().iter().map(|request| request.reusable_prefix).collect::<Vec<_>>(), [511, 512]);
    }

    #[test]
    fn errors_say_where_and_what_to_do() {
        let header = "t_seconds,prompt_tokens,output_tokens,reusable_prefix_tokens\n";
        for (text, wanted) in [
            ("", "no column t_seconds; make it t_seconds,prompt_tokens"),
            ("t_seconds,prompt_tokens\n1,2\n", "no column output_tokens"),
            ("0,20,3\n1,20,3\n", "no column t_seconds"),
            ("t_seconds,prompt_tokens,output_tokens,prompt_tokens\n0,1,1,2\n", "has the column prompt_tokens twice"),
            (&format!("{header}0,1,1,0\n1e300,1,1,0\n"), "e295 days; give t_seconds in seconds"),
            (header, "it has no requests"),
            (&format!("{header}0,1,1,0\n1,2,3\n"), "line 3 has 3 values instead of 4"),
            (&format!("{header}NaN,1,1,0\n"), "line 2: t_seconds is \"NaN\""),
            (&format!("{header}1e999,1,1,0\n"), "line 2: t_seconds is \"1e999\""),
            (&format!("{header},1,1,0\n"), "line 2: t_seconds is \"\""),
            (&format!("{header}0,-1,1,0\n"), "line 2: prompt_tokens is \"-1\"; give a whole number of 1 to"),
            (&format!("{header}0,1,2.5,0\n"), "line 2: output_tokens is \"2.5\""),
            (&format!("{header}0,1,1,0\n0,99999999,1,0\n"), "line 3: prompt_tokens is \"99999999\""),
            (&format!("{header}0,99999999999999999999,1,0\n"), "line 2: prompt_tokens"),
            (&format!("{header}0,1,1,x\n"), "line 2: reusable_prefix_tokens is \"x\"; give a whole number of 0 to"),
            (&format!("{header}0,1,0,0\n"), "line 2: output_tokens is 0; leave out"),
            (&format!("{header}0,0,1,0\n"), "line 2: prompt_tokens is 0"),
            (&format!("{header}0,5,1,6\n"), "the prompt has only 5 tokens"),
            (&format!("{header}0,1,1,0\n86400000,1,1,0\n"), "it spans 1000 days; give t_seconds in seconds"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with("trace t: ") && error.contains(wanted), "{text:?} gives {error:?}");
        }
    }

    #[test]
    fn what_is_not_text_is_refused_with_its_line() {
        let error = Trace::read("t", &b"t_seconds,prompt_tokens,output_tokens\n0,\xff,1\n"[..]).unwrap_err().to_string();
        assert!(error.contains("line 2 is not text; save the file as CSV in UTF-8"), "{error}");
    }
}
