//! All languages, and how one is chosen.

use super::{Check, Runtime};
use crate::EngineError;
use crate::call::Mode;
use std::path::Path;
use std::sync::OnceLock;

/// A page of `runtimes/`, as `build.rs` left it.
#[derive(Debug)]
struct Page {
    names: &'static [&'static str],
    extensions: &'static [&'static str],
    runtime: &'static str,
    checks: &'static str,
}

const PAGES: &[Page] = include!(concat!(env!("OUT_DIR"), "/runtimes.rs"));

/// All languages. A page is read when it is first asked for.
#[derive(Debug)]
pub struct Catalogue {
    read: Vec<OnceLock<Result<Runtime, String>>>,
}

impl Default for Catalogue {
    fn default() -> Catalogue {
        Catalogue { read: PAGES.iter().map(|_| OnceLock::new()).collect() }
    }
}

impl Catalogue {
    /// All of them, by name.
    pub fn runtimes(&self) -> Result<Vec<&Runtime>, EngineError> {
        (0..PAGES.len()).map(|index| self.page(index)).collect()
    }

    /// The language of that name or alias.
    pub fn by_name(&self, name: &str) -> Result<&Runtime, EngineError> {
        let wanted = name.to_lowercase();
        match PAGES.iter().position(|page| page.names.contains(&wanted.as_str())) {
            Some(index) => self.page(index),
            None => {
                let names: Vec<&str> = PAGES.iter().filter_map(|page| page.names.first().copied()).collect();
                Err(EngineError::invalid("language", format!("`{name}` is not a language we know"))
                    .with_hint(format!("choose one of {}", names.join(", "))))
            }
        }
    }

    /// The language of a file, by its ending or by its first line.
    pub fn by_file(&self, path: &Path, content: &[u8]) -> Option<&Runtime> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        match PAGES.iter().position(|page| page.extensions.contains(&ending)) {
            Some(index) => self.page(index).ok(),
            None => self.by_first_line(content),
        }
    }

    /// Whether a language has a mode; the error says which ones do.
    pub(crate) fn offers(&self, runtime: &Runtime, mode: &Mode) -> Result<(), EngineError> {
        let has = |runtime: &Runtime| {
            let mut variants = runtime.variants.iter();
            *mode == Mode::Script || variants.any(|variant| mode.host(variant).is_some())
        };
        if has(runtime) {
            return Ok(());
        }
        let others = self.runtimes()?.into_iter().filter(|runtime| has(runtime));
        let names: Vec<&str> = others.map(|runtime| runtime.name.as_str()).collect();
        let what = format!("{} has no mode `{}`", runtime.title, mode.name());
        Err(EngineError::invalid("mode", what).with_hint(format!("these have it: {}", names.join(", "))))
    }

    /// Programs that prove a language works.
    pub fn checks(&self, runtime: &Runtime) -> Result<Vec<Check>, EngineError> {
        let page = PAGES.iter().find(|page| page.names.first() == Some(&runtime.name.as_str()));
        let text = page.map_or("[]", |page| page.checks);
        serde_json::from_str(text)
            .map_err(|e| EngineError::Broken(format!("checks of {}: {e}", runtime.name)))
    }

    fn page(&self, index: usize) -> Result<&Runtime, EngineError> {
        let page = &PAGES[index];
        let read = self.read[index].get_or_init(|| Runtime::parse(page.runtime));
        read.as_ref().map_err(|e| EngineError::Broken(format!("language `{}`: {e}", page.names[0])))
    }

    /// `#!/usr/bin/env python3` and the like.
    fn by_first_line(&self, content: &[u8]) -> Option<&Runtime> {
        let line = content.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
        let line = std::str::from_utf8(line).ok()?;
        let mut words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
        let program = words.find(|word| *word != "env" && !word.starts_with('-'))?;
        let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        [program, plain].iter().find_map(|name| self.by_name(name).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_page_reads_and_no_name_is_taken_twice() {
        let catalogue = Catalogue::default();
        let runtimes = catalogue.runtimes().unwrap();
        assert!(runtimes.len() >= 16);
        let mut names = HashSet::new();
        let mut endings = HashSet::new();
        for runtime in runtimes {
            for name in runtime.names() {
                assert!(names.insert(name.to_owned()), "`{name}` is taken twice");
                assert_eq!(name, name.to_lowercase());
            }
            for ending in &runtime.extensions {
                assert!(endings.insert(ending.clone()), "`.{ending}` is taken twice");
            }
            assert!(!runtime.variants.is_empty(), "{}", runtime.name);
            assert!(!catalogue.checks(runtime).unwrap().is_empty(), "{}", runtime.name);
        }
    }

    #[test]
    fn files_tell_their_language() {
        let catalogue = Catalogue::default();
        let of = |path: &str, content: &str| {
            catalogue.by_file(Path::new(path), content.as_bytes()).map(|runtime| runtime.name.clone())
        };
        assert_eq!(of("a.py", "").as_deref(), Some("python"));
        assert_eq!(of("a", "#!/usr/bin/env -S python3 -u\n").as_deref(), Some("python"));
        assert_eq!(of("a", "#!/bin/sh\n").as_deref(), Some("sh"));
        assert_eq!(of("a.unknown", "text"), None);
    }
}
