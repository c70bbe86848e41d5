//! What is run. Every run is of a program that has not been seen before, so no cache can have its result.

use super::candidate::Candidate;
use super::ours::Ours;
use super::peers::{self, Peers};
use crate::args::BenchPart;
use anyhow::{Result, anyhow};
use engine::runtime::find;
use engine::{EngineError, Request};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A program. `{n}` in its code is another number in every run, and what it has to print.
pub(crate) struct Program {
    pub(crate) part: BenchPart,
    pub(crate) title: &'static str,
    pub(crate) language: &'static str,
    bare: Bare,
    code: &'static str,
    /// It is run in one of so many rounds, because it takes so much longer than the others.
    pub(crate) every: usize,
    /// Whether several at once are measured, and what those that wait take.
    pub(crate) under_load: bool,
    /// What one that waits may do before, where that makes a difference.
    pub(crate) rehearsal: Option<&'static str>,
    /// The same language, never ending.
    pub(crate) endless: Option<&'static str>,
}

/// How it is run without anything around it.
enum Bare {
    /// By this program, which takes the code behind this option.
    Text { tool: &'static str, option: &'static str },
    /// By compiling it, which is not measured. The number is its argument.
    Compiled,
}

pub(crate) const PROGRAMS: [Program; 6] = [
    Program {
        part: BenchPart::Python,
        title: "python3 -c 'print(1)'",
        language: "python",
        bare: Bare::Text { tool: "python3", option: "-c" },
        code: "print({n})",
        every: 1,
        under_load: true,
        rehearsal: None,
        endless: Some("while True: pass"),
    },
    Program {
        part: BenchPart::Node,
        title: "node -e 'console.log(1)'",
        language: "javascript",
        bare: Bare::Text { tool: "node", option: "-e" },
        code: "console.log({n})",
        every: 1,
        under_load: true,
        rehearsal: None,
        endless: Some("for (;;);"),
    },
    Program {
        part: BenchPart::Bash,
        title: "bash -c 'echo 1'",
        language: "bash",
        bare: Bare::Text { tool: "bash", option: "-c" },
        code: "echo {n}",
        every: 1,
        under_load: false,
        rehearsal: None,
        endless: None,
    },
    Program {
        part: BenchPart::C,
        title: "hello in C, compiled before",
        language: "c",
        bare: Bare::Compiled,
        code: "#include <stdio.h>\nint main(int count, char **args) { return count != 2 || puts(args[1]) < 0; }\n",
        every: 1,
        under_load: false,
        rehearsal: None,
        endless: None,
    },
    Program {
        part: BenchPart::Numpy,
        title: "import numpy",
        language: "python",
        bare: Bare::Text { tool: "python3", option: "-c" },
        code: "import numpy\nprint(numpy.array([{n}, 1]).max())",
        every: 2,
        under_load: false,
        rehearsal: None,
        endless: None,
    },
    Program {
        part: BenchPart::Pandas,
        title: "import pandas, a small DataFrame",
        language: "python",
        bare: Bare::Text { tool: "python3", option: "-c" },
        code: "import pandas\n\
               frame = pandas.DataFrame({'name': ['a', 'b', 'c'], 'value': [{n}, 1, 2]})\n\
               print(frame['value'].max())",
        every: 4,
        under_load: true,
        rehearsal: Some(
            "import pandas\nprint(pandas.DataFrame({'a': ['x', 'y'], 'b': [1, 2.5]}).describe())",
        ),
        endless: None,
    },
];

/// Numbers nobody has seen: not in this run, and hardly in one before.
pub(crate) struct Fresh(AtomicU64);

impl Default for Fresh {
    fn default() -> Fresh {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Fresh(AtomicU64::new(1_000_000_000 + seconds % 1_000_000 * 1_000_000))
    }
}

impl Fresh {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// A program this host can run.
pub(crate) struct Ready {
    pub(crate) program: &'static Program,
    /// The interpreter, or the compiled program.
    tool: PathBuf,
}

/// One run of a program.
pub(crate) struct Task {
    /// The bare command.
    pub(crate) words: Vec<String>,
    /// The file a sandbox has to be shown beside the host's programs, as the first of the words.
    pub(crate) shown: bool,
    pub(crate) request: Request,
    /// What it has to print.
    pub(crate) says: String,
}

impl Task {
    /// As it is asked for by name.
    pub(crate) fn as_json(&self) -> serde_json::Value {
        let code = String::from_utf8_lossy(&self.request.main.content);
        serde_json::json!({"language": self.request.language, "code": code})
    }
}

impl Ready {
    /// Finds its tools, compiles it if need be, and sees that the bare command works.
    pub(crate) fn new(program: &'static Program, ours: &Ours, peers: &Peers, fresh: &Fresh) -> Result<Ready> {
        let missing =
            |what: String| anyhow!(EngineError::Unavailable { what, hint: Some(peers::SETUP.into()) });
        let runtime = ours.catalogue().by_name(program.language)?;
        let found = find::find(runtime).map_err(|e| missing(e.to_string()))?;
        let tool = |name: &str| {
            let place = found.program(name).map(|(_, on_host)| on_host);
            place.ok_or_else(|| missing(format!("`{name}` is not installed")))
        };
        let tool = match program.bare {
            Bare::Text { tool: name, .. } => tool(name)?,
            Bare::Compiled => {
                let [source, build] = ["main.c", "build"].map(|name| peers.folder().join(name));
                std::fs::write(&source, program.code)?;
                std::fs::create_dir_all(&build)?;
                // With the words the sandbox uses.
                let words = found.variant.compile.iter().map(|word| {
                    word.replace("{build}", &build.to_string_lossy())
                        .replace("{sources}", &source.to_string_lossy())
                });
                let mut words = words.collect::<Vec<_>>();
                if let Some(first) = words.first_mut() {
                    *first = tool(first)?.to_string_lossy().into_owned();
                }
                peers.spawn(&words, "").map_err(|e| missing(format!("{e:#}")))?;
                build.join("main")
            }
        };
        let ready = Ready { program, tool };
        let task = ready.task(fresh);
        peers.time(Candidate::Bare, &task).map_err(|e| missing(format!("{e:#}")))?;
        Ok(ready)
    }

    /// A run like no other.
    pub(crate) fn task(&self, fresh: &Fresh) -> Task {
        let number = fresh.next().to_string();
        let (language, code) = (self.program.language, self.program.code.replace("{n}", &number));
        let tool = self.tool.to_string_lossy().into_owned();
        let mut request = Request::new(language, code.clone());
        let words = match self.program.bare {
            Bare::Text { option, .. } => vec![tool, option.to_owned(), code],
            Bare::Compiled => {
                request.args = vec![number.clone()];
                vec![tool, number.clone()]
            }
        };
        Task { words, shown: matches!(self.program.bare, Bare::Compiled), request, says: number + "\n" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_runs_are_of_the_same_program() {
        let fresh = Fresh::default();
        for program in &PROGRAMS {
            let ready = Ready { program, tool: "/tool".into() };
            let [one, other] = [ready.task(&fresh), ready.task(&fresh)];
            assert_ne!(one.words, other.words);
            assert_ne!(one.says, other.says);
            let of_request = |task: &Task| (task.request.main.content.clone(), task.request.args.clone());
            assert_ne!(of_request(&one), of_request(&other));
        }
    }
}
