//! The pages, read as Markdown.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The folder of the repository.
///
/// # Panics
/// When the sources are gone.
#[must_use]
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).canonicalize().unwrap()
}

/// A fenced block.
#[derive(Debug)]
pub struct Block {
    /// What stands behind the fence: a language, and perhaps marks after commas.
    pub info: String,
    /// What is in it, each line with its end.
    pub text: String,
}

/// A page.
#[derive(Debug)]
pub struct Page {
    /// From the root of the repository.
    pub path: String,
    /// Where its links and pictures lead.
    pub links: Vec<String>,
    /// As GitHub and mdBook make them of headings.
    pub anchors: HashSet<String>,
    /// In the order of the page.
    pub blocks: Vec<Block>,
}

impl Page {
    fn read(root: &Path, path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut page = Self {
            path: path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(),
            links: vec![],
            anchors: HashSet::new(),
            blocks: vec![],
        };
        let (mut heading, mut block, mut seen) = (None::<String>, None::<Block>, HashMap::new());
        for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => page.links.push(dest_url.to_string()),
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap());
                    let times = seen.entry(anchor.clone()).and_modify(|times| *times += 1).or_insert(0);
                    page.anchors.insert(if *times == 0 { anchor } else { format!("{anchor}-{times}") });
                }
                Event::Start(Tag::CodeBlock(kind)) => {
                    let info = if let CodeBlockKind::Fenced(info) = kind { info.to_string() } else { String::new() };
                    block = Some(Block { info, text: String::new() });
                }
                Event::End(TagEnd::CodeBlock) => page.blocks.extend(block.take()),
                Event::Text(text) | Event::Code(text) => {
                    if let Some(open) = heading.as_mut().or(block.as_mut().map(|block| &mut block.text)) {
                        open.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        page
    }
}

fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).collect::<String>();
    kept.replace(' ', "-")
}

/// Every page that people read, by path.
///
/// # Panics
/// When one cannot be read, or there are so few that they cannot be all.
#[must_use]
pub fn pages() -> Vec<Page> {
    let root = root();
    let mut paths: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].iter().map(|name| root.join(name)).collect();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    assert!(paths.len() > 25, "{} pages", paths.len());
    paths.iter().map(|path| Page::read(&root, path)).collect()
}

#[cfg(test)]
mod tests {
    use super::anchor;

    #[test]
    fn anchors_are_those_of_github() {
        assert_eq!(anchor("spec.metrics[]"), "specmetrics");
        assert_eq!(anchor("What it says, and `how`"), "what-it-says-and-how");
    }
}
