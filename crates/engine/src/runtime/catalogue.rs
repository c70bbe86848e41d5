//! All languages, and how one is chosen.

use super::Runtime;
use crate::EngineError;
use std::path::Path;

/// Every page of `runtimes/`, as it was when this was built.
const PAGES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/runtimes.rs"));

/// All languages.
#[derive(Clone, Debug)]
pub struct Catalogue {
    runtimes: Vec<Runtime>,
}

impl Catalogue {
    /// Reads the built-in pages.
    pub fn load() -> Result<Catalogue, EngineError> {
        let read = |(name, page): &(&str, &str)| {
            Runtime::parse(page).map_err(|e| EngineError::Broken(format!("runtimes/{name}: {e}")))
        };
        Ok(Catalogue { runtimes: PAGES.iter().map(read).collect::<Result<_, _>>()? })
    }

    /// All of them, by name.
    pub fn runtimes(&self) -> &[Runtime] {
        &self.runtimes
    }

    /// The language of that name or alias.
    pub fn by_name(&self, name: &str) -> Result<&Runtime, EngineError> {
        let wanted = name.to_lowercase();
        let found = self.runtimes.iter().find(|runtime| runtime.names().any(|known| known == wanted));
        found.ok_or_else(|| {
            let names: Vec<&str> = self.runtimes.iter().map(|runtime| runtime.name.as_str()).collect();
            EngineError::invalid("language", format!("`{name}` is not a language we know"))
                .with_hint(format!("choose one of {}", names.join(", ")))
        })
    }

    /// The language of a file, by its ending or by its first line.
    pub fn by_file(&self, path: &Path, content: &[u8]) -> Option<&Runtime> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let by_ending = self.runtimes.iter().find(|runtime| runtime.extensions.iter().any(|known| known == ending));
        by_ending.or_else(|| self.by_first_line(content))
    }

    /// `#!/usr/bin/env python3` and the like.
    fn by_first_line(&self, content: &[u8]) -> Option<&Runtime> {
        let line = content.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
        let line = std::str::from_utf8(line).ok()?;
        let words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
        let program = words.filter(|word| *word != "env" && !word.starts_with('-')).next()?;
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
        let catalogue = Catalogue::load().unwrap();
        assert!(catalogue.runtimes().len() >= 16);
        let mut names = HashSet::new();
        let mut endings = HashSet::new();
        for runtime in catalogue.runtimes() {
            for name in runtime.names() {
                assert!(names.insert(name.to_owned()), "`{name}` is taken twice");
                assert_eq!(name, name.to_lowercase());
            }
            for ending in &runtime.extensions {
                assert!(endings.insert(ending.clone()), "`.{ending}` is taken twice");
            }
            assert!(!runtime.variants.is_empty() && !runtime.checks.is_empty(), "{}", runtime.name);
        }
    }

    #[test]
    fn files_tell_their_language() {
        let catalogue = Catalogue::load().unwrap();
        let of = |path: &str, content: &str| {
            catalogue.by_file(Path::new(path), content.as_bytes()).map(|runtime| runtime.name.clone())
        };
        assert_eq!(of("a.py", "").as_deref(), Some("python"));
        assert_eq!(of("a", "#!/usr/bin/env -S python3 -u\n").as_deref(), Some("python"));
        assert_eq!(of("a", "#!/bin/sh\n").as_deref(), Some("sh"));
        assert_eq!(of("a.unknown", "text"), None);
    }
}
