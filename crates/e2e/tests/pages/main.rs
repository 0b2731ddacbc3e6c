//! The commands of the documentation, run as they stand on its pages. What of them is not run is a table in CONTRIBUTING.md.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what helps a test may fail it")]

mod desk;
mod guides;
mod install;
mod listed;
mod looks;
mod reader;
mod shell;
mod story;
mod trial;
mod walk;

use std::sync::Arc;

use futures::future::join_all;
use llmscaler_e2e::ControlPlane;
use llmscaler_pages::{Page, pages};

use crate::listed::Listed;
use crate::story::{Place, Story};

/// Every page that has commands to run.
const STORIES: [&[Story]; 4] = [&trial::STORIES, &install::STORIES, &looks::STORIES, &guides::STORIES];

fn stories(place: Place) -> Vec<(&'static Story, Page)> {
    let mut pages = pages();
    let mut page = |path: &str| pages.remove(pages.iter().position(|page| page.path == path).unwrap_or_else(|| panic!("no page {path}")));
    STORIES.into_iter().flatten().filter(|story| story.place == place).map(|story| (story, page(story.page))).collect()
}

/// All of these pages, one after the other or side by side.
async fn read(place: Place, plane: Option<Arc<ControlPlane>>) {
    let (listed, stories) = (Listed::read(), stories(place));
    let walks = stories.iter().map(|(story, page)| walk::walk(story, page, &listed, plane.as_ref()));
    let mut ends = vec![];
    if place == Place::Cluster {
        for walk in walks {
            ends.push(walk.await);
        }
    } else {
        ends = join_all(walks).await;
    }
    let faults: Vec<String> = ends.into_iter().filter_map(Result::err).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n\n"));
}

#[tokio::test]
async fn what_needs_no_cluster_does_what_the_pages_say() {
    read(Place::Anywhere, None).await;
}

#[tokio::test]
async fn what_is_done_in_a_namespace_does_what_the_pages_say() {
    let Some(plane) = ControlPlane::shared().await else { return };
    read(Place::Namespace, Some(plane)).await;
}

#[tokio::test]
async fn what_is_done_to_a_cluster_does_what_the_pages_say() {
    // Releases and resources of the whole cluster would meet those of other tests.
    let Some(plane) = ControlPlane::start().await else { return };
    read(Place::Cluster, Some(plane)).await;
}

#[test]
fn every_command_of_every_page_is_run_or_listed() {
    let listed = Listed::read();
    let (mut run, mut wrong) = (0, vec![]);
    for page in pages() {
        let story = STORIES.into_iter().flatten().find(|story| story.page == page.path);
        let steps = story.map_or(&[][..], |story| story.steps);
        let lines = walk::commands(&page, &listed).concat();
        for (index, line) in lines.iter().enumerate() {
            if !steps.get(index).is_some_and(|step| line.text.starts_with(step.begins)) {
                wrong.push(format!("{}: neither run nor listed in CONTRIBUTING.md: {}", page.path, line.text));
            }
        }
        for step in steps.iter().skip(lines.len()) {
            wrong.push(format!("{}: no longer on the page: {}", page.path, step.begins));
        }
        run += lines.len();
    }
    wrong.extend(listed.unmet().into_iter().map(|entry| format!("CONTRIBUTING.md: on no page: {entry}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(run > 60, "{run} commands are run");
}
