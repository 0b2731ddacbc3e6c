//! Whether each query gives one value, and a plausible one.

use llmscaler_api::Scaler;
use llmscaler_engine::Law;
use llmscaler_operator::diagnose::What;
use llmscaler_signals::lint;
use llmscaler_signals::prometheus::Series;

use super::finding::Finding;
use super::source::{Answered, Answers, NoAnswer};

const CHECK: &str = "query";

/// How far a value may be from its target before it looks like another unit.
const FAR: f64 = 100.0;
/// A target from here on is no share.
const PERCENT: f64 = 20.0;
/// So many of several series are quoted.
const MOST_SERIES: usize = 2;

/// One finding at least for each query.
pub fn check(scaler: &Scaler, replicas: Option<i32>, answers: &Answers) -> Vec<Finding> {
    let busy = in_flight(answers);
    let mut findings: Vec<Finding> = answers.queries.iter().flat_map(|query| of_query(scaler, replicas, busy, query)).collect();
    findings.extend(answers.queries.iter().flat_map(of_text));
    findings
}

/// The requests in flight, where they are known.
fn in_flight(answers: &Answers) -> Option<f64> {
    answers.queries.iter().find_map(|query| match (&query.asked.what, &query.answer) {
        (What::InFlight(_), Some(Ok(series))) => one(series),
        _ => None,
    })
}

fn one(series: &[Series]) -> Option<f64> {
    match series {
        [one] => Some(one.value),
        _ => None,
    }
}

fn of_query(scaler: &Scaler, replicas: Option<i32>, busy: Option<f64>, query: &Answered) -> Option<Finding> {
    let name = &query.asked.source;
    let said = match (&query.asked.what, &query.answer) {
        (What::Nothing(why), _) => {
            return Some(Finding::problem(
                CHECK,
                format!("{name} is not asked for: {why}"),
                "until then it is unknown, and does not count",
            ));
        }
        (_, Some(answer)) => answer,
        (_, None) => return None,
    };
    match said {
        // One finding about the source says it for all.
        Err(NoAnswer::Unreached(_) | NoAnswer::Refused(_)) => None,
        Err(NoAnswer::Bad(why)) => {
            Some(Finding::problem(CHECK, format!("{name}: {why}"), "correct the query; the Prometheus UI marks the place"))
        }
        Err(NoAnswer::Empty) => Some(empty(name, &query.asked.what, busy)),
        Ok(series) => match one(series) {
            Some(value) => Some(of_value(scaler, replicas, busy, name, &query.asked.what, value)),
            None => Some(several(name, series)),
        },
    }
}

fn empty(name: &str, what: &What, busy: Option<f64>) -> Finding {
    match what {
        What::Quantile { name: latency, .. } if busy == Some(0.0) => {
            Finding::ok(CHECK, format!("{name}: no {latency} is measured, and no request is in flight, so the pool is idle"))
        }
        What::InFlight(_) => Finding::warning(
            CHECK,
            format!("{name}: nothing tells the requests in flight, so a pool without latencies is unknown and never idle"),
            "check preset.matchLabels, and that what emits these metrics is scraped",
        ),
        _ => Finding::problem(
            CHECK,
            format!("{name}: no series matches the query{}, so it is unknown and does not count", of_which(what)),
            "check the metric's name and each label in it, and that the pods are up and scraped",
        ),
    }
}

/// Of several queries of one source, which.
fn of_which(what: &What) -> String {
    match what {
        What::Quantile { name, .. } => format!(" of {name}"),
        _ => String::new(),
    }
}

fn several(name: &str, series: &[Series]) -> Finding {
    let some: Vec<String> = series.iter().take(MOST_SERIES).map(ToString::to_string).collect();
    Finding::problem(
        CHECK,
        format!("{name}: {} series came back where one number is needed, such as {}", series.len(), some.join(" and ")),
        "aggregate in the outermost part of the query: sum(…) for metricType AverageValue, avg(…) for Value",
    )
}

fn of_value(scaler: &Scaler, replicas: Option<i32>, busy: Option<f64>, name: &str, what: &What, value: f64) -> Finding {
    match what {
        What::Quantile { name: latency, promised, .. } => of_latency(name, latency, *promised, busy, value),
        What::InFlight(_) => Finding::ok(CHECK, format!("{name}: {} in flight", requests_are(value))),
        _ if !value.is_finite() => Finding::warning(
            CHECK,
            format!("{name}: the value is {value}, which is unknown to the scaler"),
            "guard the query against a division by zero, for example with clamp_min(…, 1) below the line",
        ),
        _ if value < 0.0 => {
            Finding::problem(CHECK, format!("{name}: the value {value} is negative, which is unknown to the scaler"), "correct the query")
        }
        _ => against_target(scaler, replicas, name, value),
    }
}

fn requests_are(count: f64) -> String {
    if count == 1.0 { "1 request is".to_owned() } else { format!("{count} requests are") }
}

fn against_target(scaler: &Scaler, replicas: Option<i32>, name: &str, value: f64) -> Finding {
    let law = scaler.spec.sources.iter().find(|source| source.name == name).map(|source| source.law);
    let Some(target) = law.and_then(Law::target).map(llmscaler_engine::Target::get) else {
        return Finding::ok(CHECK, format!("{name}: {value}"));
    };
    let (share, of) = match law {
        Some(Law::Average { .. }) => (value / f64::from(replicas.unwrap_or(1).max(1)), " a replica"),
        _ => (value, ""),
    };
    let said = format!("{name}: {} against a target of {target}", digits(share));
    if share / target > FAR {
        let advice = "compare the units: a share against a percentage, or seconds against milliseconds; it would ask for maxReplicas";
        return Finding::warning(CHECK, format!("{said}{of} is {:.0} times as much", share / target), advice);
    }
    if share > 0.0 && share <= 1.0 && target >= PERCENT && of.is_empty() {
        let advice = "if the query gives a share, write the target as one: \"0.8\" for 80 %; as it is, it asks for one replica";
        return Finding::warning(CHECK, format!("{said} looks like a share against a percentage"), advice);
    }
    Finding::ok(CHECK, format!("{said}{of}"))
}

fn of_latency(name: &str, latency: &str, promised: Option<f64>, busy: Option<f64>, value: f64) -> Finding {
    if value.is_nan() {
        return match busy {
            Some(0.0) => Finding::ok(CHECK, format!("{name}: no {latency} is measured, and no request is in flight, so the pool is idle")),
            Some(requests) => Finding::warning(
                CHECK,
                format!("{name}: no {latency} is measured although {} in flight", requests_are(requests)),
                "the pool may be stuck, or answers are not streamed: look at the logs of its pods",
            ),
            None => Finding::note(CHECK, format!("{name}: no {latency} is measured at present"), "nothing, if there are no requests"),
        };
    }
    let (limit, unit) = promised.map_or((1.0, ""), |promised| (promised, " s"));
    let said = format!("{name}: {latency} is {}{unit}, {}{unit} is promised", digits(value), limit);
    if value / limit > FAR {
        return Finding::warning(
            CHECK,
            format!("{said}, {:.0} times as much", value / limit),
            "the query has to give seconds; check its unit",
        );
    }
    Finding::ok(CHECK, said)
}

/// Three digits that count.
fn digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// What the text of a query gives away.
fn of_text(query: &Answered) -> Vec<Finding> {
    let (What::Value(text) | What::Quantile { query: text, .. }) = &query.asked.what else { return vec![] };
    let name = &query.asked.source;
    let findings = lint::lint(text).into_iter().filter_map(|finding| {
        let said = format!("{name}: {finding}");
        match finding.problem {
            // What came back tells better.
            lint::Problem::SeveralSeries => None,
            _ if finding.unreadable() => Some(Finding::note(CHECK, said, "if it is of a dialect that your server speaks, all is well")),
            _ => Some(Finding::warning(CHECK, said, "change the query as it says")),
        }
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use llmscaler_operator::diagnose::Asked;
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::Severity;
    use crate::doctor::source::Answer;
    use crate::doctor::tests::scaler;

    const SCOPED: &str = r#"avg(load{namespace="serving"})"#;

    fn series(values: &[f64]) -> Vec<Series> {
        let each = values.iter().enumerate();
        each.map(|(pod, value)| Series { labels: [("pod".to_owned(), pod.to_string())].into(), value: *value }).collect()
    }

    fn found(source: &str, what: What, answer: Answer, in_flight: Option<f64>) -> Vec<(Severity, String)> {
        let answered = |what, answer| Answered { asked: Asked { source: source.to_owned(), what }, answer: Some(answer) };
        let mut queries = vec![answered(what, answer)];
        queries.extend(in_flight.map(|busy| answered(What::InFlight("x".to_owned()), Ok(series(&[busy])))));
        let answers = Answers { address: "http://a".parse().unwrap(), withheld: vec![], queries, inputs: vec![], names: None };
        let findings = check(&scaler(json!({})), Some(4), &answers);
        findings.into_iter().take(1).map(|finding| (finding.severity, finding.found)).collect()
    }

    #[test]
    fn a_value_is_one_finite_number_near_its_target() {
        let of = |name: &str, answer: Answer| found(name, What::Value(SCOPED.to_owned()), answer, None);
        // kv has the target 0.8, and queue 5 a replica, of which there are 4.
        for (name, answer, severity, words) in [
            ("kv", Ok(series(&[0.6])), Severity::Ok, "kv: 0.6 against a target of 0.8"),
            ("kv", Ok(series(&[0.0])), Severity::Ok, "kv: 0 against a target of 0.8"),
            ("queue", Ok(series(&[30.0])), Severity::Ok, "queue: 7.5 against a target of 5 a replica"),
            ("kv", Ok(series(&[95.0])), Severity::Warning, "119 times as much"),
            ("percent", Ok(series(&[0.6])), Severity::Warning, "looks like a share"),
            ("kv", Ok(series(&[f64::NAN])), Severity::Warning, "the value is NaN"),
            ("kv", Ok(series(&[-1.0])), Severity::Problem, "negative"),
            ("kv", Ok(series(&[1.0, 2.0, 3.0])), Severity::Problem, "3 series came back where one number is needed, such as {pod=\"0\"}"),
            ("kv", Err(NoAnswer::Empty), Severity::Problem, "no series matches"),
            ("kv", Err(NoAnswer::Bad("parse error".to_owned())), Severity::Problem, "parse error"),
        ] {
            let found = of(name, answer);
            assert!(found[0].0 == severity && found[0].1.contains(words), "{words}: {found:?}");
        }
        assert_eq!(of("kv", Err(NoAnswer::Unreached("x".to_owned()))), [], "the source tells of it");
    }

    #[test]
    fn a_latency_that_is_not_measured_is_judged_by_the_requests_in_flight() {
        let what = || What::Quantile { name: "TTFT", query: SCOPED.to_owned(), promised: Some(3.0) };
        for (answer, busy, severity) in [
            (Ok(series(&[1.2])), None, Severity::Ok),
            (Ok(series(&[1200.0])), None, Severity::Warning),
            (Ok(series(&[f64::NAN])), Some(0.0), Severity::Ok),
            (Ok(series(&[f64::NAN])), Some(7.0), Severity::Warning),
            (Ok(series(&[f64::NAN])), None, Severity::Note),
            (Err(NoAnswer::Empty), Some(0.0), Severity::Ok),
            (Err(NoAnswer::Empty), Some(7.0), Severity::Problem),
        ] {
            assert_eq!(found("slo", what(), answer.clone(), busy)[0].0, severity, "{answer:?} {busy:?}");
        }
    }

    #[test]
    fn requests_in_flight_are_counted_in_words() {
        for (count, words) in [(0.0, "0 requests are in flight"), (1.0, "1 request is in flight"), (7.0, "7 requests are in flight")] {
            let found = found("slo", What::InFlight("x".to_owned()), Ok(series(&[count])), None);
            assert!(found[0].1.ends_with(words), "{found:?}");
        }
    }

    #[test]
    fn the_text_of_a_query_is_judged_as_well() {
        let query = |text: &str| Answered { asked: Asked { source: "q".to_owned(), what: What::Value(text.to_owned()) }, answer: None };
        assert_eq!(of_text(&query(SCOPED)), []);
        assert_eq!(of_text(&query("avg(load)"))[0].severity, Severity::Warning);
        assert_eq!(of_text(&query("avg(load"))[0].severity, Severity::Note);
        let invented = of_text(&query(r#"sum(load{namespace="serving"}) or vector(0)"#));
        assert!(invented[0].found.contains("missing series"), "{invented:?}");
    }

    #[test]
    fn what_is_not_asked_says_why() {
        let what = What::Nothing("nothing tells the pool from its neighbours".to_owned());
        assert_eq!(found("kv", what, Err(NoAnswer::Empty), None)[0].0, Severity::Problem);
    }
}
