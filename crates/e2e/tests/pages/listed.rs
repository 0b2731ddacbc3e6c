//! Which commands of the pages are not run: those of a table in CONTRIBUTING.md, and no others.

use std::cell::RefCell;
use std::collections::BTreeSet;

use llmscaler_pages::{CommandLine, root};

const TABLE: &str = "| not run by it | because |";

/// The table. A line of a page is listed when its command has the words of an entry, in their order and beginning with the same one; an
/// entry that begins with `$` is about transcripts alone.
pub struct Listed {
    entries: Vec<String>,
    met: RefCell<BTreeSet<String>>,
}

impl Listed {
    /// Reads the table.
    pub fn read() -> Self {
        let page = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
        let (_, table) = page.split_once(TABLE).unwrap_or_else(|| panic!("CONTRIBUTING.md has no table {TABLE}"));
        Self::of(table)
    }

    fn of(table: &str) -> Self {
        let rows = table.lines().skip_while(|line| !line.starts_with("| `")).take_while(|line| line.starts_with("| `"));
        let cells = rows.map(|row| row.split(" | ").next().unwrap());
        let entries: Vec<String> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
        assert!(!entries.is_empty(), "the table of what is not run has no entries");
        Self { entries, met: RefCell::default() }
    }

    /// Whether a line is listed.
    pub fn has(&self, line: &CommandLine) -> bool {
        let command = line.simple().into_iter().next().unwrap_or_default();
        let is_met = |entry: &&String| match entry.strip_prefix("$ ") {
            Some(entry) => line.prints.is_some() && has_words(&command, entry),
            None => has_words(&command, entry),
        };
        let met: Vec<&String> = self.entries.iter().filter(is_met).collect();
        self.met.borrow_mut().extend(met.iter().copied().cloned());
        !met.is_empty()
    }

    /// The entries that no line has met so far.
    pub fn unmet(&self) -> Vec<&str> {
        let met = self.met.borrow();
        self.entries.iter().filter(|entry| !met.contains(*entry)).map(String::as_str).collect()
    }
}

fn has_words(command: &[String], entry: &str) -> bool {
    let mut entry = entry.split(' ');
    if command.first().map(String::as_str) != entry.next() {
        return false;
    }
    let mut rest = command[1..].iter();
    entry.all(|word| rest.any(|of_command| of_command == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_listed_by_words_of_its_command() {
        let listed = Listed::of(
            "\n|---|---|\n| `kubectl port-forward`, `make test` | no kubelet |\n| `$ llmscaler decide` | compared |\n\nAnd `more`.\n",
        );
        let has = |text: &str, prints: Option<&str>| listed.has(&CommandLine { text: text.to_owned(), prints: prints.map(str::to_owned) });
        assert!(!has("kubectl get pods", None) && !has("make test-unit", None) && !has("llmscaler decide a.yaml", None));
        assert_eq!(listed.unmet(), ["kubectl port-forward", "make test", "$ llmscaler decide"]);
        assert!(has("A=b kubectl -n x port-forward pod/a &", None) && has("make test  # all", None));
        assert_eq!(listed.unmet(), ["$ llmscaler decide"]);
        assert!(has("llmscaler decide -o text a.yaml", Some("")));
        assert!(listed.unmet().is_empty());
    }
}
