//! `llmscaler doctor`: whatever keeps scalers from doing their work, and what to do about it.
//!
//! Facts are gathered first, each under its own deadline ([`gather`], [`ask`]); the checks are functions from facts to findings.

mod ask;
mod definition;
mod drain;
mod external_metrics;
mod finding;
mod gather;
mod inputs;
mod names;
mod pages;
mod print;
mod queries;
mod rights;
mod rivals;
mod running;
mod source;
mod state;
#[cfg(test)]
mod tests;
mod workload;

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use futures::StreamExt;
use futures::stream;
use jiff::Timestamp;
use llmscaler_api::{LLMScaler, Scaler};
use llmscaler_operator::diagnose::preset_of;
use serde::Serialize;
use url::Url;

use self::finding::{Finding, Report, Severity};
use self::gather::{ClusterFacts, Surroundings, Target};
use self::source::Source;
use crate::cluster::{Cluster, ClusterArguments, block_on};
use crate::dns;
use crate::failure::Failure;
use crate::prose;
use crate::scalers::{self, Stored};

/// Scalers that are looked at at once.
const AT_ONCE: usize = 8;

/// The arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// The scaler; without it every one of the namespace
    #[arg(value_name = "NAME", value_parser = dns::subdomain, conflicts_with = "all_namespaces")]
    name: Option<String>,
    /// Ask this Prometheus in place of spec.serverAddress, such as the end of a port-forward
    #[arg(long, value_name = "URL")]
    prometheus: Option<Url>,
    /// The operator's service account, whose rights are checked; that of its pods, if these are found, unless given
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = account)]
    operator_account: Option<(String, String)>,
    /// text: for people; json: one object with all findings
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// All reports, for programs.
#[derive(Serialize)]
struct Document<'a> {
    reports: &'a [Report],
    problems: i32,
    warnings: i32,
}

fn account(text: &str) -> Result<(String, String), String> {
    let (namespace, name) = text.split_once('/').ok_or("write NAMESPACE/NAME")?;
    Ok((dns::label(namespace)?, dns::subdomain(name)?))
}

/// Looks at the cluster and at each scaler, and writes what was found.
pub fn run(arguments: &DoctorArguments, out: &mut impl Write) -> Result<(), Failure> {
    let reports = block_on(examine(arguments))?;
    let number = |severity| i32::try_from(reports.iter().map(|report| report.count(severity)).sum::<usize>()).unwrap_or(i32::MAX);
    let (problems, warnings) = (number(Severity::Problem), number(Severity::Warning));
    let written = match arguments.output {
        Format::Text => print::write(out, &reports, prose::columns()),
        Format::Json => serde_json::to_writer_pretty(&mut *out, &Document { reports: &reports, problems, warnings })
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out)),
    };
    // Whoever reads no further has seen enough, and needs no exit code either.
    written.and_then(|()| out.flush()).map_err(Failure::Output)?;
    match (problems, warnings) {
        (0, 0) => Ok(()),
        (0, warnings) => Err(Failure::Warnings(warnings)),
        (problems, warnings) => Err(Failure::Problems { problems, warnings }),
    }
}

async fn examine(arguments: &DoctorArguments) -> Result<Vec<Report>, Failure> {
    let cluster = arguments.cluster.connect().await?;
    let facts = gather::cluster(&cluster.client).await;
    let mut general = of_cluster(&facts)?;
    if facts.definition == Ok(None) {
        return Ok(vec![Report { subject: "cluster".to_owned(), findings: general }]);
    }
    let scalers = match &arguments.name {
        Some(name) => vec![scalers::one(&cluster, name).await?],
        None => scalers::all(&cluster).await?,
    };
    if scalers.is_empty() {
        let everywhere = if arguments.cluster.everywhere() { "" } else { " in this namespace; -A looks in all of them" };
        general.push(Finding::note(
            "scalers",
            format!("there is no LLMScaler{everywhere}"),
            "kubectl apply -f config/samples has examples",
        ));
    }
    let account = arguments.operator_account.clone().or_else(|| running::account(facts.operators.as_deref().unwrap_or_default()));
    let each = scalers.iter().map(|stored| report(&cluster, stored, account.as_ref(), arguments.prometheus.as_ref()));
    let mut reports = vec![Report { subject: "cluster".to_owned(), findings: general }];
    reports.extend(stream::iter(each).buffered(AT_ONCE).collect::<Vec<_>>().await);
    Ok(reports)
}

fn of_cluster(facts: &ClusterFacts) -> Result<Vec<Finding>, Failure> {
    let ours = llmscaler_api::definition().map_err(|error| Failure::Output(io::Error::other(error)))?;
    let mut findings = definition::check(&facts.definition, &ours);
    findings.extend(running::check(&facts.leases, &facts.operators, Timestamp::now()));
    Ok(findings)
}

async fn report(cluster: &Cluster, stored: &Stored, account: Option<&(String, String)>, prometheus: Option<&Url>) -> Report {
    let subject = format!("{}/{}", stored.namespace, stored.name);
    let findings = match &stored.scaler {
        Err(why) => {
            vec![Finding::problem("spec", format!("it cannot be read: {why}"), "edit it; kubectl explain llms.spec tells the fields")]
        }
        Ok(scaler) => match scaler.parse() {
            Ok(parsed) => of_scaler(cluster, stored, scaler, &parsed, account, prometheus).await,
            Err(invalid) => {
                let mut findings =
                    vec![Finding::problem("spec", format!("it cannot be used: {invalid}"), "edit it; nothing happens until then")];
                findings.extend(state::check(scaler, Timestamp::now()));
                findings
            }
        },
    };
    Report { subject, findings }
}

async fn of_scaler(
    cluster: &Cluster,
    stored: &Stored,
    scaler: &LLMScaler,
    parsed: &Scaler,
    account: Option<&(String, String)>,
    prometheus: Option<&Url>,
) -> Vec<Finding> {
    let namespace = &stored.namespace;
    let around = gather::surroundings(cluster, namespace, parsed, account).await;
    let pods = around.pods.as_deref().unwrap_or_default();
    let source = ask::source(&cluster.client, namespace, parsed, pods, prometheus).await;
    let mut findings = state::check_spec(scaler, parsed);
    findings.extend(of_surroundings(stored, parsed, &around, account));
    findings.extend(of_source(scaler, parsed, &around, &source, namespace));
    if let Ok(Target::Found { object, .. }) = &around.target {
        findings.extend(drain::check(object, ask::drain_budget(parsed, &source)));
    }
    findings.extend(state::check(scaler, Timestamp::now()));
    findings
}

fn of_surroundings(stored: &Stored, parsed: &Scaler, around: &Surroundings, account: Option<&(String, String)>) -> Vec<Finding> {
    let mut findings = workload::check(parsed, &stored.namespace, &around.target);
    findings.extend(workload::check_pods(&around.pods));
    findings.extend(workload::check_budgets(&around.target, &around.budgets));
    if let Ok(Target::Found { .. }) = &around.target {
        findings.push(rights::check(account, &around.denied));
    }
    findings.extend(rivals::check(stored, parsed, around));
    findings.extend(around.external_metrics.as_ref().map(|state| external_metrics::check(parsed.spec.mode, state)));
    findings
}

fn of_source(scaler: &LLMScaler, parsed: &Scaler, around: &Surroundings, source: &Source, namespace: &str) -> Vec<Finding> {
    let mut findings: Vec<Finding> = source::check(scaler, source).into_iter().collect();
    match source {
        Source::Prometheus(answers) => {
            let replicas = match &around.target {
                Ok(Target::Found { object, .. }) => object.pointer("/spec/replicas").and_then(serde_json::Value::as_i64),
                _ => None,
            };
            findings.extend(queries::check(parsed, replicas.and_then(|replicas| i32::try_from(replicas).ok()), answers));
            findings.extend(inputs::check(&answers.inputs));
            if let (Some(preset), Some(seen), true) = (preset_of(parsed), &answers.names, answers.reached()) {
                findings.extend(names::check(preset, &names::signals(parsed), seen, &format!("in namespace {namespace}")));
            }
        }
        Source::Pages(pages) => findings.extend(pages::check(pages, &names::signals(parsed))),
        Source::Decision { .. } | Source::Unusable(_) => {}
    }
    findings
}
