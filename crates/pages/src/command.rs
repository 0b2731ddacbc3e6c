//! The commands of a block, as a shell reads them.

use crate::page::Block;

/// What a reader types in one go: a line with those that continue it, and with the text of a here-document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// As it stands, without the prompt.
    pub text: String,
    /// What a transcript says that it prints; `None` where the block has commands alone.
    pub prints: Option<String>,
}

impl CommandLine {
    /// The simple commands in it, in words: what stands between pipes and other operators, without redirections and variables.
    ///
    /// # Panics
    /// When a quotation has no end.
    #[must_use]
    pub fn simple(&self) -> Vec<Vec<String>> {
        // A here-document is no part of the words.
        let line = if here_document(&self.text).is_some() { self.text.lines().next().unwrap_or_default() } else { &self.text };
        let words = shlex::split(&line.replace("\\\n", " "));
        let words = words.unwrap_or_else(|| panic!("this line has no end: {}", self.text));
        let (mut commands, mut words) = (vec![vec![]], words.into_iter());
        while let Some(word) = words.next() {
            let command: &mut Vec<String> = commands.last_mut().unwrap();
            match word.as_str() {
                "|" | "||" | "&&" | ";" | "&" => commands.push(vec![]),
                ">" | ">>" | "<" | "2>" => drop(words.next()),
                _ if word.starts_with(['>', '<']) || word.starts_with("2>") => {}
                // Variables before a command are its environment.
                _ if command.is_empty() && word.split_once('=').is_some_and(|(name, _)| !name.contains('-')) => {}
                _ => command.push(word),
            }
        }
        commands.retain(|command| !command.is_empty());
        commands
    }
}

/// The command lines of a block: all of a block of `sh`, and in a transcript what begins with `$ `.
#[must_use]
pub fn command_lines(block: &Block) -> Vec<CommandLine> {
    let mut lines = block.text.lines();
    let mut found: Vec<CommandLine> = vec![];
    let transcript = match block.info.as_str() {
        "sh" => false,
        "text" | "console" | "json" | "" => true,
        _ => return found,
    };
    while let Some(line) = lines.next() {
        let (typed, answer) = if transcript { (line.strip_prefix("$ "), Some(line)) } else { (Some(line), None) };
        match (typed, answer, found.last_mut()) {
            (Some(typed), ..) if typed.is_empty() || typed.starts_with('#') => {}
            (Some(typed), ..) => {
                let text = whole(typed, &mut lines);
                found.push(CommandLine { text, prints: transcript.then(String::new) });
            }
            (None, Some(answer), Some(CommandLine { prints: Some(prints), .. })) => {
                prints.push_str(answer);
                prints.push('\n');
            }
            _ => {}
        }
    }
    found
}

/// A line and those that it takes to its end.
fn whole<'a>(line: &str, rest: &mut impl Iterator<Item = &'a str>) -> String {
    let mut text = line.to_owned();
    let mark = here_document(line);
    let goes_on = |last: &str| match mark {
        Some(mark) => last != mark,
        None => last.ends_with(['\\', '|']),
    };
    let mut last = line;
    while goes_on(last) {
        let Some(next) = rest.next() else { break };
        text.push('\n');
        text.push_str(next);
        last = next;
    }
    text
}

/// The line that ends the here-document which this line begins.
fn here_document(line: &str) -> Option<&str> {
    let (_, mark) = line.lines().next()?.split_once("<<'")?;
    mark.split('\'').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(info: &str, text: &str) -> Vec<CommandLine> {
        command_lines(&Block { info: info.to_owned(), text: text.to_owned() })
    }

    fn texts(lines: &[CommandLine]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn a_line_has_all_that_belongs_to_it() {
        let lines = of("sh", "# first\nhelm install x \\\n  --wait\n\ncat > a <<'EOF'\nb: |\n\n# c\nEOF\nkubectl get x |\n  jq .\nmake\n");
        let expected = ["helm install x \\\n  --wait", "cat > a <<'EOF'\nb: |\n\n# c\nEOF", "kubectl get x |\n  jq .", "make"];
        assert_eq!(texts(&lines), expected);
        assert_eq!(lines[0].simple(), [["helm", "install", "x", "--wait"]]);
        assert_eq!(lines[1].simple(), [["cat"]]);
    }

    #[test]
    fn a_transcript_has_commands_and_what_they_print() {
        let lines = of("text", "of before\n$ make a\n1\n\n2\n$ make b\n");
        assert_eq!(texts(&lines), ["make a", "make b"]);
        assert_eq!(lines.iter().map(|line| line.prints.as_deref()).collect::<Vec<_>>(), [Some("1\n\n2\n"), Some("")]);
        assert!(of("yaml", "$ make a\n").is_empty());
    }

    #[test]
    fn a_line_is_taken_apart_as_a_shell_does() {
        let words = |text: &str| {
            let line = CommandLine { text: text.to_owned(), prints: None };
            line.simple().into_iter().map(|command| command.join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(words("llmscaler crd | kubectl apply -f -  # both"), ["llmscaler crd", "kubectl apply -f -"]);
        assert_eq!(words("A=b llmscaler migrate -f 'a b' > out 2>&1"), ["llmscaler migrate -f a b"]);
        assert!(words("issuer=https://example.com").is_empty());
    }
}
