//! The bare command, and others who put something around it.
//!
//! Peers get the least that makes them isolate and the program run: the host's `/usr` and `/etc` to read, no network,
//! and the environment we give.

mod bundle;
mod crun;

use super::candidate::Candidate;
use super::program::Task;
use anyhow::{Context, Result, anyhow, bail};
use engine::EngineError;
use engine::runtime::find;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What helps where something is missing.
pub(crate) const SETUP: &str = "`scripts/setup tools` installs what is compared";

/// What sandboxes of ours have: what a program does at its start depends on it.
const ENVIRONMENT: [(&str, &str); 4] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("LC_CTYPE", "C.UTF-8"),
    ("HOME", "/tmp"),
    ("SHELL", "/bin/sh"),
];

const BUBBLEWRAP: &str = "--unshare-all --die-with-parent --new-session --clearenv \
    --ro-bind /usr /usr --ro-bind /etc /etc --symlink usr/bin /bin --symlink usr/lib /lib \
    --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp";

/// Where a sandbox sees the one file that is shown to it.
const SHOWN: &str = "/tmp/program";

/// Everybody's tools, and a place for their files.
pub(crate) struct Peers {
    folder: tempfile::TempDir,
    own: PathBuf,
    bubblewrap: PathBuf,
    runc: Result<Container, String>,
    crun: Result<Container, String>,
    /// Keeps up what crun needs.
    _crun_view: Option<crun::View>,
    serial: AtomicU64,
}

/// How containers are run.
#[derive(Debug)]
struct Container {
    title: &'static str,
    /// Everything before `run`.
    words: Vec<String>,
}

impl Peers {
    pub(crate) fn new() -> Result<Peers> {
        let mut peers = Peers {
            folder: tempfile::tempdir()?,
            own: std::env::current_exe()?,
            bubblewrap: tool("bwrap")?,
            runc: Err(String::new()),
            crun: Err(String::new()),
            _crun_view: None,
            serial: AtomicU64::new(0),
        };
        bundle::lay_out(peers.folder())?;
        let words = |name: &str| -> Result<Vec<String>> {
            let state = peers.folder().join(name);
            Ok(vec![
                tool(name)?.to_string_lossy().into_owned(),
                "--root".into(),
                state.to_string_lossy().into(),
            ])
        };
        let (runc, crun) = (words("runc")?, words("crun")?);
        peers.runc = peers.first_that_works([Container { title: Candidate::Runc.title(), words: runc }]);
        let view = crun::View::new();
        peers.crun = peers.first_that_works(crun::ways(crun, view.as_ref()));
        peers._crun_view = view;
        Ok(peers)
    }

    /// Where files may be put that live as long as this.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What a candidate is called.
    pub(crate) fn title(&self, candidate: Candidate) -> &'static str {
        match (candidate, &self.crun) {
            (Candidate::Crun, Ok(container)) => container.title,
            _ => candidate.title(),
        }
    }

    /// Why a peer that is installed cannot take part on this host.
    pub(crate) fn cannot(&self, candidate: Candidate) -> Option<&str> {
        match candidate {
            Candidate::Runc => self.runc.as_ref().err().map(String::as_str),
            Candidate::Crun => self.crun.as_ref().err().map(String::as_str),
            _ => None,
        }
    }

    /// A command from its start to its end, in milliseconds.
    pub(crate) fn time(&self, candidate: Candidate, task: &Task) -> Result<f64> {
        let inside = || {
            let mut words = task.words.clone();
            if task.shown {
                words[0] = SHOWN.to_owned();
            }
            words
        };
        let words = match (candidate, &self.runc, &self.crun) {
            (Candidate::Bubblewrap, ..) => {
                let mut words = vec![self.bubblewrap.to_string_lossy().into_owned()];
                words.extend(BUBBLEWRAP.split_whitespace().map(str::to_owned));
                for (name, value) in ENVIRONMENT {
                    words.extend(["--setenv", name, value].map(str::to_owned));
                }
                if task.shown {
                    words.extend(["--ro-bind".to_owned(), task.words[0].clone(), SHOWN.to_owned()]);
                }
                words.extend(inside());
                words
            }
            (Candidate::Runc, Ok(container), _) | (Candidate::Crun, _, Ok(container)) => {
                let shown = task.shown.then(|| Path::new(&task.words[0]));
                self.container(container, &inside(), shown)?
            }
            (Candidate::Command, ..) => return self.own_command(task),
            _ => task.words.clone(),
        };
        self.spawn(&words, &task.says)
    }

    /// A command with nothing of our environment.
    pub(crate) fn spawn(&self, words: &[String], says: &str) -> Result<f64> {
        let (program, args) = words.split_first().context("a command without words")?;
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(ENVIRONMENT).current_dir(self.folder());
        timed(command, says)
    }

    /// `sandboxd run`, with the settings we were started with.
    fn own_command(&self, task: &Task) -> Result<f64> {
        let mut command = Command::new(&self.own);
        let code = String::from_utf8_lossy(&task.request.main.content);
        command.args(["run", "--language", &task.request.language, "--code", &code, "--"]);
        command.args(&task.request.args);
        timed(command, &task.says)
    }

    /// Writes what the container shall be, and says how it is run.
    fn container(
        &self,
        container: &Container,
        words: &[String],
        shown: Option<&Path>,
    ) -> Result<Vec<String>> {
        bundle::describe(self.folder(), words, shown)?;
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let id = format!("sandboxd-bench-{}-{serial}", std::process::id());
        let bundle = self.folder().to_string_lossy().into_owned();
        let run = ["run".to_owned(), "--bundle".to_owned(), bundle, id];
        Ok(container.words.iter().cloned().chain(run).collect())
    }

    fn first_that_works(&self, ways: impl IntoIterator<Item = Container>) -> Result<Container, String> {
        let mut why = String::new();
        for way in ways {
            let words = ["/usr/bin/env", "echo", "works"].map(str::to_owned);
            let tried = self.container(&way, &words, None).and_then(|words| self.spawn(&words, "works\n"));
            match tried {
                Ok(_) => return Ok(way),
                Err(error) => why = error.root_cause().to_string(),
            }
        }
        Err(why)
    }
}

fn tool(name: &str) -> Result<PathBuf> {
    let places = find::PATH.iter().map(|directory| Path::new(directory).join(name));
    places.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        anyhow!(EngineError::Unavailable {
            what: format!("`{name}` is not installed"),
            hint: Some(SETUP.into()),
        })
    })
}

/// Runs a command, takes its output as we take a program's, and sees that it is what it should be.
fn timed(mut command: Command, says: &str) -> Result<f64> {
    command.stdin(Stdio::null());
    let name = command.get_program().to_string_lossy().into_owned();
    let began = Instant::now();
    let output = command.output().with_context(|| format!("`{name}`"))?;
    let took = began.elapsed().as_secs_f64() * 1000.0;
    if !output.status.success() || output.stdout != says.as_bytes() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let last = complaint.trim().lines().last().unwrap_or("it does not say why").to_owned();
        bail!("`{name}` failed, {}: {last}", output.status);
    }
    Ok(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_names_what_installs_it() {
        let error = tool("no-such-tool").unwrap_err();
        let error = error.downcast_ref::<EngineError>().unwrap();
        assert!(error.to_string().contains("`no-such-tool`"));
        assert!(error.hint().unwrap().contains("scripts/setup tools"));
    }

    #[test]
    fn only_a_command_that_says_what_it_should_is_measured() {
        let shell = |code: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", code]);
            command
        };
        assert!(timed(shell("echo 1; sleep 0.02"), "1\n").unwrap() >= 20.0);
        assert!(timed(shell("echo 2"), "1\n").is_err());
        let error = timed(shell("echo 1; echo one >&2; echo two >&2; exit 3"), "1\n").unwrap_err();
        assert!(error.to_string().contains("exit status: 3: two"), "{error}");
        assert!(timed(Command::new("/no/such/program"), "").is_err());
    }
}
