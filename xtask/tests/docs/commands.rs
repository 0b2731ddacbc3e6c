//! Every command line that a page shows is one that the command takes.

use clap::error::ErrorKind;

use crate::pages::{Block, pages, root};

/// The command lines of a block, continued lines joined; those of a transcript begin with `$ `.
fn lines(block: &Block) -> Vec<String> {
    let text = block.text.replace("\\\n", " ");
    match block.info.as_str() {
        "sh" => text.lines().map(str::to_owned).collect(),
        "text" | "console" | "json" | "" => text.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect(),
        _ => vec![],
    }
}

/// The simple commands of a line, in words: what stands between pipes and other operators, without redirections.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![vec![]];
    // What goes over several lines is a quotation, and none of ours.
    let words = shlex::split(line);
    assert!(words.is_some() || !line.contains("llmscaler "), "this line has no end: {line}");
    let mut words = words.into_iter().flatten();
    while let Some(word) = words.next() {
        match word.as_str() {
            "|" | "||" | "&&" | ";" | "&" => commands.push(vec![]),
            ">" | ">>" | "<" | "2>" => drop(words.next()),
            _ if word.starts_with('>') || word.starts_with("2>") => {}
            // Variables before a command are its environment.
            _ if commands.last().is_some_and(Vec::is_empty) && word.split_once('=').is_some_and(|(name, _)| !name.contains('-')) => {}
            _ => commands.last_mut().unwrap().push(word),
        }
    }
    commands
}

/// The arguments of a command that is ours, as a plugin of kubectl too.
fn ours(command: &[String]) -> Option<&[String]> {
    match command {
        [program, rest @ ..] if program.rsplit('/').next() == Some("llmscaler") => Some(rest),
        [kubectl, llmscaler, rest @ ..] if kubectl == "kubectl" && llmscaler == "llmscaler" => Some(rest),
        _ => None,
    }
}

fn shown() -> Vec<(String, Vec<String>)> {
    let mut shown = vec![];
    for page in pages() {
        for line in page.blocks.iter().flat_map(lines) {
            shown.extend(commands(&line).into_iter().filter(|command| !command.is_empty()).map(|command| (page.path.clone(), command)));
        }
    }
    shown
}

#[test]
fn every_command_line_of_ours_is_understood() {
    let mut found = 0;
    for (path, command) in shown() {
        let Some(arguments) = ours(&command) else { continue };
        let arguments = std::iter::once("llmscaler".to_owned()).chain(arguments.iter().cloned());
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

#[test]
fn a_line_is_taken_apart_as_a_shell_does() {
    let words = |line: &str| commands(line).into_iter().map(|command| command.join(" ")).collect::<Vec<_>>();
    assert_eq!(words("llmscaler crd | kubectl apply -f -  # both"), ["llmscaler crd", "kubectl apply -f -"]);
    assert_eq!(words("A=b llmscaler migrate -f 'a b' > out 2>&1"), ["llmscaler migrate -f a b"]);
}
