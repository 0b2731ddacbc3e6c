//! Whoever reads a page, types its commands and looks at what they say.

use llmscaler_pages::CommandLine;

use crate::shell::{Running, Shell};
use crate::story::{End, Step};

/// The functions that stories arrange by.
const GIVEN: &str = include_str!("given.sh");

/// What a shell ends with when the test could not arrange what it meant to.
const UNARRANGED: i32 = 99;

/// The reader.
pub struct Reader {
    pub shell: Shell,
    /// What the page leaves to the reader, in its commands.
    pub theirs: Vec<(&'static str, &'static str)>,
    /// What is called otherwise here, wherever it stands.
    pub here: Vec<(&'static str, String)>,
}

impl Reader {
    /// A text of the test or of the page, as it is called here.
    pub fn here(&self, text: &str) -> String {
        self.here.iter().fold(text.to_owned(), |text, (word, by)| replace_word(&text, word, by))
    }

    /// A command of the page, with what the reader has to fill in.
    fn typed(&self, line: &str) -> String {
        self.here(&self.theirs.iter().fold(line.to_owned(), |line, (word, by)| replace_word(&line, word, by)))
    }

    /// Runs the commands of a block. What goes on is interrupted at the end.
    ///
    /// # Errors
    /// The first command that did not do what its step expects, with all that it said.
    pub async fn block(&mut self, lines: &[CommandLine], steps: &mut impl Iterator<Item = &Step>) -> Result<(), String> {
        let mut servers: Vec<(Running, &Step, &CommandLine)> = vec![];
        for line in lines {
            let step = steps.next().filter(|step| line.text.starts_with(step.begins));
            let step = step.ok_or_else(|| format!("{}\nis not the next step of the page's story", line.text))?;
            let mut running = self.shell.start(&script(&self.here(step.given), &self.typed(&line.text)));
            match step.ends {
                End::CtrlC(begun) => {
                    let begins = running.until(begun).await;
                    begins.map_err(|why| fault(line, &why, &running))?;
                    self.then(step).await.map_err(|why| fault(line, &why, &running))?;
                    servers.push((running, step, line));
                }
                End::Code(code) => {
                    let ended = running.end().await.map_err(|why| fault(line, &why, &running))?;
                    self.judge(step, line, &running.output(), ended, Some(code)).map_err(|why| fault(line, &why, &running))?;
                    self.then(step).await.map_err(|why| fault(line, &why, &running))?;
                }
            }
        }
        for (mut running, step, line) in servers {
            running.interrupt();
            let ended = running.end().await.map_err(|why| fault(line, &why, &running))?;
            // How make and kubectl end then is not ours to say.
            let code = if line.text.split(' ').any(|word| word.ends_with("llmscaler")) { Some(0) } else { ended };
            self.judge(step, line, &running.output(), ended, code).map_err(|why| fault(line, &why, &running))?;
        }
        Ok(())
    }

    /// Looks at what a command has brought about.
    async fn then(&mut self, step: &Step) -> Result<(), String> {
        let mut looks = self.shell.start(&format!("{GIVEN}\nset -e\n{}", self.here(step.then)));
        match looks.end().await? {
            Some(0) => Ok(()),
            _ => Err(format!("and then this failed:\n{}\n{}", step.then, looks.output())),
        }
    }

    fn judge(&self, step: &Step, line: &CommandLine, output: &str, ended: Option<i32>, code: Option<i32>) -> Result<(), String> {
        if ended == Some(UNARRANGED) {
            return Err(format!("was not come to, since this failed:\n{}", step.given));
        }
        if ended != code {
            return Err(format!("ended with {ended:?} and not with {code:?}"));
        }
        for words in step.says {
            if !compact(output).contains(&compact(&self.here(words))) {
                return Err(format!("does not say {words:?}"));
            }
        }
        match &line.prints {
            Some(shown) if step.as_shown && self.here(shown).trim_end() != output.trim_end() => {
                Err(format!("does not say what the page shows:\n{shown}\nbut"))
            }
            None if step.as_shown => Err("has no output on the page to compare".to_owned()),
            _ => Ok(()),
        }
    }
}

fn fault(line: &CommandLine, why: &str, running: &Running) -> String {
    format!("{}\n{why}\n{}", line.text, running.output())
}

/// A command, and before it what is to be there already. Of what that prints only errors are of interest.
fn script(given: &str, line: &str) -> String {
    format!("{GIVEN}\nset -eE; trap 'exit {UNARRANGED}' ERR\n{{ :\n{given}\n}} >/dev/null\nset +eE; trap - ERR\n{line}\n")
}

fn compact(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replaces what stands by itself, or beside a hyphen.
fn replace_word(text: &str, word: &str, by: &str) -> String {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let (mut replaced, mut end) = (String::new(), 0);
    for (at, _) in text.match_indices(word) {
        let after = at + word.len();
        if is_part(text[..at].chars().last()) || is_part(text[after..].chars().next()) {
            continue;
        }
        replaced.push_str(&text[end..at]);
        replaced.push_str(by);
        end = after;
    }
    replaced + &text[end..]
}

#[test]
fn only_whole_words_are_replaced() {
    let replaced = |text: &str| replace_word(text, "NAME", "chat");
    assert_eq!(replaced("get NAME -n NAMESPACE NAME-x NAME"), "get chat -n NAMESPACE chat-x chat");
    assert_eq!(replaced("MY_NAME NAMENAME ,NAME"), "MY_NAME NAMENAME ,chat");
}
