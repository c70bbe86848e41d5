//! `execute_code`, `validate_code` and `reset_session`: code with as little around it as possible.

use super::arguments::{ExecuteCode, ResetSession, RunMode, ValidateCode, program_files};
use super::languages::Language;
use super::running::Asked;
use super::{Connection, blocks, record};
use crate::{Problem, Scope};
use engine::control::{
    ControlError, Install, InstallStatus, Mode, NewSession, Package, Program, SessionSpec,
};
use engine::limits::Wanted;
use rmcp::model::CallToolResult;
use serde_json::{Map, Value, json};

/// What sessions are made from that code asks for.
const TEMPLATE: &str = "multi-language";
/// How sessions are told from others that `execute_code` has made.
const MADE_BY: (&str, &str) = ("mcp.made_by", "execute_code");

impl Connection {
    pub(super) async fn execute_code(
        &self,
        asked: &Asked,
        wanted: ExecuteCode,
    ) -> Result<CallToolResult, Problem> {
        let language = self.language(&wanted.language)?;
        if wanted.code.is_empty() {
            return Err(Problem::invalid_field("code", "is empty"));
        }
        let filename = wanted.filename.as_deref().map(|name| with_ending(name, language));
        let session = wanted.session_id.as_deref();
        let keep = kept_as(wanted.save, session, filename.as_deref())?;
        if let Some(id) = session {
            if wanted.reset_session {
                self.end_session(asked, id).await?;
            }
            self.session_of(asked, id).await?;
        } else if wanted.reset_session {
            return Err(Problem::invalid_field("reset_session", "there is no session to reset")
                .hint("give `session_id` as well; without one every call starts fresh"));
        }
        self.install(asked, session, wanted.packages).await?;
        let mode = wanted.mode.unwrap_or(match wanted.event {
            Some(_) => RunMode::Handler,
            None => RunMode::Script,
        });
        let program = Program {
            language: language.name.clone(),
            code: wanted.code.clone(),
            mode: mode.into(),
            event: wanted.event,
            filename: filename.clone(),
            files: program_files(wanted.files)?,
            stdin: wanted.stdin,
            limits: Wanted { timeout_ms: milliseconds(wanted.timeout)?, ..Wanted::default() },
            contents: true,
            ..Program::default()
        };
        let ran = self.run(asked, session, program).await?;
        let facts = record::execution(&ran.done, session);
        let mut notes: Vec<String> = filename.iter().map(|name| format!("File: {name}")).collect();
        if let Some((session, name)) = keep {
            self.write(asked, session, name, wanted.code.as_bytes(), 0o644).await?;
            notes.push(format!("Saved: /workspace/{name}"));
        }
        if let Some(session) = session {
            self.tell_of_changes(asked, session, &facts).await;
        }
        let mut content = vec![blocks::source(&wanted.code, language)];
        content.extend(blocks::output(self.mcp.0.options.content_style, &ran, &facts, &notes));
        let end = content.len() - 1;
        content.splice(end..end, blocks::artifacts(&ran, session));
        Ok(result(content, facts))
    }

    pub(super) async fn validate_code(
        &self,
        asked: &Asked,
        wanted: ValidateCode,
    ) -> Result<CallToolResult, Problem> {
        let language = self.language(&wanted.language)?;
        if wanted.code.is_empty() {
            return Err(Problem::invalid_field("code", "is empty"));
        }
        let filename = wanted.filename.as_deref().map(|name| with_ending(name, language));
        let keep = kept_as(wanted.save, wanted.session_id.as_deref(), filename.as_deref())?;
        let program = Program {
            language: language.name.clone(),
            code: wanted.code.clone(),
            mode: Mode::Check,
            filename: filename.clone(),
            ..Program::default()
        };
        let ran = self.run(asked, None, program).await?;
        let checked = record::execution(&ran.done, None);
        if checked["status"] != "success" {
            return Ok(invalid(&checked, &wanted.code, language));
        }
        let mut saved = None;
        if let Some((session, name)) = keep {
            self.session_of(asked, session).await?;
            self.write(asked, session, name, wanted.code.as_bytes(), 0o644).await?;
            saved = Some(format!("/workspace/{name}"));
        }
        let named = filename.map(|name| format!(" for {name}")).unwrap_or_default();
        let kept = saved.as_ref().map(|path| format!(" (saved to {path})")).unwrap_or_default();
        let words = format!("Syntax validation successful{named}{kept}");
        let content =
            vec![blocks::text(&words, json!({"status": "valid"})), blocks::source(&wanted.code, language)];
        Ok(result(content, validation(true, &language.name, words, (None, None), saved)))
    }

    pub(super) async fn reset_session(
        &self,
        asked: &Asked,
        wanted: ResetSession,
    ) -> Result<CallToolResult, Problem> {
        asked.caller.require(Scope::Run)?;
        let (sessions, words) = match (&wanted.session_id, wanted.language.as_deref()) {
            (Some(_), Some(_)) => {
                return Err(Problem::invalid_field("session_id", "goes without `language`"));
            }
            (Some(id), None) => (vec![id.clone()], format!("Session {id} has been reset.")),
            (None, None | Some("all")) => {
                let made = |view: &engine::control::SessionView| {
                    view.spec.metadata.get(MADE_BY.0).is_some_and(|by| by == MADE_BY.1)
                };
                let all = self.mcp.plane().standing(&asked.of_engine());
                let ids = all.into_iter().filter(made).map(|view| view.session.id).collect();
                (ids, "All language sessions have been reset.".to_owned())
            }
            (None, Some(name)) => {
                let language = self.language(name)?;
                (
                    vec![format!("default-{}", language.name)],
                    format!("{} session has been reset.", language.title),
                )
            }
        };
        let mut ended = Vec::new();
        for id in sessions {
            if self.end_session(asked, &id).await? {
                ended.push(id);
            }
        }
        let mut facts = Map::new();
        facts.insert("sessions".into(), json!(ended));
        Ok(blocks::plain(words, facts))
    }

    /// A language by a name that it has on this host.
    pub(super) fn language(&self, name: &str) -> Result<&Language, Problem> {
        let found = self.mcp.0.languages.iter().find(|language| language.is(name));
        found.ok_or_else(|| {
            let names: Vec<&str> =
                self.mcp.0.languages.iter().map(|language| language.name.as_str()).collect();
            Problem::invalid_field("language", format!("Unsupported language: {name}"))
                .hint(format!("one of {}", names.join(", ")))
        })
    }

    /// The session with this id, made if there is none.
    async fn session_of(&self, asked: &Asked, id: &str) -> Result<(), Problem> {
        asked.caller.require(Scope::Run)?;
        let new = || NewSession {
            template: Some(TEMPLATE.into()),
            spec: SessionSpec {
                metadata: [(MADE_BY.0.to_owned(), MADE_BY.1.to_owned())].into(),
                ..SessionSpec::default()
            },
            ..NewSession::default()
        };
        self.mcp.plane().session_or_new(&asked.of_engine(), id, new).await?;
        Ok(())
    }

    /// Ends a session. Whether there was one.
    async fn end_session(&self, asked: &Asked, id: &str) -> Result<bool, Problem> {
        asked.caller.require(Scope::Run)?;
        match self.mcp.plane().purge_session(&asked.of_engine(), id).await {
            Ok(()) => Ok(true),
            Err(ControlError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Installs Python packages into a session.
    pub(super) async fn install(
        &self,
        asked: &Asked,
        session: Option<&str>,
        packages: Vec<String>,
    ) -> Result<(), Problem> {
        if packages.is_empty() {
            return Ok(());
        }
        asked.caller.require(Scope::Run)?;
        let Some(session) = session else {
            return Err(Problem::invalid_field("packages", "there is no sandbox to install them into")
                .hint("give the id of a session or sandbox as well"));
        };
        let packages = packages.iter().map(|text| package(text)).collect();
        let install = Install { packages, required: true, ..Install::default() };
        let view = self.mcp.plane().install(&asked.of_engine(), session, install).await?;
        match view.spec.dependencies.map(|there| (there.status, there.error)) {
            Some((InstallStatus::Failed, why)) => Err(Problem::invalid_field(
                "packages",
                why.unwrap_or_else(|| "could not be installed".into()),
            )),
            _ => Ok(()),
        }
    }
}

/// A package as people write it: a name, and behind it which versions will do.
fn package(text: &str) -> Package {
    let at = text.find(['=', '<', '>', '!', '~']).unwrap_or(text.len());
    let (name, version) = text.split_at(at);
    Package {
        name: name.trim().to_owned(),
        version: (!version.is_empty()).then(|| version.trim().to_owned()),
    }
}

/// A result of blocks and an object.
fn result(content: Vec<rmcp::model::ContentBlock>, facts: Map<String, Value>) -> CallToolResult {
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(Value::Object(facts));
    result
}

/// Where code shall be kept, if it shall.
fn kept_as<'a>(
    save: bool,
    session: Option<&'a str>,
    filename: Option<&'a str>,
) -> Result<Option<(&'a str, &'a str)>, Problem> {
    match (save, session, filename) {
        (false, _, _) => Ok(None),
        (true, Some(session), Some(name)) => Ok(Some((session, name))),
        (true, None, _) => {
            Err(Problem::invalid_field("save", "there is no session to keep it in").hint("give `session_id`"))
        }
        (true, _, None) => {
            Err(Problem::invalid_field("save", "it has no name to keep it by").hint("give `filename`"))
        }
    }
}

/// A name of a file with the ending of its language, unless it has one.
fn with_ending(name: &str, language: &Language) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.contains('.') || language.extension.is_empty() {
        true => name.to_owned(),
        false => format!("{name}.{}", language.extension.trim_start_matches('.')),
    }
}

/// Seconds as the engine counts.
fn milliseconds(seconds: Option<f64>) -> Result<Option<u64>, Problem> {
    let Some(seconds) = seconds else { return Ok(None) };
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err(Problem::invalid_field("timeout", "is no number of seconds that a program can take")
            .hint("from 0.1 to 3600"));
    }
    Ok(Some((seconds * 1000.0) as u64))
}

fn validation(
    valid: bool,
    language: &str,
    message: String,
    (line, column): (Option<u64>, Option<u64>),
    saved: Option<String>,
) -> Map<String, Value> {
    let facts = json!({
        "valid": valid,
        "language": language,
        "message": message,
        "line": line,
        "column": column,
        "saved": saved,
    });
    match facts {
        Value::Object(facts) => facts,
        _ => Map::new(),
    }
}

/// What a checker found.
fn invalid(checked: &Map<String, Value>, code: &str, language: &Language) -> CallToolResult {
    let said = |field: &str| checked[field].as_str().unwrap_or_default().trim().to_owned();
    let why = match (said("stderr"), said("stdout")) {
        (stderr, stdout) if stderr.is_empty() => stdout,
        (stderr, _) => stderr,
    };
    let why = match why.is_empty() {
        true => checked["error"]["message"].as_str().unwrap_or("the checker said nothing").to_owned(),
        false => why,
    };
    let place = place_of(&why, &language.source);
    let mut words = format!("Syntax validation failed\nDetails: {why}");
    if language.name == "javascript" && code.lines().any(|line| line.trim_start().starts_with("# ")) {
        words += "\nHint: comments begin with `//` in JavaScript";
    }
    let mut about = json!({"status": "invalid"});
    for (name, number) in [("line", place.0), ("column", place.1)] {
        if let Some(number) = number {
            about[name] = number.into();
        }
    }
    let mut result = CallToolResult::error(vec![blocks::text(&words, about)]);
    result.structured_content = Some(Value::Object(validation(false, &language.name, words, place, None)));
    result
}

/// Line and column that a checker names: `name:3:5`, `name:3`, or `line 3`.
fn place_of(words: &str, source: &str) -> (Option<u64>, Option<u64>) {
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok().map(|number| (number, digits.len()))
    };
    let ending = source.rsplit('.').next().unwrap_or(source);
    for (at, _) in words.match_indices(&format!(".{ending}:")) {
        let rest = &words[at + ending.len() + 2..];
        if let Some((line, length)) = number(rest) {
            let column = rest[length..].strip_prefix(':').and_then(number).map(|(column, _)| column);
            return (Some(line), column);
        }
    }
    // A traceback leads from the checker to what it was checking.
    let words = words.rfind("File \"").map_or(words, |at| &words[at..]);
    let after = |word: &str| words.match_indices(word).find_map(|(at, _)| number(&words[at + word.len()..]));
    (after("line ").map(|(line, _)| line), after("column ").map(|(column, _)| column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkers_say_where_in_different_ways() {
        for (words, source, place) in [
            ("  File \"main.py\", line 3\n    x =", "main.py", (Some(3), None)),
            (
                "  File \"<string>\", line 1, in <module>\n  File \"main.py\", line 2\n    x =",
                "main.py",
                (Some(2), None),
            ),
            ("main.c:7:12: error: expected", "main.c", (Some(7), Some(12))),
            ("/workspace/main.js:2\nfoo(", "main.js", (Some(2), None)),
            ("bash: main.sh: line 4: syntax error", "main.sh", (Some(4), None)),
            ("something is wrong", "main.py", (None, None)),
        ] {
            assert_eq!(place_of(words, source), place, "{words}");
        }
    }

    #[test]
    fn seconds_have_bounds() {
        assert_eq!(milliseconds(Some(1.5)).unwrap(), Some(1500));
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(milliseconds(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
