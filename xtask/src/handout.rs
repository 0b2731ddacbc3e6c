//! What a release hands out beside the binaries: completions, manual pages, and a JSON schema for editors.
//!
//! All of it follows from the command and the resource as they are in this build, so none of it is committed.

mod schema;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use clap_complete::{Shell, generate_to};

/// The arguments of `dist`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The folder that the files are written to; it is made where it is missing
    folder: PathBuf,
}

/// The shells that have a completion.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Fish, Shell::Zsh];

/// Writes `completions/`, `man/` and `llmscaler.schema.json` into the folder, and prints where.
pub fn write(arguments: &Arguments) -> Result<()> {
    write_into(&arguments.folder)?;
    writeln!(std::io::stdout(), "{}", arguments.folder.display())?;
    Ok(())
}

fn write_into(folder: &Path) -> Result<()> {
    let completions = made(folder.join("completions"))?;
    for shell in SHELLS {
        generate_to(shell, &mut llmscaler::command(), "llmscaler", &completions)
            .with_context(|| format!("writing the completion for {shell} into {}", completions.display()))?;
    }
    let pages = made(folder.join("man"))?;
    clap_mangen::generate_to(llmscaler::command(), &pages).with_context(|| format!("writing manual pages into {}", pages.display()))?;
    let path = folder.join("llmscaler.schema.json");
    std::fs::write(&path, schema::json()?).with_context(|| format!("writing {}", path.display()))
}

fn made(folder: PathBuf) -> Result<PathBuf> {
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the subcommands that the help tells of, without the `help` that clap adds.
    fn subcommands() -> Vec<String> {
        let (command, told) = (llmscaler::command(), |command: &&clap::Command| !command.is_hide_set());
        let names: Vec<String> = command.get_subcommands().filter(told).map(|command| command.get_name().to_owned()).collect();
        assert!(names.iter().any(|name| name == "operator"), "{names:?}");
        names
    }

    fn read(path: PathBuf) -> String {
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn every_subcommand_is_completed_in_every_shell_and_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        write_into(&folder.path().join("new")).unwrap();
        let folder = folder.path().join("new");
        let completions =
            ["llmscaler.bash", "llmscaler.fish", "_llmscaler"].map(|name| (name, read(folder.join("completions").join(name))));
        let overview = read(folder.join("man/llmscaler.1"));
        for command in subcommands() {
            for (name, completion) in &completions {
                assert!(completion.contains(&command), "{name} does not complete {command}");
            }
            let page = format!("llmscaler-{command}.1");
            assert!(overview.replace('\\', "").contains(&page.replace(".1", "(1)")), "the overview names no {page}");
            assert!(read(folder.join("man").join(&page)).contains(".SH OPTIONS"), "{page} has no options");
        }
    }

    #[test]
    fn the_schema_that_is_written_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        write_into(folder.path()).unwrap();
        let schema: serde_json::Value = serde_json::from_str(&read(folder.path().join("llmscaler.schema.json"))).unwrap();
        assert_eq!(schema["title"], "LLMScaler");
    }
}
