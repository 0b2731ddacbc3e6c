//! `llmscaler explain`: the last decision of a live scaler in words, from its status.

mod account;
mod print;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use llmscaler_api::LLMScaler;

use self::account::Account;
use crate::cluster::{Cluster, ClusterArguments, block_on};
use crate::dns;
use crate::failure::Failure;
use crate::prose;
use crate::scalers::{self, Stored};

/// The arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// The scaler; without it a line for each one
    #[arg(value_name = "NAME", value_parser = dns::subdomain, conflicts_with = "all_namespaces")]
    name: Option<String>,
    /// Explain it again whenever its status changes, until interrupted
    #[arg(short, long, requires = "name")]
    watch: bool,
    /// text: for people; json: one object for each scaler and change, a line each
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

/// Explains one scaler, or tells of all of them in a line each.
pub fn run(arguments: &ExplainArguments, out: &mut impl Write) -> Result<(), Failure> {
    block_on(async {
        let cluster = arguments.cluster.connect().await?;
        match &arguments.name {
            None => list(&cluster, arguments.output, out).await,
            Some(name) => {
                // A watch would wait for one that does not exist.
                let stored = scalers::one(&cluster, name).await?;
                if arguments.watch { follow(&cluster, name, arguments.output, out).await } else { explain(stored, arguments.output, out) }
            }
        }
    })
}

async fn list(cluster: &Cluster, format: Format, out: &mut impl Write) -> Result<(), Failure> {
    let all = scalers::all(cluster).await?;
    if all.is_empty() && format == Format::Text {
        let place = cluster.namespace.as_ref().map_or_else(|| "any namespace".to_owned(), |namespace| format!("namespace {namespace}"));
        return writeln!(out, "There is no LLMScaler in {place}.").map_err(Failure::Output);
    }
    let (mut accounts, mut unreadable) = (vec![], vec![]);
    for stored in all {
        match &stored.scaler {
            Ok(scaler) => accounts.push(Account::of(scaler)),
            Err(why) => unreadable.push(unreadable_text(&stored, why)),
        }
    }
    let written = match format {
        Format::Text => print::table(out, &accounts, Timestamp::now()),
        Format::Json => accounts.iter().try_for_each(|account| line(out, account)),
    };
    written.map_err(Failure::Output)?;
    if unreadable.is_empty() { Ok(()) } else { Err(Failure::Cluster(unreadable.join("\n"))) }
}

fn unreadable_text(stored: &Stored, why: &str) -> String {
    format!("LLMScaler {} in namespace {} cannot be read: {why}; edit it", stored.name, stored.namespace)
}

fn explain(stored: Stored, format: Format, out: &mut impl Write) -> Result<(), Failure> {
    match &stored.scaler {
        Ok(scaler) => account(scaler, format, out),
        Err(why) => Err(Failure::Cluster(unreadable_text(&stored, why))),
    }
}

fn account(scaler: &LLMScaler, format: Format, out: &mut impl Write) -> Result<(), Failure> {
    let account = Account::of(scaler);
    let written = match format {
        Format::Text => print::write(out, &account, Timestamp::now(), prose::columns()),
        Format::Json => line(out, &account),
    };
    written.and_then(|()| out.flush()).map_err(Failure::Output)
}

fn line(out: &mut impl Write, account: &Account) -> io::Result<()> {
    serde_json::to_writer(&mut *out, account)?;
    out.write_all(b"\n")
}

/// Explains the scaler at each change of its status until whoever watches has seen enough.
async fn follow(cluster: &Cluster, name: &str, format: Format, out: &mut impl Write) -> Result<(), Failure> {
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut changes = watcher(scalers::api(cluster), only).default_backoff().boxed();
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    let mut last = None;
    loop {
        let event = tokio::select! {
            _ = &mut interrupted => return Ok(()),
            event = changes.try_next() => event,
        };
        match event {
            Ok(Some(Event::Apply(object) | Event::InitApply(object))) => changed(object, &mut last, format, out)?,
            Ok(Some(Event::Delete(_))) => return Err(Failure::Cluster(format!("LLMScaler {name} was deleted"))),
            Ok(Some(Event::Init | Event::InitDone)) => {}
            Ok(None) => return Ok(()),
            // The watch goes on by itself, after a pause.
            Err(error) => {
                let _ = writeln!(io::stderr(), "llmscaler: the watch was interrupted and goes on: {error}");
            }
        }
    }
}

fn changed(object: DynamicObject, last: &mut Option<serde_json::Value>, format: Format, out: &mut impl Write) -> Result<(), Failure> {
    let (generation, status) = (object.metadata.generation, object.data.get("status").cloned());
    let state = serde_json::json!([generation, status]);
    if last.as_ref() == Some(&state) {
        return Ok(());
    }
    let first = last.replace(state).is_none();
    if format == Format::Text && !first {
        writeln!(out, "\n――― {} ―――\n", Timestamp::now().strftime("%H:%M:%S UTC")).map_err(Failure::Output)?;
    }
    explain(object.into(), format, out)
}
