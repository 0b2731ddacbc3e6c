//! The text formats in which programs expose their metrics: Prometheus' 0.0.4, and as much of OpenMetrics 1.0 as has samples.
//!
//! A page of an inference server has thousands of lines of which a scaler wants some dozens, so a line is read in two steps: its
//! [name](Line::of), and only where somebody wants that, its [labels and value](Line::sample). Comments are skipped, and with them
//! types and help; timestamps and exemplars are checked no further than is needed to know that they are such. A line that is wanted
//! and cannot be read spoils the whole page, as with Prometheus: half of a page would be a fleet with half of its load.

use std::borrow::Cow;

use crate::prometheus::number;

/// The most labels of one sample.
pub const MOST_LABELS: usize = 64;

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// It is neither a comment nor does it begin with a metric name.
    #[error("it does not begin with a metric name")]
    Name,
    /// Bytes that are not UTF-8.
    #[error("it is not UTF-8")]
    Encoding,
    /// A label set that is not `{name="value",…}`.
    #[error("its labels are not of the form {{name=\"value\"}}")]
    Labels,
    /// More than [`MOST_LABELS`].
    #[error("it has more than {MOST_LABELS} labels")]
    ManyLabels,
    /// A label name twice.
    #[error("it has one label twice")]
    SameLabel,
    /// No value, or one that is no number.
    #[error("its value is not a number")]
    Value,
    /// Something after the value that is neither a timestamp nor an exemplar.
    #[error("something follows its value that is no timestamp")]
    Trailing,
}

/// A line of a page that has a sample, read as far as its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The name of the sample, such as `vllm:num_requests_running` or `http_requests_total`.
    pub name: &'a str,
    rest: &'a [u8],
}

/// A sample without its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Names and values in the order of the line; no name twice.
    pub labels: Vec<(&'a str, Cow<'a, str>)>,
    /// The value, which may be NaN or infinite.
    pub value: f64,
}

impl<'a> Line<'a> {
    /// Reads the name on a line (without its line feed). `None` for comments and blank lines, and for names in quotes
    /// (`{"a.name"} 1`), which no server sends unasked.
    ///
    /// # Errors
    /// It begins with something else.
    pub fn of(line: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let line = line.trim_ascii_start();
        match line.first() {
            None | Some(b'#' | b'{') => return Ok(None),
            Some(&first) if !is_name(first) || first.is_ascii_digit() => return Err(Malformed::Name),
            Some(_) => {}
        }
        let end = line.iter().position(|&byte| !is_name(byte)).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        let name = std::str::from_utf8(name).map_err(|_| Malformed::Name)?;
        match rest.first() {
            Some(b'{' | b' ' | b'\t') => Ok(Some(Self { name, rest })),
            _ => Err(Malformed::Name),
        }
    }

    /// Reads the rest of the line.
    ///
    /// # Errors
    /// It is not a sample.
    pub fn sample(self) -> Result<Sample<'a>, Malformed> {
        let rest = std::str::from_utf8(self.rest).map_err(|_| Malformed::Encoding)?.trim_matches(BLANK);
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(inside) => labels(inside)?,
            None => (Vec::new(), rest),
        };
        let mut words = rest.split(BLANK).filter(|word| !word.is_empty());
        let value = words.next().and_then(number::parse).ok_or(Malformed::Value)?;
        match words.next() {
            None => {}
            Some(exemplar) if exemplar.starts_with('#') => {}
            Some(timestamp) if number::parse(timestamp).is_some() => match words.next() {
                None => {}
                Some(exemplar) if exemplar.starts_with('#') => {}
                Some(_) => return Err(Malformed::Trailing),
            },
            Some(_) => return Err(Malformed::Trailing),
        }
        Ok(Sample { labels, value })
    }
}

const BLANK: [char; 3] = [' ', '\t', '\r'];

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':'
}

type Labels<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// Reads labels after their `{`, up to and with the `}`; a comma may stand after the last one.
fn labels(text: &str) -> Result<(Labels<'_>, &str), Malformed> {
    let mut labels: Labels<'_> = Vec::new();
    let mut text = text.trim_start_matches(BLANK);
    loop {
        if let Some(rest) = text.strip_prefix('}') {
            return Ok((labels, rest));
        }
        let (name, rest) = text.split_once('=').ok_or(Malformed::Labels)?;
        let name = name.trim_matches(BLANK);
        if name.is_empty() || !name.bytes().all(|byte| is_name(byte) && byte != b':') || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(Malformed::Labels);
        }
        let rest = rest.trim_start_matches(BLANK).strip_prefix('"').ok_or(Malformed::Labels)?;
        let (value, rest) = quoted(rest).ok_or(Malformed::Labels)?;
        if labels.iter().any(|(known, _)| *known == name) {
            return Err(Malformed::SameLabel);
        }
        if labels.len() == MOST_LABELS {
            return Err(Malformed::ManyLabels);
        }
        labels.push((name, value));
        let rest = rest.trim_start_matches(BLANK);
        text = match rest.strip_prefix(',') {
            Some(next) => next.trim_start_matches(BLANK),
            None if rest.starts_with('}') => rest,
            None => return Err(Malformed::Labels),
        };
    }
}

/// Reads a label value after its opening quote, up to and with the closing one. `\\`, `\"` and `\n` are escapes; a backslash before
/// anything else stands for itself, as with Prometheus.
fn quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let plain = text.find(['"', '\\'])?;
    if text.as_bytes().get(plain) == Some(&b'"') {
        return Some((Cow::Borrowed(&text[..plain]), &text[plain + 1..]));
    }
    let mut value = text[..plain].to_owned();
    let mut characters = text[plain..].char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((Cow::Owned(value), &text[plain + at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                escaped @ ('"' | '\\') => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Name, labels and value.
    type Read = (String, Vec<(String, String)>, f64);

    fn read(line: &str) -> Result<Option<Read>, Malformed> {
        let Some(line) = Line::of(line.as_bytes())? else { return Ok(None) };
        let sample = line.sample()?;
        let labels = sample.labels.into_iter().map(|(name, value)| (name.to_owned(), value.into_owned())).collect();
        Ok(Some((line.name.to_owned(), labels, sample.value)))
    }

    #[test]
    fn reads_samples() {
        let inf = f64::INFINITY;
        for (line, name, labels, value) in [
            ("up 1", "up", &[][..], 1.0),
            ("  up\t 1 ", "up", &[], 1.0),
            ("up{} 1", "up", &[], 1.0),
            ("up 1\r", "up", &[], 1.0),
            ("up 1 1395066363000", "up", &[], 1.0),
            ("up 1 -3982045", "up", &[], 1.0),
            ("up 1 1520879607.789", "up", &[], 1.0),
            (
                "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3.0",
                "vllm:num_requests_running",
                &[("engine", "0"), ("model_name", "m")],
                3.0,
            ),
            ("x { a = \"1\" , b=\"2\" , } 4", "x", &[("a", "1"), ("b", "2")], 4.0),
            ("x_bucket{le=\"+Inf\"} +Inf", "x_bucket", &[("le", "+Inf")], inf),
            ("x{a=\"\"} 1e3", "x", &[("a", "")], 1000.0),
            ("x{a=\"é } , = \"} 2", "x", &[("a", "é } , = ")], 2.0),
            (r#"x{p="C:\\D\n\"q\"\t"} 2"#, "x", &[("p", "C:\\D\n\"q\"\\t")], 2.0),
            ("x_bucket{le=\"0.1\"} 8 # {trace_id=\"a\"} 0.09", "x_bucket", &[("le", "0.1")], 8.0),
            ("x_total 17 1520879607.789 # {id=\"a\"} 1 1.5", "x_total", &[], 17.0),
            ("x_total 17 # {} 0.5", "x_total", &[], 17.0),
        ] {
            let labels: Vec<_> = labels.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
            assert_eq!(read(line), Ok(Some((name.to_owned(), labels, value))), "{line}");
        }
        let (_, _, nan) = read("x NaN").unwrap().unwrap();
        assert!(nan.is_nan());
    }

    #[test]
    fn passes_over_what_is_no_sample() {
        for line in ["", "  ", "\r", "# HELP x The x.", "# TYPE x gauge", "# EOF", "#", "{\"a.b\"} 1"] {
            assert_eq!(read(line), Ok(None), "{line:?}");
        }
    }

    #[test]
    fn refuses_what_cannot_be_read() {
        for (line, wrong) in [
            ("<html>", Malformed::Name),
            ("<!DOCTYPE html>", Malformed::Name),
            ("1up 1", Malformed::Name),
            ("up", Malformed::Name),
            ("up-time 1", Malformed::Name),
            ("é 1", Malformed::Name),
            ("\"status\": 1", Malformed::Name),
            ("up one", Malformed::Value),
            ("up ", Malformed::Value),
            ("up{}", Malformed::Value),
            ("up 1e400", Malformed::Value),
            ("up{a=\"b\"", Malformed::Labels),
            ("up{a=\"b} 1", Malformed::Labels),
            ("up{a=\"b\\\"} 1", Malformed::Labels),
            ("up{a=b} 1", Malformed::Labels),
            ("up{a} 1", Malformed::Labels),
            ("up{=\"b\"} 1", Malformed::Labels),
            ("up{,} 1", Malformed::Labels),
            ("up{1a=\"b\"} 1", Malformed::Labels),
            ("up{a=\"b\" c=\"d\"} 1", Malformed::Labels),
            ("up{a=\"b\",a=\"c\"} 1", Malformed::SameLabel),
            ("up 1 now", Malformed::Trailing),
            ("up 1 2 3", Malformed::Trailing),
        ] {
            assert_eq!(read(line), Err(wrong), "{line}");
        }
        let many: Vec<_> = (0..=MOST_LABELS).map(|i| format!("l{i}=\"\"")).collect();
        assert_eq!(read(&format!("x{{{}}} 1", many.join(","))), Err(Malformed::ManyLabels));
        assert!(read(&format!("x{{{}}} 1", many[1..].join(","))).is_ok());
        let latin = Line::of(b"x{a=\"\xe9\"} 1").unwrap().unwrap();
        assert_eq!(latin.sample(), Err(Malformed::Encoding));
    }

    proptest! {
        #[test]
        fn never_panics(line in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some(line)) = Line::of(&line) {
                let _ = line.sample();
            }
        }

        #[test]
        fn never_panics_on_what_looks_like_a_sample(line in "x\\{?[a=\"\\\\n,} é0-9.#]{0,40}") {
            if let Ok(Some(line)) = Line::of(line.as_bytes()) {
                let _ = line.sample();
            }
        }

        #[test]
        fn reads_what_a_library_writes(
            name in "[a-zA-Z_:][a-zA-Z0-9_:]{0,20}",
            labels in prop::collection::btree_map("[a-z_][a-z0-9_]{0,8}", "\\PC{0,12}|[\"\\\\\n]{0,4}", 0..5),
            value in any::<f64>(),
        ) {
            let escape = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let shown: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
            let value = if value.is_nan() { f64::NAN } else { value };
            let line = format!("{name}{{{}}} {value:?}", shown.join(","));
            let (found, found_labels, found_value) = read(&line).unwrap().unwrap();
            prop_assert_eq!(found, name);
            prop_assert_eq!(found_labels, labels.into_iter().collect::<Vec<_>>());
            prop_assert!(found_value == value || found_value.is_nan() && value.is_nan());
        }
    }
}
