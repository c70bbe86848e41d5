//! A run as the body of a request, where REST has words for it.

use crate::case::Run;
use crate::world::Place;
use serde_json::{Map, Value, json};

/// Options of the command whose value is text in a request, too.
const TEXTS: [&str; 6] = ["timeout", "cpu-time", "memory", "cpus", "disk", "output"];
const NUMBERS: [&str; 2] = ["pids", "inodes"];

/// Why a run cannot be asked for by REST, if it cannot.
pub(crate) fn refusal(run: &Run) -> Option<String> {
    match &run.drive {
        Some(_) => Some("it drives the command, not only a program".into()),
        None => limits(run).err(),
    }
}

/// The body.
pub(crate) fn body(run: &Run, place: &Place) -> Result<Value, String> {
    let text = |file: &String| {
        let path = place.world.path("programs").join(file);
        std::fs::read_to_string(path).map_err(|e| format!("{file}: {e}"))
    };
    let code = match (&run.program, &run.code) {
        (Some(file), _) => text(file)?,
        (None, code) => code.clone().unwrap_or_default(),
    };
    let mut files = Map::new();
    for file in run.beside() {
        files.insert(file.clone(), text(&file)?.into());
    }
    let env: Map<String, Value> =
        place.variables().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let mut body = json!({
        "language": run.language, "code": code, "files": files, "args": run.args, "env": env, "limits": limits(run)?,
    });
    if let Some(input) = &run.stdin {
        body["stdin"] = input.as_str().into();
    }
    if let Some(name) = &run.program {
        body["filename"] = name.as_str().into();
    }
    Ok(body)
}

/// Options as limits.
fn limits(run: &Run) -> Result<Map<String, Value>, String> {
    let mut limits = Map::new();
    let mut words = run.options.iter();
    while let Some(word) = words.next() {
        let name = word.trim_start_matches("--").split('=').next().unwrap_or_default();
        let value = match word.split_once('=') {
            Some((_, value)) => value,
            None if TEXTS.contains(&name) || NUMBERS.contains(&name) => {
                words.next().map_or("", String::as_str)
            }
            None => return Err(format!("REST has no `--{name}`")),
        };
        let value = match (TEXTS.contains(&name), value.parse::<u64>()) {
            (true, _) => Value::from(value),
            (false, Ok(number)) if NUMBERS.contains(&name) => number.into(),
            _ => return Err(format!("REST has no `{word}`")),
        };
        limits.insert(name.replace('-', "_"), value);
    }
    Ok(limits)
}
