//! The pages of `runtimes/`, read by the tests themselves.

use super::{Run, Sandboxd, repository};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
pub(crate) struct Language {
    pub(crate) name: String,
    pub(crate) aliases: Vec<String>,
    pub(crate) extensions: Vec<String>,
    #[serde(rename = "variant")]
    pub(crate) variants: Vec<Variant>,
    #[serde(rename = "check")]
    pub(crate) checks: Vec<Check>,
}

#[derive(Deserialize)]
pub(crate) struct Variant {
    #[serde(default)]
    pub(crate) syntax: Vec<String>,
    park: Option<toml::Table>,
}

#[derive(Deserialize)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) code: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    args: Vec<String>,
    stdin: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    stdout: Option<String>,
    #[serde(default)]
    stdout_contains: Vec<String>,
    #[serde(default)]
    stderr_contains: Vec<String>,
    #[serde(default)]
    exit: i32,
}

/// Every language, by name.
pub(crate) fn languages() -> Vec<Language> {
    let mut pages: Vec<_> =
        std::fs::read_dir(repository().join("runtimes")).unwrap().map(|e| e.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    pages.sort();
    let read = |path: &std::path::PathBuf| {
        toml::from_str(&std::fs::read_to_string(path).unwrap())
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let languages: Vec<Language> = pages.iter().map(read).collect();
    assert!(languages.len() >= 16, "16 languages are promised");
    languages
}

impl Language {
    /// Whether its interpreter can be there before its program.
    pub(crate) fn can_wait(&self) -> bool {
        self.variants.iter().any(|variant| variant.park.is_some())
    }

    pub(crate) fn check(&self, name: &str) -> &Check {
        let found = self.checks.iter().find(|check| check.name == name);
        found.unwrap_or_else(|| panic!("{} has no check `{name}`", self.name))
    }

    /// The program that is wrong by its very grammar.
    pub(crate) fn broken(&self) -> &Check {
        let wrong = |check: &&Check| ["syntax error", "compile error"].contains(&check.name.as_str());
        self.checks.iter().find(wrong).unwrap_or_else(|| panic!("{} has no broken program", self.name))
    }
}

impl Check {
    /// Runs it, its files from a directory, and says what was not as the page promises.
    pub(crate) fn walk(&self, who: &Sandboxd, language: &str, more: &str) -> Result<(), String> {
        let folder = who.folder();
        let mut run: Run = who.run(language, &self.code).options(more);
        let mut tops: Vec<&str> = self.files.keys().map(|path| path.split('/').next().unwrap()).collect();
        tops.dedup();
        for (path, content) in &self.files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, content).unwrap();
        }
        for top in tops {
            run = run.arg("--file", format!("{top}={}", folder.path().join(top).display()));
        }
        for (name, value) in &self.env {
            run = run.arg("--env", format!("{name}={value}"));
        }
        if let Some(stdin) = &self.stdin {
            run = run.arg("--stdin", stdin);
        }
        let out = run.flag("--quiet").words(self.args.clone()).out();
        let (stdout, stderr) = (out.text(), out.complaint());
        let mut wrong = Vec::new();
        if out.code != self.exit {
            wrong.push(format!("exit code {}, not {}", out.code, self.exit));
        }
        if self.stdout.as_ref().is_some_and(|wanted| *wanted != stdout) {
            wrong.push(format!("stdout is not {:?}", self.stdout));
        }
        wrong.extend(
            self.stdout_contains
                .iter()
                .filter(|w| !stdout.contains(*w))
                .map(|w| format!("stdout lacks {w:?}")),
        );
        wrong.extend(
            self.stderr_contains
                .iter()
                .filter(|w| !stderr.contains(*w))
                .map(|w| format!("stderr lacks {w:?}")),
        );
        if wrong.is_empty() {
            return Ok(());
        }
        let said: String = format!("stdout: {stdout}\nstderr: {stderr}").chars().take(2000).collect();
        Err(format!("{language}, `{}`, as {} {more}: {}\n{said}", self.name, who.name(), wrong.join("; ")))
    }
}
