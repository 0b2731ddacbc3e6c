//! Going through a page: each command of it that is not listed as one that is not run.

use std::sync::Arc;

use llmscaler_e2e::{ADMIN_TOKEN, ControlPlane, Namespace, Operator, free_port};
use llmscaler_pages::{Block, CommandLine, Page, command_lines};

use crate::desk::Desk;
use crate::listed::Listed;
use crate::reader::Reader;
use crate::story::{REPLACED, Story};

/// The Prometheus of the pages.
const PROMETHEUS: &str = "http://prometheus-operated.monitoring.svc:9090";

/// Where it is when its port is forwarded.
const FORWARDED: &str = "http://127.0.0.1:9090";

/// The port of the dashboard, which may be another program's here.
const DASHBOARD: &str = "8082";

/// The commands of a page that are run, by block; each with the text that the page shows of its output.
pub fn commands(page: &Page, listed: &Listed) -> Vec<Vec<CommandLine>> {
    let mut blocks: Vec<Vec<CommandLine>> = vec![];
    for (index, block) in page.blocks.iter().enumerate() {
        let mut lines = command_lines(block);
        // What stands below commands is what the last one prints.
        let below = page.blocks.get(index + 1).filter(|next| block.info == "sh" && next.info == "text" && command_lines(next).is_empty());
        if let (Some(last), Some(Block { text, .. })) = (lines.last_mut(), below) {
            last.prints = Some(text.clone());
        }
        lines.retain(|line| !line.simple().is_empty() && !listed.has(line));
        blocks.push(lines);
    }
    blocks.retain(|lines| !lines.is_empty());
    blocks
}

/// Runs the commands of a page, in their order.
///
/// # Errors
/// The first command that did not do what it was to, with all that it said.
pub async fn walk(story: &Story, page: &Page, listed: &Listed, plane: Option<&Arc<ControlPlane>>) -> Result<(), String> {
    let Some(desk) = Desk::set_up() else { return Ok(()) };
    let around = match plane {
        Some(plane) => Some(Around::arrange(story, plane).await),
        None => None,
    };
    let mut here = vec![("/usr/local/bin", desk.bin().to_str().unwrap().to_owned()), (DASHBOARD, free_port().to_string())];
    if let Some(around) = &around {
        let plane = around.serving.plane();
        here.extend([("serving", around.serving.name().to_owned()), ("llmscaleoperator-system", around.system.name().to_owned())]);
        here.extend([PROMETHEUS, FORWARDED].map(|address| (address, plane.prometheus().url().to_owned())));
        desk.connect(&plane.kubeconfig(ADMIN_TOKEN), around.serving.name());
    }
    let mut shell = desk.shell();
    if let Some(around) = &around {
        shell = shell.env("PROMETHEUS", around.serving.plane().prometheus().url());
    }
    let theirs = story.replaced.iter().chain(&REPLACED).copied().collect();
    let mut reader = Reader { shell, theirs, here };
    for (name, words) in story.files {
        let block = page.blocks.iter().find(|block| block.info == "yaml" && block.text.contains(words));
        let block = block.unwrap_or_else(|| panic!("{} has no yaml with {words:?}, to be {name}", story.page));
        desk.write(name, &reader.here(&block.text));
    }
    let mut steps = story.steps.iter();
    for block in commands(page, listed) {
        reader.block(&block, &mut steps).await.map_err(|fault| format!("{}: {fault}", story.page))?;
    }
    Ok(())
}

/// What is around the reader in a cluster.
struct Around {
    serving: Namespace,
    system: Namespace,
    _operator: Option<Operator>,
}

impl Around {
    async fn arrange(story: &Story, plane: &Arc<ControlPlane>) -> Self {
        let (serving, system) = (plane.namespace("serving").await, plane.namespace("system").await);
        for (name, labels, value) in story.series {
            serving.exporter().set(name, labels, *value);
        }
        if !story.series.is_empty() {
            serving.exporter().scraped().await;
        }
        let launch = Operator::launch(plane).argument("--watch-namespace").argument(serving.name());
        let operator = if story.operator { Some(launch.start().await) } else { None };
        Self { serving, system, _operator: operator }
    }
}
