//! The pages of the documentation that this command must not contradict.

use std::path::{Path, PathBuf};

use llmscaler_engine::Reason;

use crate::running::{run, texts};

/// A file below docs.
pub fn page(name: &str) -> String {
    read(&root().join("docs").join(name))
}

/// The folder of the repository.
pub fn root() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", ".."].iter().collect()
}

/// The text of a file.
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The fenced blocks of a page, with the language of each.
pub fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((language.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, text))) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

#[test]
fn every_reason_is_explained_once() {
    let page = page("decide.md");
    for reason in Reason::ALL {
        let rows = page.lines().filter(|line| line.starts_with(&format!("| `{reason}` |"))).count();
        assert_eq!(rows, 1, "{reason}");
    }
}

/// Runs the examples of a page, each on the document above it, against what the page says that they print. Answers their number.
pub fn run_examples(page: &str) -> usize {
    let (mut document, mut examples) = (String::new(), 0);
    for (language, text) in blocks(page) {
        // A command is about the document above it, and what it prints follows it.
        let Some(command) = text.strip_prefix("$ llmscaler ") else {
            document = if language == "yaml" { text } else { document };
            continue;
        };
        let (command, expected) = command.split_once('\n').unwrap();
        let arguments: Vec<&str> = command.split(' ').map(|word| if word.ends_with(".yaml") { "-" } else { word }).collect();
        let (out, errors, _) = texts(&run(&arguments, &document));
        assert_eq!(format!("{out}{errors}").trim_end(), expected.trim_end(), "{command}");
        examples += 1;
    }
    examples
}

#[test]
fn the_examples_print_what_the_page_says() {
    let examples = run_examples(&page("decide.md"));
    assert!(examples >= 3, "{examples} examples found");
}

#[test]
fn the_tests_that_the_compatibility_page_names_exist() {
    let page = page("compatibility.md");
    let sources = sources_below(&root().join("crates"));
    let mut named = 0;
    for word in page.split('`').skip(1).step_by(2) {
        // Tests are written as file::name.
        let Some((file, name)) = word.split_once("::").filter(|(file, _)| !file.contains(' ')) else { continue };
        let found = sources.iter().any(|(path, text)| path.contains(file) && text.contains(&format!("fn {name}(")));
        assert!(found, "the page names {word}, which is not there");
        named += 1;
    }
    assert!(named > 20, "{named} tests named");
}

fn sources_below(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            found.push((path.with_extension("").display().to_string(), text));
        }
    }
    found
}
