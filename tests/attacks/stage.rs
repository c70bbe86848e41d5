//! One run of a case: what a drive gets, and what is done where there is none.

use crate::case::Run;
use crate::record;
use crate::request;
use crate::seen::{Seen, judge};
use crate::served::Served;
use crate::support::{self, Sandboxd};
use crate::world::Place;
use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;
use tempfile::TempDir;

/// Languages whose interpreters wait for a main file of the usual name, and for no other.
const PARKED: [&str; 5] = ["javascript", "lua", "perl", "php", "ruby"];

pub(crate) struct Stage<'a> {
    /// Runs `sandboxd`, bounded by the outer cgroup.
    pub(crate) person: Sandboxd,
    pub(crate) run: &'a Run,
    pub(crate) place: &'a Place<'a>,
    folder: OnceCell<TempDir>,
    shown: RefCell<Vec<Vec<u8>>>,
    noticed: RefCell<Noticed>,
}

/// What a stage noticed of every run, whatever was expected of it.
#[derive(Default)]
pub(crate) struct Noticed {
    pub(crate) malformed: Vec<String>,
    /// Names of records.
    pub(crate) records: Vec<String>,
    /// Uids of sandboxes.
    pub(crate) sandboxes: Vec<u32>,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(place: &'a Place<'a>, run: &'a Run) -> Stage<'a> {
        let person = place.attacker();
        Stage {
            person,
            run,
            place,
            folder: OnceCell::new(),
            shown: RefCell::default(),
            noticed: RefCell::default(),
        }
    }

    /// An empty directory of that person. It is searched for canaries and removed afterwards.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.get_or_init(|| self.person.folder()).path()
    }

    /// `sandboxd run` as the data says.
    pub(crate) fn command(&self) -> support::Run {
        let run = self.run;
        let program = |name: &str| self.place.world.path("programs").join(name);
        let mut command = self.person.command(["run", "--json"]).arg("--language", &run.language);
        for (name, value) in self.place.variables() {
            command = command.arg("--env", format!("{name}={value}"));
        }
        for file in run.beside() {
            command = command.arg("--file", format!("{file}={}", program(&file).display()));
        }
        if self.place.warm.get() && run.can_wait() {
            command = command.flag("--warm");
        }
        for word in &run.options {
            command = match word.contains("{folder}") {
                true => command.flag(word.replace("{folder}", &self.folder().display().to_string())),
                false => command.flag(word),
            };
        }
        if let Some(text) = &run.stdin {
            command = command.arg("--stdin", text);
        }
        let warm = self.place.warm.get() && PARKED.contains(&run.language.as_str());
        match (&run.program, &run.code) {
            (Some(file), _) if warm => {
                let code = std::fs::read_to_string(program(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
                command = command.flag(format!("--code={code}"));
            }
            (Some(file), _) => command = command.flag(program(file)),
            (None, Some(code)) => command = command.arg("--code", code),
            (None, None) => {}
        }
        command.words(&run.args)
    }

    /// The program of a Python run without any isolation, for controls: what it wrote.
    pub(crate) fn execute_bare(&self) -> Result<String, String> {
        let file = self.run.program.as_deref().ok_or("wants a `program`")?;
        let mut command = self.person.bare("python3");
        command.arg(self.place.world.path("programs").join(file)).args(&self.run.args);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("PYTHONDONTWRITEBYTECODE", "1");
        command.current_dir("/").env("FOLDER", self.folder()).envs(self.place.variables());
        let out = command.output().map_err(|e| format!("python3: {e}"))?;
        self.show(&out.stdout);
        if out.status.success() {
            return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
        }
        Err(format!("it failed: {}", String::from_utf8_lossy(&out.stderr)))
    }

    /// The same, to its end; by REST where there is a server.
    pub(crate) fn execute(&self) -> Seen {
        let Some(served) = self.place.served() else {
            let out = self.command().out();
            return self.notice(&out);
        };
        let body = request::body(self.run, self.place).unwrap_or_else(|why| panic!("{why}"));
        let began = Instant::now();
        let answer = served.post(&served.tenants[0], "/api/v1/execute", &body);
        let (seen, malformed) = record::read_answer(answer.status, &answer.body, began.elapsed());
        self.keep(&seen, malformed);
        self.show(&answer.body);
        seen
    }

    /// The server that is attacked.
    pub(crate) fn served(&self) -> Rc<Served> {
        self.place.served().unwrap_or_else(|| panic!("there is no server"))
    }

    /// What was seen of a command that was given `--json`. Checks that it is well-formed.
    pub(crate) fn notice(&self, out: &support::Out) -> Seen {
        let (seen, malformed) = record::read(out.code, &out.stdout, &out.stderr, out.took);
        self.show(&out.stdout);
        self.show(&out.stderr);
        self.keep(&seen, malformed);
        seen
    }

    /// Keeps what is looked at in every run.
    fn keep(&self, seen: &Seen, malformed: Vec<String>) {
        self.show(&seen.stdout);
        self.show(&seen.stderr);
        let mut noticed = self.noticed.borrow_mut();
        noticed.malformed.extend(malformed);
        if let Some(record) = &seen.record {
            noticed.records.extend(record["execution_id"].as_str().map(str::to_owned));
            let uid = record["isolation"]["host_uid"].as_u64().and_then(|uid| u32::try_from(uid).ok());
            // PID 1 has the one below.
            noticed.sandboxes.extend(uid.into_iter().flat_map(|uid| [uid, uid.saturating_sub(1)]));
        }
    }

    /// Compares what was seen with what is expected.
    pub(crate) fn judge(&self, seen: &Seen) -> Result<(), String> {
        let expect = match self.place.served() {
            Some(_) => &self.run.expect.of_rest(),
            None => &self.run.expect,
        };
        let waited = match (&seen.record, self.place.served()) {
            (Some(record), Some(_)) => record["start"] == "hit" || record["start"] == "miss",
            _ => self.place.warm.get() && self.run.can_wait(),
        };
        let wrong = match waited {
            true => judge(&expect.of_warm(), seen),
            false => judge(expect, seen),
        };
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    /// More output that must not contain a canary.
    pub(crate) fn show(&self, bytes: &[u8]) {
        self.shown.borrow_mut().push(bytes.to_vec());
    }

    /// Canaries in what was shown and in the folder, and what was noticed.
    pub(crate) fn close(self) -> (Vec<String>, Noticed) {
        let canaries = &self.place.world.canaries;
        let shown = self.shown.borrow();
        let found = shown.iter().filter_map(|bytes| canaries.search(bytes));
        let mut leaks: Vec<String> =
            found.map(|place| format!("its output holds the canary of {place}")).collect();
        leaks
            .extend(self.folder.get().into_iter().flat_map(|folder| canaries.search_below(folder.path(), 0)));
        leaks.dedup();
        drop(shown);
        (leaks, self.noticed.into_inner())
    }
}

/// What a panic said.
pub(crate) fn words(cause: &(dyn Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().cloned();
    text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "panicked".into())
}
