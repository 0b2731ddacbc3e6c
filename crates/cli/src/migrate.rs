//! `llmscaler migrate`: scalers that take over from other autoscalers, and an account of every field of those.

mod aibrix;
mod behavior;
mod draft;
mod formula;
mod hpa;
mod input;
mod keda;
mod ledger;
mod name;
mod outcome;
mod plan;
mod print;
mod wva;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use llmscaler_api::{Actuation, Invalid};
use serde_json::Value;

use self::input::{Input, Kind};
use self::keda::authentication::Authentication;
use self::ledger::{Ledger, Node};
use self::outcome::{Made, Outcome};
use crate::cluster::{ClusterArguments, block_on};
use crate::dns;
use crate::failure::Failure;
use crate::prose::columns;

/// The arguments of `migrate`.
#[derive(Debug, Args)]
pub struct MigrateArguments {
    /// Files with the objects, in YAML or JSON, of several documents or a list; - is standard input. With -n, those without a namespace are
    /// taken for that one's
    #[arg(short, long = "filename", value_name = "FILE", required_unless_present = "from_cluster")]
    #[arg(conflicts_with_all = ["from_cluster", "kubeconfig", "context", "all_namespaces"])]
    files: Vec<PathBuf>,
    /// Read the objects from a cluster; nothing is changed there
    #[arg(long)]
    from_cluster: bool,
    #[command(flatten)]
    cluster: ClusterArguments,
    /// The Prometheus to ask where the object names none: for an HPA always, for a VariantAutoscaling instead of its pods
    #[arg(long, value_name = "URL")]
    server_address: Option<String>,
    /// Who writes the size of the target: the scaler itself, or an HPA that the operator makes, for clusters where only an HPA may
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Writer::Direct)]
    actuation: Writer,
    /// text: scalers on standard output, the report on standard error; json: both in one object on standard output
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
    /// Leave out the steps of the hand-over
    #[arg(long)]
    no_plan: bool,
}

/// Who writes the size of the target, by the names of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
enum Writer {
    Direct,
    HorizontalPodAutoscaler,
}

impl From<Writer> for Actuation {
    fn from(writer: Writer) -> Self {
        match writer {
            Writer::Direct => Self::Direct,
            Writer::HorizontalPodAutoscaler => Self::HorizontalPodAutoscaler,
        }
    }
}

/// How the result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Prints scalers for the autoscalers of the input, and the report.
pub fn run(arguments: &MigrateArguments, out: &mut impl Write) -> Result<(), Failure> {
    let (mut input, source) = if arguments.from_cluster {
        let asked = block_on(async { input::cluster(&arguments.cluster.connect().await?).await })?;
        (asked, "the cluster".to_owned())
    } else {
        let named: Vec<String> = arguments.files.iter().map(|file| file.display().to_string()).collect();
        (input::files(&arguments.files)?, named.join(", "))
    };
    let invalid = |invalid| Failure::Invalid { file: source.clone(), invalid };
    if !arguments.from_cluster && input.objects.is_empty() {
        // What there is instead.
        print::report(&mut io::stderr().lock(), &[], &input.notes, &[], columns()).map_err(Failure::Output)?;
        return Err(invalid(input::nothing()));
    }
    if let (false, Some(namespace)) = (arguments.from_cluster, arguments.cluster.namespace()) {
        input.place_in(namespace).map_err(invalid)?;
    }
    let found_none = input.objects.is_empty();
    let (outcomes, mut notes) = migrate(input, arguments).map_err(invalid)?;
    notes.extend(rivals(&outcomes));
    if found_none {
        notes.push("there is no autoscaler to migrate; name another namespace with -n, or look everywhere with -A".to_owned());
    }
    let plan = if arguments.no_plan { vec![] } else { plan::plan(&outcomes) };
    match arguments.output {
        Format::Json => print::json(out, &outcomes, &notes, &plan).map_err(Failure::Output)?,
        Format::Text => {
            print::scalers(out, &outcomes).and_then(|()| out.flush()).map_err(Failure::Output)?;
            print::report(&mut io::stderr().lock(), &outcomes, &notes, &plan, columns()).map_err(Failure::Output)?;
        }
    }
    let incomplete = outcomes.iter().filter(|outcome| outcome.is_incomplete()).count();
    if incomplete > 0 { Err(Failure::NotCarried(i32::try_from(incomplete).unwrap_or(i32::MAX))) } else { Ok(()) }
}

/// What becomes of each object, and what was passed over.
fn migrate(input: Input, arguments: &MigrateArguments) -> Result<(Vec<Outcome>, Vec<String>), Invalid> {
    let (credentials, scalers): (Vec<_>, Vec<_>) = input.objects.into_iter().partition(|(kind, _)| *kind == Kind::TriggerAuthentication);
    let known = credentials.into_iter().map(|(_, value)| authentication(value)).collect::<Result<Vec<_>, _>>()?;
    let mut outcomes = vec![];
    for (kind, value) in &scalers {
        outcomes.push(one(*kind, value, arguments, &known).map_err(|invalid| placed(value, invalid))?);
    }
    outcomes.extend(known.into_iter().map(Authentication::close));
    let mut notes = input.notes;
    notes.extend(name::tell_apart(&mut outcomes));
    Ok((outcomes, notes))
}

fn authentication(value: Value) -> Result<Authentication, Invalid> {
    Authentication::new(value.clone()).map_err(|invalid| placed(&value, invalid))
}

fn one(kind: Kind, value: &Value, arguments: &MigrateArguments, known: &[Authentication]) -> Result<Outcome, Invalid> {
    let ledger = Ledger::default();
    let root = Node::root(value, &ledger);
    let origin = outcome::origin(&root)?;
    let (namespace, server) = (origin.namespace.as_deref(), arguments.server_address.as_deref());
    let made = match kind {
        Kind::HorizontalPodAutoscaler => hpa::autoscaler(&root, server, namespace)?,
        Kind::ScaledObject => keda::scaled_object(&root, namespace, known)?,
        Kind::VariantAutoscaling => wva::variant(&root, server)?,
        Kind::PodAutoscaler => aibrix::pod_autoscaler(&root)?,
        Kind::TriggerAuthentication => Made::none("it scales nothing"),
    };
    Ok(Outcome::new(origin, &root, &ledger, made, arguments.actuation.into()))
}

/// A fault with the object that it is in.
fn placed(object: &Value, invalid: Invalid) -> Invalid {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = match object["metadata"]["name"].as_str() {
        None => String::new(),
        Some(name) if dns::subdomain(name).is_ok() => format!(" {name}"),
        Some(name) => format!(" {name:?}"),
    };
    Invalid { field: format!("{kind}{name}: {}", invalid.field), message: invalid.message }
}

/// Objects of one target, of which only one may become a scaler.
fn rivals(outcomes: &[Outcome]) -> Vec<String> {
    let mut of_target: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for outcome in outcomes {
        if let Some(Ok(draft)) = &outcome.scaler {
            let (target, namespace) = (&draft.spec.target_ref, draft.metadata.namespace.as_deref().unwrap_or_default());
            of_target.entry(format!("{} {namespace}/{}", target.kind, target.name)).or_default().push(outcome.origin.to_string());
        }
    }
    let several = of_target.into_iter().filter(|(_, origins)| origins.len() > 1);
    several
        .map(|(what, origins)| {
            format!("{} are both about {what}: apply one of their scalers, or join their metrics in one", origins.join(" and "))
        })
        .collect()
}
