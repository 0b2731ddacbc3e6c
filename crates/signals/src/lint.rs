//! What can be said of a user's PromQL without asking Prometheus: above all, whether it may mix pools.
//!
//! The query is parsed, not searched, so comments, strings and label values mislead nobody.
//!
//! ```
//! use llmscaler_signals::lint::{Problem, lint};
//!
//! let findings = lint(r#"sum(vllm:num_requests_waiting)"#);
//! assert_eq!(findings[0].problem, Problem::NoNamespace);
//! assert!(findings[0].unscoped());
//! assert!(lint(r#"sum(vllm:num_requests_waiting{namespace="serving"})"#).is_empty());
//! ```

mod one_series;
mod size;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::LazyLock;

use promql_parser::label::{MatchOp, Matcher};
use promql_parser::parser::{self, BinaryExpr, Expr, VectorSelector, token};

use crate::excerpt::{LONGEST_NAME, excerpt};
use crate::preset::{Preset, Signal};

/// Labels by which a namespace is known: as Prometheus adds it, renamed when the target has one too, and as other collectors call it.
const NAMESPACE: [&str; 4] = ["namespace", "exported_namespace", "k8s_namespace_name", "kubernetes_namespace"];

/// Software whose metric names have a colon, which otherwise marks the result of a recording rule.
const SOFTWARE: [&str; 4] = ["vllm", "sglang", "lmcache", "trtllm"];

/// One thing to know of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is about.
    pub problem: Problem,
    /// Where in the query, as PromQL; empty where it is about the whole.
    pub place: String,
    /// What is wrong, and what to write, as one sentence.
    pub text: String,
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// It is no PromQL, or of a dialect.
    NotPromQl,
    /// It is too large to be looked at.
    TooLarge,
    /// A selector matches the series of every namespace.
    NoNamespace,
    /// A selector takes the result of a recording rule, which may have mixed pools already.
    RecordingRule,
    /// A selector takes the EPP's running requests of every pool of its namespace.
    NoService,
    /// The result may be several series, and only one can be read.
    SeveralSeries,
    /// A missing series becomes a number.
    InventedValue,
}

impl Finding {
    /// Whether the query may mix pools: the condition `QueriesScoped` is False. The other findings are hints, or say that nothing
    /// is known ([`unreadable`](Self::unreadable)).
    #[must_use]
    pub fn unscoped(&self) -> bool {
        matches!(self.problem, Problem::NoNamespace | Problem::RecordingRule | Problem::NoService)
    }

    /// Whether the query could not be looked at, so that it is not known whether it mixes pools.
    #[must_use]
    pub fn unreadable(&self) -> bool {
        matches!(self.problem, Problem::NotPromQl | Problem::TooLarge)
    }

    fn new(problem: Problem, place: &str, text: String) -> Self {
        Self { problem, place: excerpt(place, LONGEST_NAME), text }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Every name, old and new, of the EPP's running requests, which have no label of their pool.
static EPP_RUNNING: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let row = Preset::named("llm-d-EPP").and_then(|preset| preset.row(Signal::RunningRequests));
    row.into_iter().flat_map(|row| &row.metrics).map(|metric| metric.name.as_str()).collect()
});

/// What there is to say of a query; nothing when all is well. The order is that of the query.
#[must_use]
pub fn lint(query: &str) -> Vec<Finding> {
    if let Err(too_large) = size::check(query) {
        return vec![Finding::new(Problem::TooLarge, "", format!("the query {too_large}, so it is not checked for other pools' series"))];
    }
    let expression = match parse(query) {
        Ok(expression) => expression,
        Err(why) => {
            let why = excerpt(&why, LONGEST_NAME);
            let text = format!("the query cannot be read as PromQL: {why}; run it in the Prometheus UI, which marks the place");
            return vec![Finding::new(Problem::NotPromQl, "", text)];
        }
    };
    let mut findings = Vec::new();
    visit(&expression, &mut findings);
    if !one_series::gives_one(&expression) {
        let text = "the query may give several series, and only one can be read; aggregate in its outermost part, with sum(…) for \
                    metricType AverageValue or avg(…) for Value";
        findings.push(Finding::new(Problem::SeveralSeries, "", text.to_owned()));
    }
    findings
}

/// Whether it is known that no selector of a query takes another pool's series: what the condition `QueriesScoped` is about.
///
/// # Errors
/// The findings that say otherwise. Where they are only [`unreadable`](Finding::unreadable), nothing is known.
pub fn scoped(query: &str) -> Result<(), Vec<Finding>> {
    let findings: Vec<Finding> = lint(query).into_iter().filter(|finding| finding.unscoped() || finding.unreadable()).collect();
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// The parser panics on some durations that are out of range, and a query must not end the task that looks at it.
fn parse(query: &str) -> Result<Expr, String> {
    std::panic::catch_unwind(|| parser::parse(query)).unwrap_or_else(|_| Err("a duration is out of range".to_owned()))
}

fn visit(expression: &Expr, findings: &mut Vec<Finding>) {
    match expression {
        Expr::Aggregate(aggregate) => {
            if let Some(parameter) = &aggregate.param {
                visit(parameter, findings);
            }
            visit(&aggregate.expr, findings);
        }
        Expr::Unary(unary) => visit(&unary.expr, findings),
        Expr::Paren(paren) => visit(&paren.expr, findings),
        Expr::Subquery(subquery) => visit(&subquery.expr, findings),
        Expr::Call(call) => call.args.args.iter().for_each(|argument| visit(argument, findings)),
        Expr::Binary(binary) => {
            visit(&binary.lhs, findings);
            visit(&binary.rhs, findings);
            invented(binary, findings);
        }
        Expr::VectorSelector(selector) => selects(selector, findings),
        Expr::MatrixSelector(matrix) => selects(&matrix.vs, findings),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => {}
    }
}

/// `… or vector(0)`.
fn invented(binary: &BinaryExpr, findings: &mut Vec<Finding>) {
    let is_vector = |expression: &Expr| matches!(bare(expression), Expr::Call(call) if call.func.name == "vector");
    if binary.op.id() == token::T_LOR && is_vector(&binary.rhs) {
        let value = binary.rhs.to_string();
        let text = format!(
            "`or {value}` makes a number of a missing series, so a failed scrape looks like an idle pool and may remove its replicas; \
             leave it out: a missing value holds the size"
        );
        findings.push(Finding::new(Problem::InventedValue, &format!("or {value}"), text));
    }
}

/// Without parentheses around it.
fn bare(mut expression: &Expr) -> &Expr {
    while let Expr::Paren(paren) = expression {
        expression = &paren.expr;
    }
    expression
}

fn selects(selector: &VectorSelector, findings: &mut Vec<Finding>) {
    let place = excerpt(&selector.to_string(), LONGEST_NAME);
    // Alternatives (`a="1" or b="2"`, a dialect) each have to be scoped.
    let alternatives = match selector.matchers.or_matchers.as_slice() {
        [] => std::slice::from_ref(&selector.matchers.matchers),
        several => several,
    };
    let has = |labels: &[&str]| {
        alternatives.iter().all(|matchers| matchers.iter().any(|matcher| labels.contains(&matcher.name.as_str()) && narrows(matcher)))
    };
    let named = |name: &str| match &selector.name {
        Some(own) => own == name,
        None => alternatives.iter().any(|matchers| {
            let mut names = matchers.iter().filter(|matcher| matcher.name == "__name__").peekable();
            names.peek().is_some() && names.all(|matcher| matcher.is_match(name))
        }),
    };
    if !has(&NAMESPACE) {
        let recorded = selector.name.as_deref().is_some_and(is_recorded);
        let (problem, text) = match recorded {
            true => (
                Problem::RecordingRule,
                format!(
                    "`{place}` is named like the result of a recording rule and has no namespace matcher, so the rule may have mixed all \
                     pools of this Prometheus; keep namespace and service in the rule and match them here, or use spec.slo or \
                     spec.preset, which need no rule"
                ),
            ),
            false => (
                Problem::NoNamespace,
                format!("`{place}` has no namespace matcher, so it takes the series of every namespace; add namespace=\"…\""),
            ),
        };
        findings.push(Finding::new(problem, &place, text));
    }
    if EPP_RUNNING.iter().any(|name| named(name)) && !has(&["service"]) {
        let text = format!(
            "`{place}` counts the requests of every pool in its namespace, since the EPP does not label them with the pool; add \
             service=\"…\", the Service through which Prometheus scrapes this pool's EPP"
        );
        findings.push(Finding::new(Problem::NoService, &place, text));
    }
}

/// Whether a matcher leaves anything out that a deployment could be called: neither `=""` nor `=~".*"` does.
fn narrows(matcher: &Matcher) -> bool {
    const ANY: &str = "a-name-that-nobody-gave";
    match &matcher.op {
        MatchOp::Equal => !matcher.value.is_empty(),
        MatchOp::Re(_) => !matcher.is_match("") && !matcher.is_match(ANY),
        MatchOp::NotEqual | MatchOp::NotRe(_) => false,
    }
}

/// `level:metric:operations` is the convention for recording rules; a colon after the name of an engine is its own.
fn is_recorded(name: &str) -> bool {
    name.split_once(':').is_some_and(|(first, rest)| rest.contains(':') || !SOFTWARE.contains(&first))
}
