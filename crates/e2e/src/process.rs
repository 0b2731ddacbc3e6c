//! A child process that never outlives the test process, however that one ends.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Leaves a watcher behind and becomes the command, so that the pid is the command's own.
///
/// The watcher blocks on a pipe that only the test process holds open. End of file means that the process is
/// gone without a word (a crash, an abort, a kill, or simply `exit`, where nothing held in a static is
/// dropped), and the command is killed. A line means that it was ended in good order, and its pid may by then
/// be somebody else's.
const WATCHED: &str = r#"exec 3<&0 0</dev/null
{ read -r _ <&3 || kill -9 $$ 2>/dev/null; } &
exec "$@" 3<&-"#;

/// A running child, killed on drop.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    log: PathBuf,
    child: Mutex<Child>,
    pid: u32,
}

impl Process {
    /// Starts `command` with both of its outputs appended to `log`.
    pub(crate) fn spawn(name: &str, command: &Command, log: &Path) -> std::io::Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        let mut watched = Command::new("sh");
        watched.args(["-c", WATCHED, name]).arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => watched.env(key, value),
                None => watched.env_remove(key),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            watched.current_dir(folder);
        }
        let child = watched.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output).spawn()?;
        let pid = child.id();
        Ok(Self { name: name.to_owned(), log: log.to_owned(), child: Mutex::new(child), pid })
    }

    /// The file that holds what the process wrote.
    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// The command's own process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// How the process ended, when it has.
    pub(crate) fn exited(&self) -> Option<ExitStatus> {
        let mut child = self.child.lock().unwrap();
        let status = child.try_wait().unwrap()?;
        dismiss_watcher(&mut child);
        Some(status)
    }

    /// Asks the process to end, as Kubernetes does.
    pub(crate) fn terminate(&self) {
        if self.exited().is_none() {
            let pid = rustix::process::Pid::from_raw(self.pid.try_into().unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        }
    }

    /// Ends the process at once.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        // Before it is waited for: until then its pid cannot have become another's.
        dismiss_watcher(&mut child);
        let _ = child.wait();
    }

    /// How the process ended, or `None` when it still runs after `timeout`.
    pub(crate) async fn wait(&self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = tokio::time::Instant::now() + timeout;
        loop {
            let status = self.exited();
            if status.is_some() || tokio::time::Instant::now() >= deadline {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until `url` answers 200.
    ///
    /// # Errors
    /// When the process ends first or the time is over, with the end of its log.
    pub(crate) async fn ready(&self, client: &reqwest::Client, url: &str, timeout: Duration) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + timeout;
        loop {
            if let Some(status) = self.exited() {
                anyhow::bail!("{} ended with {status}:\n{}", self.name, tail(&self.log, 15));
            }
            let last = match client.get(url).timeout(Duration::from_secs(5)).send().await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) => format!("{}: {}", answer.status(), answer.text().await.unwrap_or_default()),
                Err(error) => format!("{error:?}"),
            };
            if tokio::time::Instant::now() >= deadline {
                anyhow::bail!("{} not ready after {timeout:?}, {url} gave {last}\n{}", self.name, tail(&self.log, 15));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn dismiss_watcher(child: &mut Child) {
    if let Some(mut pipe) = child.stdin.take() {
        let _ = pipe.write_all(b"\n");
    }
}

/// The last `lines` of a log.
pub(crate) fn tail(log: &Path, lines: usize) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(folder: &Path) -> Process {
        Process::spawn("sleeper", Command::new("sleep").arg("60"), &folder.join("log")).unwrap()
    }

    #[tokio::test]
    async fn the_pid_is_the_commands_and_a_signal_reaches_it() {
        let folder = tempfile::tempdir().unwrap();
        let process = sleeper(folder.path());
        tokio::time::sleep(Duration::from_millis(200)).await;
        process.terminate();
        let status = process.wait(Duration::from_secs(5)).await.unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    }

    #[tokio::test]
    async fn a_closed_pipe_alone_kills_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let process = sleeper(folder.path());
        drop(process.child.lock().unwrap().stdin.take());
        let status = process.wait(Duration::from_secs(5)).await.unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }

    #[tokio::test]
    async fn a_command_that_ends_at_once_is_reported_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such flag; exit 3"]);
        let process = Process::spawn("server", &command, &folder.path().join("log")).unwrap();
        crate::background::runtime();
        let client = reqwest::Client::new();
        let error = process.ready(&client, "http://127.0.0.1:1/", Duration::from_secs(5)).await.unwrap_err();
        assert!(error.to_string().contains("no such flag"), "{error}");
    }
}
