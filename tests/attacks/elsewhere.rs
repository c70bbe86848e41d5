//! Cases that other tests of this project prove. They are named, and those tests have to exist; they are not run here.

use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Elsewhere {
    pub(crate) id: String,
    pub(crate) severity: String,
    pub(crate) tries: String,
    pub(crate) must: String,
    /// Each a file of the repository and a function in it: `tests/rest.rs::name`.
    pub(crate) proven_by: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    case: Vec<Elsewhere>,
}

impl Elsewhere {
    /// All of them, if what they name is there.
    pub(crate) fn load(path: &Path, repository: &Path) -> Result<Vec<Elsewhere>, String> {
        let at = |e: String| format!("{}: {e}", path.display());
        let text = std::fs::read_to_string(path).map_err(|e| at(e.to_string()))?;
        let page: Page = toml::from_str(&text).map_err(|e| at(e.message().to_owned()))?;
        for case in &page.case {
            if case.proven_by.is_empty() {
                return Err(at(format!("case {} is proven by nobody", case.id)));
            }
            for test in &case.proven_by {
                exists(test, repository).map_err(|why| at(format!("case {}: {why}", case.id)))?;
            }
        }
        Ok(page.case)
    }
}

fn exists(test: &str, repository: &Path) -> Result<(), String> {
    let (file, name) = test.split_once("::").ok_or_else(|| format!("`{test}` is no file and test"))?;
    let text = std::fs::read_to_string(repository.join(file)).map_err(|e| format!("{file}: {e}"))?;
    let named = format!("fn {name}(");
    match text.lines().any(|line| line.trim_start().trim_start_matches("async ").starts_with(&named)) {
        true => Ok(()),
        false => Err(format!("there is no test `{name}` in {file}")),
    }
}
