//! Boots the real binaries, as root and as a plain user, and reads what they say.
//!
//! Nothing here knows the code under test: a run is words on a command line, and its result is an exit code,
//! two streams and perhaps one line of JSON. Each test binary uses a part of it.
#![allow(dead_code, unused_imports)]

pub(crate) mod catalogue;
pub(crate) mod host;
mod out;
mod run;
mod running;
mod worker;

pub(crate) use out::{Out, Record};
pub(crate) use run::Run;
pub(crate) use running::Running;
pub(crate) use worker::{in_parallel, with_neighbour};

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// The unprivileged uid and gid of the plain half.
pub(crate) const PLAIN: u32 = 20001;

/// Somebody who runs sandboxd.
#[derive(Clone)]
pub(crate) struct Sandboxd {
    plain: bool,
    folder: PathBuf,
    home: PathBuf,
    vars: Vec<(String, String)>,
}

impl Sandboxd {
    /// Root. Without root there is nothing to test, which is said out loud.
    pub(crate) fn root() -> Option<Sandboxd> {
        if !am_root() {
            say_that_root_is_missing();
            return None;
        }
        Some(Sandboxd {
            plain: false,
            folder: binaries().into(),
            home: ground().join("root"),
            vars: Vec::new(),
        })
    }

    /// A plain user: the caller, or when that is root somebody without any right.
    pub(crate) fn plain() -> Sandboxd {
        Sandboxd { plain: true, folder: binaries().into(), home: ground().join("plain"), vars: Vec::new() }
    }

    /// Whoever runs the tests.
    pub(crate) fn caller() -> Sandboxd {
        if am_root() {
            Sandboxd { plain: false, home: ground().join("root"), ..Sandboxd::plain() }
        } else {
            Sandboxd::plain()
        }
    }

    /// Both, where possible.
    pub(crate) fn everybody() -> Vec<Sandboxd> {
        Sandboxd::root().into_iter().chain([Sandboxd::plain()]).collect()
    }

    pub(crate) fn is_root(&self) -> bool {
        !self.plain
    }

    pub(crate) fn name(&self) -> &'static str {
        if self.plain { "plain user" } else { "root" }
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    pub(crate) fn binary(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The same with binaries from elsewhere.
    pub(crate) fn installed_in(mut self, folder: &Path) -> Sandboxd {
        self.folder = folder.into();
        self
    }

    /// The same with a home of its own, and so with caches of its own.
    pub(crate) fn living_in(mut self, home: &Path) -> Sandboxd {
        self.give(home);
        self.home = home.into();
        self
    }

    /// The same with a variable in its environment.
    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Sandboxd {
        self.vars.push((name.into(), value.to_string()));
        self
    }

    /// Makes this person the owner of a file.
    pub(crate) fn give(&self, path: &Path) {
        if self.plain && am_root() {
            chown(path, Some(PLAIN), Some(PLAIN)).unwrap();
        }
    }

    /// A new directory that this person can use.
    pub(crate) fn folder(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        self.give(folder.path());
        folder
    }

    /// Writes a file that this person can read.
    pub(crate) fn write(&self, path: &Path, content: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(path, content).unwrap();
        self.give(path);
        path.into()
    }

    /// `sandboxd run` of code.
    pub(crate) fn run(&self, language: &str, code: &str) -> Run {
        self.command(["run", "--language", language, "--code", code])
    }

    /// `sandboxd run` of a file.
    pub(crate) fn run_file(&self, path: &Path) -> Run {
        self.command(["run"]).flag(path)
    }

    /// `sandboxd` with any words.
    pub(crate) fn command<const N: usize>(&self, words: [&str; N]) -> Run {
        self.program("sandboxd", words)
    }

    /// A binary with any words, in an environment with nothing in it but what a login gives.
    pub(crate) fn program<const N: usize>(&self, name: &str, words: [&str; N]) -> Run {
        let binary = self.binary(name);
        let mut command = match self.plain && am_root() {
            true => {
                let id = PLAIN.to_string();
                let mut command = Command::new("setpriv");
                command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(binary);
                command
            }
            false => Command::new(binary),
        };
        command.args(words).env_clear().env("HOME", &self.home).env("PATH", "/usr/bin:/bin").current_dir("/");
        command.envs(self.vars.iter().map(|(name, value)| (name, value)));
        Run::new(command)
    }
}

/// Once for each test, past the harness, which keeps what tests print to itself.
fn say_that_root_is_missing() {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("`{test}`: the root half was NOT RUN, because the tests are not run as root\n");
    if SAID.lock().unwrap().insert(test) {
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

pub(crate) fn am_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The root of this repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Holds until dropped what no two tests may do at once, in whatever process they run.
pub(crate) fn alone() -> File {
    let lock = File::create(ground().join("lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// Where the tests live: readable for everybody, and the same each time, so that nothing piles up.
fn ground() -> &'static Path {
    static GROUND: OnceLock<PathBuf> = OnceLock::new();
    GROUND.get_or_init(|| {
        let me = rustix::process::geteuid().as_raw();
        let ground = Path::new("/tmp").join(format!("sandboxd-tests-{me}"));
        for (dir, owner) in [(ground.clone(), me), (ground.join("root"), me), (ground.join("plain"), PLAIN)] {
            let _ = DirBuilder::new().mode(0o755).create(&dir);
            let meta = std::fs::symlink_metadata(&dir).unwrap();
            assert!(
                meta.is_dir() && [me, PLAIN].contains(&meta.uid()),
                "{} belongs to somebody else",
                dir.display()
            );
            if am_root() {
                chown(&dir, Some(owner), Some(owner)).unwrap();
            }
        }
        ground
    })
}

/// Where copies of the binaries are that everybody can execute.
fn binaries() -> &'static Path {
    static BINARIES: OnceLock<PathBuf> = OnceLock::new();
    BINARIES.get_or_init(|| {
        let given = std::env::var_os("SANDBOXD_BIN").map(PathBuf::from);
        let main = given.unwrap_or_else(|| repository().join("target/release/sandboxd"));
        let from = main.parent().unwrap();
        let to = ground().join("bin");
        let _ = std::fs::create_dir(&to);
        for name in ["sandboxd", "sandbox-run", "sandbox-executor"] {
            let source = from.join(name);
            assert!(
                source.is_file(),
                "`{}` is missing: run `make build`, or set SANDBOXD_BIN",
                source.display()
            );
            install(&source, &to.join(name));
        }
        to
    })
}

/// Copies a program; one that is running is replaced, not written to.
pub(crate) fn install(source: &Path, target: &Path) {
    let draft = target.with_extension(format!("draft-{}", std::process::id()));
    std::fs::copy(source, &draft).unwrap();
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&draft, target).unwrap();
}
