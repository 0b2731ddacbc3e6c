//! Every command line that a page shows is one that the command takes.

use clap::error::ErrorKind;
use llmscaler_pages::{command_lines, pages, root};

/// The arguments of a command that is ours, as a plugin of kubectl too.
fn ours(command: &[String]) -> Option<&[String]> {
    match command {
        [program, rest @ ..] if program.rsplit('/').next() == Some("llmscaler") => Some(rest),
        [kubectl, llmscaler, rest @ ..] if kubectl == "kubectl" && llmscaler == "llmscaler" => Some(rest),
        _ => None,
    }
}

/// An argument; one in capitals, such as NAMESPACE, stands for a name of the reader's.
fn filled_in(argument: &str) -> String {
    if argument.chars().all(|letter| letter.is_ascii_uppercase()) { argument.to_lowercase() } else { argument.to_owned() }
}

fn shown() -> Vec<(String, Vec<String>)> {
    let mut shown = vec![];
    for page in pages() {
        for line in page.blocks.iter().flat_map(command_lines) {
            shown.extend(line.simple().into_iter().map(|command| (page.path.clone(), command)));
        }
    }
    shown
}

#[test]
fn every_command_line_of_ours_is_understood() {
    let mut found = 0;
    for (path, command) in shown() {
        let Some(arguments) = ours(&command) else { continue };
        let arguments = std::iter::once("llmscaler".to_owned()).chain(arguments.iter().map(|argument| filled_in(argument)));
        if let Err(error) = llmscaler::command().try_get_matches_from(arguments) {
            let told = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            assert!(told, "{path}: {}\n{error}", command.join(" "));
        }
        found += 1;
    }
    assert!(found > 40, "{found} command lines found");
}

#[test]
fn every_make_target_is_there() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    let mut found = 0;
    for (path, command) in shown().into_iter().filter(|(_, command)| command[0] == "make") {
        for target in command[1..].iter().filter(|word| !word.contains('=')) {
            assert!(makefile.contains(&format!("\n{target}:")), "{path}: make has no target {target}");
            found += 1;
        }
    }
    assert!(found > 5, "{found} targets found");
}
