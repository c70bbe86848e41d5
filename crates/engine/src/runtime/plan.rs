//! From a program and a variant to the steps of a job.

use super::{Found, Host, Park, Prepare, Runtime};
use crate::EngineError;
use crate::call;
use crate::limits::Limits;
use protocol::{Step, StepKind};
use std::path::Path;

/// Where things are for the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The user's files.
    pub workspace: String,
    /// Output of the compile step.
    pub build: String,
    /// Whether these are places of a sandbox, in which trees of the host are mounted where they are wanted.
    pub isolated: bool,
}

impl Places {
    /// The text, with a mount point that does not exist without isolation replaced by one in the build
    /// directory.
    fn adapted(&self, text: String, prepare: Option<&Prepare>) -> String {
        match prepare {
            Some(prepare) if !self.isolated => {
                text.replace(&prepare.mount, &format!("{}/prepared", self.build))
            }
            _ => text,
        }
    }
}

/// What is asked of a language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Compile if needed, and run.
    Run,
    /// Only see whether it would.
    Check,
}

/// A program in some language.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Path of its main file in the workspace.
    pub main: &'a str,
    /// Paths of all its files.
    pub files: &'a [String],
    /// Its arguments.
    pub args: &'a [String],
    /// Its environment, `(name, value)`.
    pub env: &'a [(String, String)],
    /// What runs it for its value, if that is wanted.
    pub host: Option<&'a Host>,
}

/// The steps that do it.
pub fn steps(
    runtime: &Runtime,
    found: &Found<'_>,
    program: &Program<'_>,
    purpose: Purpose,
    limits: &Limits,
    places: &Places,
) -> Result<Vec<Step>, EngineError> {
    let variant = found.variant;
    let words = Words {
        runtime,
        program,
        limits,
        places,
        prepared: variant.prepare.as_ref().map(|p| p.mount.as_str()),
    };
    let step = |kind, command: &[String], args: &[String]| {
        let mut argv = words.expand(command);
        argv.iter_mut()
            .for_each(|word| *word = places.adapted(std::mem::take(word), variant.prepare.as_ref()));
        argv.extend(args.iter().cloned());
        let name = argv.first().cloned().unwrap_or_default();
        Ok(Step {
            kind,
            program: locate(found, &name)?,
            argv,
            env: environment(found, program.env, places),
            directory: places.workspace.clone(),
        })
    };
    let run = program.host.map_or(&variant.run, |host| &host.run);
    match purpose {
        Purpose::Run if variant.compile.is_empty() => Ok(vec![step(StepKind::Run, run, program.args)?]),
        Purpose::Run => {
            Ok(vec![step(StepKind::Compile, &variant.compile, &[])?, step(StepKind::Run, run, program.args)?])
        }
        Purpose::Check if variant.syntax.is_empty() => Err(EngineError::invalid(
            "check",
            format!("{} cannot be checked without running it", runtime.title),
        )),
        Purpose::Check => Ok(vec![step(StepKind::Run, &variant.syntax, &[])?]),
    }
}

/// Whether steps name a place, in their commands or their environment.
pub fn mention(steps: &[Step], place: &str) -> bool {
    steps.iter().any(|step| step.argv.iter().chain(&step.env).any(|word| word.contains(place)))
}

/// The one step that prepares a variant.
pub fn prepare(runtime: &Runtime, found: &Found<'_>, limits: &Limits, places: &Places) -> Option<Step> {
    let prepare = found.variant.prepare.as_ref()?;
    let program = Program { main: &runtime.source, files: &[], args: &[], env: &[], host: None };
    let words = Words { runtime, program: &program, limits, places, prepared: Some(&prepare.mount) };
    let argv = words.expand(&prepare.run);
    Some(Step {
        kind: StepKind::Run,
        program: locate(found, argv.first()?).ok()?,
        argv,
        env: environment(found, &[], places),
        directory: places.workspace.clone(),
    })
}

/// The command that waits for a program of this variant; none where copies of a loaded interpreter do.
pub fn parked(
    runtime: &Runtime,
    found: &Found<'_>,
    park: &Park,
    limits: &Limits,
    places: &Places,
) -> Result<Option<Step>, EngineError> {
    let program = Program { main: &runtime.source, files: &[], args: &[], env: &[], host: None };
    let words = Words { runtime, program: &program, limits, places, prepared: None };
    let fill = |word: &String| word.replace("{drivers}", DRIVERS);
    let argv = words.expand(&park.run.iter().map(fill).collect::<Vec<_>>());
    let Some(name) = argv.first() else { return Ok(None) };
    let mut env = environment(found, &[], places);
    if park.keeper {
        env.extend([format!("LD_PRELOAD={DRIVERS}/{LIBRARY}"), "SANDBOXD_KEEPER=1".to_owned()]);
    }
    Ok(Some(Step {
        kind: StepKind::Run,
        program: locate(found, name)?,
        env,
        argv,
        directory: park.directory.clone().unwrap_or_else(|| places.workspace.clone()),
    }))
}

/// Where the files are inside that make interpreters wait.
pub const DRIVERS: &str = "/etc/sandboxd";

/// What is loaded into interpreters: those that are copied, on the host, and those that leave a keeper, from there.
pub const LIBRARY: &str = "libsandbox_zygote.so";

/// Where the file to execute is, inside.
fn locate(found: &Found<'_>, name: &str) -> Result<String, EngineError> {
    if name.starts_with('/') {
        return Ok(name.to_owned());
    }
    let (inside, _) = found.program(name).ok_or_else(|| EngineError::Unavailable {
        what: format!("`{name}` is not installed on this host"),
        hint: None,
    })?;
    Ok(inside.display().to_string())
}

/// A clean environment: what programs expect, the variant's own, and what the caller adds.
pub fn environment(found: &Found<'_>, added: &[(String, String)], places: &Places) -> Vec<String> {
    let path: Vec<String> = found.inside_path.iter().map(|dir| dir.display().to_string()).collect();
    let mut all = vec![
        ("PATH".to_owned(), path.join(":")),
        ("HOME".into(), places.workspace.clone()),
        ("USER".into(), "sandbox".into()),
        // Or shells ask who we are and where that is written down.
        ("SHELL".into(), "/bin/sh".into()),
        ("TMPDIR".into(), "/tmp".into()),
    ];
    // Characters are all that this locale has of its own. With `LANG` programs would read a dozen more files of it, which
    // say what they do without; whoever sets that means all of it.
    if added.iter().all(|(name, _)| name != "LANG") {
        all.push(("LC_CTYPE".into(), "C.UTF-8".into()));
    }
    let prepare = found.variant.prepare.as_ref();
    let own =
        found.variant.env.iter().map(|(name, value)| (name.clone(), places.adapted(value.clone(), prepare)));
    for (name, value) in own.chain(added.iter().cloned()) {
        all.retain(|(known, _)| *known != name);
        all.push((name, value));
    }
    all.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// What the words in braces stand for.
struct Words<'a> {
    runtime: &'a Runtime,
    program: &'a Program<'a>,
    limits: &'a Limits,
    places: &'a Places,
    prepared: Option<&'a str>,
}

impl Words<'_> {
    fn expand(&self, command: &[String]) -> Vec<String> {
        let mut words = Vec::new();
        for word in command {
            if word == "{sources}" {
                words.extend(self.sources());
            } else {
                words.push(self.fill(word));
            }
        }
        words
    }

    fn fill(&self, word: &str) -> String {
        let main = Path::new(self.program.main);
        let stem = main.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let replacements = [
            ("{source}", guarded(self.program.main)),
            ("{stem}", stem),
            ("{build}", self.places.build.clone()),
            ("{workspace}", self.places.workspace.clone()),
            ("{prepared}", self.prepared.unwrap_or_default().to_owned()),
            ("{host}", self.host()),
            ("{memory_mb}", (self.limits.memory_bytes >> 20).to_string()),
        ];
        // One pass from left to right: what a name of the user's contains is never expanded again.
        let mut filled = String::new();
        let mut rest = word;
        while let Some(at) = rest.find('{') {
            filled += &rest[..at];
            rest = &rest[at..];
            match replacements.iter().find(|(name, _)| rest.starts_with(name)) {
                Some((name, value)) => {
                    filled += value;
                    rest = &rest[name.len()..];
                }
                None => {
                    filled.push('{');
                    rest = &rest[1..];
                }
            }
        }
        filled + rest
    }

    /// Where the program lies that runs the user's for its value.
    fn host(&self) -> String {
        let name = self.program.host.map(|host| host.host.as_str()).unwrap_or_default();
        format!("{}/{}", self.places.build, call::place(name))
    }

    /// The main file first, then every other file of the language.
    fn sources(&self) -> Vec<String> {
        let is_source = |path: &&String| {
            let ending = Path::new(path).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            path.as_str() != self.program.main && self.runtime.extensions.iter().any(|known| known == ending)
        };
        let others = self.program.files.iter().filter(is_source);
        std::iter::once(guarded(self.program.main)).chain(others.map(|path| guarded(path))).collect()
    }
}

/// A file name that a tool cannot take for an option.
fn guarded(path: &str) -> String {
    if path.starts_with('-') { format!("./{path}") } else { path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{Ceiling, Wanted};
    use crate::runtime::Catalogue;

    fn words_of(main: &str, files: &[&str], command: &[&str]) -> Vec<String> {
        let catalogue = Catalogue::default();
        let runtime = catalogue.by_name("c").unwrap();
        let files: Vec<String> = files.iter().map(|f| (*f).to_owned()).collect();
        let limits = Limits::resolve(Wanted::default(), Wanted::default(), &Ceiling::default()).unwrap();
        let places = Places { workspace: "/workspace".into(), build: "/build".into(), isolated: true };
        let program = Program { main, files: &files, args: &[], env: &[], host: None };
        let words = Words { runtime, program: &program, limits: &limits, places: &places, prepared: None };
        words.expand(&command.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn words_in_braces_are_filled_in_once() {
        assert_eq!(
            words_of("{build}.c", &[], &["cc", "{source}", "{build}/{stem}"]),
            ["cc", "{build}.c", "/build/{build}"]
        );
        assert_eq!(words_of("a.c", &[], &["awk", "{ print }"]), ["awk", "{ print }"]);
    }

    #[test]
    fn sources_are_the_files_of_the_language_main_first() {
        assert_eq!(words_of("m.c", &["a.c", "m.c", "x.h", "d/b.c"], &["{sources}"]), ["m.c", "a.c", "d/b.c"]);
    }

    #[test]
    fn a_file_is_never_an_option() {
        assert_eq!(words_of("-o.c", &[], &["cc", "{source}"]), ["cc", "./-o.c"]);
    }
}
