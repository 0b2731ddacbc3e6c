//! The crates of docs/architecture.md use what the page says.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use llmscaler_pages::root;

/// The package of a folder.
fn package(folder: &str) -> String {
    match folder.strip_prefix("crates/").unwrap_or(folder) {
        "cli" => "llmscaler".to_owned(),
        "xtask" => "xtask".to_owned(),
        name => format!("llmscaler-{name}"),
    }
}

#[test]
fn crates_use_what_the_page_says_and_nothing_else_of_ours() {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: Value = serde_json::from_slice(&out.stdout).unwrap();
    let page = std::fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let row = |folder: &str| {
        page.lines().find(|line| line.starts_with(&format!("| `{folder}` | "))).unwrap_or_else(|| panic!("{folder}")).to_owned()
    };
    for crate_ in metadata["packages"].as_array().unwrap() {
        let name = crate_["name"].as_str().unwrap();
        let folder = match name {
            "llmscaler" => "crates/cli".to_owned(),
            "xtask" => "xtask".to_owned(),
            name => name.replacen("llmscaler-", "crates/", 1),
        };
        let row = row(&folder);
        let said = row.split('|').nth(2).unwrap().trim();
        let said: BTreeSet<String> = if said == "nothing of ours" { BTreeSet::new() } else { said.split(", ").map(package).collect() };
        // Those of tests are of another kind.
        let normal = crate_["dependencies"].as_array().unwrap().iter().filter(|dependency| dependency["kind"].is_null());
        let used: BTreeSet<String> =
            normal.map(|dependency| dependency["name"].as_str().unwrap().to_owned()).filter(|name| name.starts_with("llmscaler")).collect();
        assert_eq!(said, used, "docs/architecture.md: {folder}");
    }
}
