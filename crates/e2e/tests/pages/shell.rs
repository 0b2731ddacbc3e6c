//! Commands as a terminal runs them: each in a process group of its own, which ctrl-C goes to.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Becomes the script, and leaves a watcher behind: once the test holds the pipe no more, whatever is left of the group is killed.
const WATCHED: &str = r#"exec 3<&0 0</dev/null
{ read -r _ <&3; kill -KILL -$$; } >/dev/null 2>&1 &
exec bash -o pipefail -c "$1" bash 3<&-"#;

/// What is the same for each command.
pub struct Shell {
    folder: PathBuf,
    logs: PathBuf,
    environment: Vec<(String, String)>,
    commands: usize,
}

/// A command that has been started.
pub struct Running {
    child: Child,
    log: PathBuf,
    started: Instant,
}

impl Shell {
    /// A shell in a folder. What commands print is kept in another.
    pub fn new(folder: &Path, logs: &Path) -> Self {
        Self { folder: folder.to_owned(), logs: logs.to_owned(), environment: vec![], commands: 0 }
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts a script of bash.
    pub fn start(&mut self, script: &str) -> Running {
        self.commands += 1;
        let log = self.logs.join(format!("{}.log", self.commands));
        let output = File::create(&log).unwrap();
        let mut command = Command::new("bash");
        command.args(["-c", WATCHED, "bash", script]).current_dir(&self.folder).process_group(0);
        // What a make that runs the tests tells a make that it runs itself.
        for variable in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL"] {
            command.env_remove(variable);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let child = command.stdin(Stdio::piped()).stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        Running { child, log, started: Instant::now() }
    }
}

impl Running {
    /// What it has printed, to standard output and standard error.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()).into_owned()
    }

    /// Waits until it has said this.
    ///
    /// # Errors
    /// When it ends first, or takes too long.
    pub async fn until(&mut self, said: &str) -> Result<(), String> {
        while !self.output().contains(said) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Err(format!("it ended with {status} before it said {said:?}"));
            }
            self.wait_a_moment(said).await?;
        }
        Ok(())
    }

    /// Waits for its end, and answers its exit code; `None` when a signal ended it.
    ///
    /// # Errors
    /// When it takes too long.
    pub async fn end(&mut self) -> Result<Option<i32>, String> {
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Ok(status.code());
            }
            self.wait_a_moment("its end").await?;
        }
    }

    /// Interrupts it, as ctrl-C does.
    pub fn interrupt(&mut self) {
        self.started = Instant::now();
        kill_process_group(self.group(), Signal::INT).unwrap();
    }

    async fn wait_a_moment(&self, what: &str) -> Result<(), String> {
        if self.started.elapsed() > LIMIT {
            return Err(format!("it took too long: {what} was waited for {LIMIT:?}"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ctrl_c_reaches_what_the_shell_runs_and_its_exit_code_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut shell = Shell::new(folder.path(), folder.path());
        let mut running = shell.start("sh -c 'trap \"echo interrupted; exit 7\" INT; echo begun; while :; do sleep 0.1; done'");
        running.until("begun").await.unwrap();
        running.interrupt();
        assert_eq!((running.end().await, running.output().as_str()), (Ok(Some(7)), "begun\ninterrupted\n"));
        let mut running = shell.start("false | true");
        assert_eq!(running.end().await, Ok(Some(1)), "a command before a pipe failed");
        assert!(running.until("begun").await.unwrap_err().contains("before it said"));
    }

    #[tokio::test]
    async fn what_a_command_leaves_behind_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut running = Shell::new(folder.path(), folder.path()).start("sleep 60 & echo $!");
        running.end().await.unwrap();
        let left = PathBuf::from("/proc").join(running.output().trim());
        assert!(left.exists());
        drop(running);
        let deadline = Instant::now() + Duration::from_secs(10);
        while left.join("exe").exists() {
            assert!(Instant::now() < deadline, "it still runs");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
