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
use std::ffi::OsString;
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
    /// Uid and gid of a plain user, when root runs the tests.
    id: u32,
    folder: PathBuf,
    home: PathBuf,
    vars: Vec<(String, String)>,
    before: Vec<String>,
}

impl Sandboxd {
    /// Somebody with binaries and a home of their own.
    pub(crate) fn at(plain: bool, folder: &Path, home: &Path) -> Sandboxd {
        let (folder, home) = (folder.into(), home.into());
        Sandboxd { plain, id: PLAIN, folder, home, vars: Vec::new(), before: Vec::new() }
    }

    /// Root. Without root there is nothing to test, which is said out loud.
    pub(crate) fn root() -> Option<Sandboxd> {
        if !am_root() {
            say_that_root_is_missing();
            return None;
        }
        Some(Sandboxd::at(false, binaries(), &usual_home(false)))
    }

    /// A plain user: the caller, or when that is root somebody without any right.
    pub(crate) fn plain() -> Sandboxd {
        Sandboxd::at(true, binaries(), &usual_home(true))
    }

    /// Whoever runs the tests.
    pub(crate) fn caller() -> Sandboxd {
        if am_root() {
            Sandboxd { plain: false, home: usual_home(false), ..Sandboxd::plain() }
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

    /// The same plain user by another uid and gid, so that what the kernel counts per user is theirs alone.
    pub(crate) fn known_as(mut self, id: u32) -> Sandboxd {
        self.id = id;
        self
    }

    /// The uid of the command.
    pub(crate) fn uid(&self) -> u32 {
        if self.plain && am_root() { self.id } else { rustix::process::geteuid().as_raw() }
    }

    /// The same, started by a command that executes the words it is given.
    pub(crate) fn behind(mut self, words: &[String]) -> Sandboxd {
        self.before = words.to_vec();
        self
    }

    /// The same, whose `sandboxd` is a script in this folder that arranges a host that lacks something, for each command
    /// anew.
    pub(crate) fn lacking(&self, folder: &Path, lacks: &[&str]) -> Sandboxd {
        let numbers = format!("policies/syscalls-{}.txt", std::env::consts::ARCH);
        for (name, source) in
            [("lacking.py", "tests/attacks/drives/kernel/lacking.py"), ("numbers", &numbers)]
        {
            self.write(&folder.join(name), std::fs::read(repository().join(source)).expect(source));
        }
        let script = format!(
            "#!/bin/sh\nexec /usr/bin/python3 {}/lacking.py {} -- {} \"$@\"\n",
            folder.display(),
            lacks.join(" "),
            self.binary("sandboxd").display()
        );
        let command = self.write(&folder.join("sandboxd"), script);
        std::fs::set_permissions(command, std::fs::Permissions::from_mode(0o755)).expect("the script");
        self.clone().installed_in(folder)
    }

    /// Makes this person the owner of a file.
    pub(crate) fn give(&self, path: &Path) {
        if self.plain && am_root() {
            chown(path, Some(self.id), Some(self.id)).unwrap();
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
    pub(crate) fn command<'w>(&self, words: impl IntoIterator<Item = &'w str>) -> Run {
        self.program("sandboxd", words)
    }

    /// A binary with any words, in an environment with nothing in it but what a login gives.
    pub(crate) fn program<'w>(&self, name: &str, words: impl IntoIterator<Item = &'w str>) -> Run {
        let mut command = self.bare(self.binary(name));
        command.args(words).env_clear().env("HOME", &self.home).env("PATH", "/usr/bin:/bin").current_dir("/");
        command.envs(self.vars.iter().map(|(name, value)| (name, value)));
        Run::new(command)
    }

    /// Any program, as this person.
    pub(crate) fn bare(&self, program: impl Into<OsString>) -> Command {
        let mut line: Vec<OsString> = self.before.iter().map(OsString::from).collect();
        if self.plain && am_root() {
            let id = self.id.to_string();
            let words = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "--"];
            line.extend(words.map(OsString::from));
        }
        line.push(program.into());
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]);
        command
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

/// The usual home of a plain user or of root in tests.
pub(crate) fn usual_home(plain: bool) -> PathBuf {
    ground().join(if plain { "plain" } else { "root" })
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
        for name in ["sandboxd", "sandbox-run", "sandbox-executor", "libsandbox_zygote.so"] {
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
