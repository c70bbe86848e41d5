//! The tools there are: names, words for agents, schemas. What they do is in `call.rs`.

use super::arguments as with;
use super::languages::Language;
use super::{McpOptions, Profile, fixtures, record};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use std::sync::Arc;

/// A tool, but for what depends on the host.
struct Entry {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    group: Group,
    effect: Effect,
    input: fn() -> JsonObject,
    output: fn() -> Value,
}

/// What tools belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Execute,
    Code,
    Sandboxes,
    Languages,
}

/// What a tool does to its surroundings.
#[derive(Clone, Copy)]
enum Effect {
    /// Nothing.
    Looks,
    /// It adds something.
    Adds,
    /// It may replace or remove something; doing it twice changes nothing more.
    Replaces,
    /// It runs a program in a sandbox, which may do anything there.
    Runs,
}

impl Effect {
    fn hints(self, title: &str) -> ToolAnnotations {
        let (looks, destroys, twice) = match self {
            Effect::Looks => (true, false, true),
            Effect::Adds => (false, false, false),
            Effect::Replaces => (false, true, true),
            Effect::Runs => (false, false, false),
        };
        // A sandbox reaches nothing outside of itself.
        ToolAnnotations::with_title(title)
            .read_only(looks)
            .destructive(destroys)
            .idempotent(twice)
            .open_world(false)
    }
}

impl Profile {
    fn has(self, group: Group) -> bool {
        match self {
            Profile::All => true,
            Profile::CodeSandbox => matches!(group, Group::Execute | Group::Code),
            Profile::SandboxRunner => matches!(group, Group::Sandboxes | Group::Languages),
            Profile::Minimal => group == Group::Execute,
        }
    }
}

const ENTRIES: &[Entry] = &[
    Entry {
        name: "execute_code",
        title: "Run code",
        description: "Runs code in an isolated sandbox and returns what it wrote, its exit code, and files it made. No \
            network inside. Without `session_id` each call starts fresh; with one, files stay for the next call.",
        group: Group::Execute,
        effect: Effect::Runs,
        input: input::<with::ExecuteCode>,
        output: record::execution_schema,
    },
    Entry {
        name: "validate_code",
        title: "Check code",
        description: "Checks the syntax of code without running it. Says where the first mistake is. With `save` it keeps \
            valid code as a file of a session.",
        group: Group::Code,
        effect: Effect::Adds,
        input: input::<with::ValidateCode>,
        output: record::validation_schema,
    },
    Entry {
        name: "reset_session",
        title: "End sessions",
        description: "Ends sessions that `execute_code` has made: one by `session_id`, the one of a language, or all. Their \
            files are gone.",
        group: Group::Code,
        effect: Effect::Replaces,
        input: input::<with::ResetSession>,
        output: record::reset_schema,
    },
    Entry {
        name: "create_sandbox",
        title: "Make a sandbox",
        description: "Makes a sandbox that stays until it is terminated or idle for long. Returns its `sandbox_id` for the \
            other tools.",
        group: Group::Sandboxes,
        effect: Effect::Adds,
        input: input::<with::CreateSandbox>,
        output: record::sandbox_schema,
    },
    Entry {
        name: "list_sandboxes",
        title: "List sandboxes",
        description: "Lists your sandboxes with their states.",
        group: Group::Sandboxes,
        effect: Effect::Looks,
        input: input::<with::Nothing>,
        output: record::sandboxes_schema,
    },
    Entry {
        name: "terminate_sandbox",
        title: "End a sandbox",
        description: "Ends a sandbox with everything in it.",
        group: Group::Sandboxes,
        effect: Effect::Replaces,
        input: input::<with::SandboxId>,
        output: record::terminated_schema,
    },
    Entry {
        name: "exec_command",
        title: "Run a command",
        description: "Runs a command in a sandbox, without a shell. For pipes and variables use `bash -c '…'`.",
        group: Group::Sandboxes,
        effect: Effect::Runs,
        input: input::<with::ExecCommand>,
        output: record::command_schema,
    },
    Entry {
        name: "run_code",
        title: "Run code in a sandbox",
        description: "Runs code in a sandbox, beside its files. The language is told from the code if it is left out.",
        group: Group::Sandboxes,
        effect: Effect::Runs,
        input: input::<with::RunCode>,
        output: record::command_schema,
    },
    Entry {
        name: "upload_file",
        title: "Upload a file",
        description: "Writes a file of a sandbox. What was there before is kept as `.bak`, or replaced if that is forced.",
        group: Group::Sandboxes,
        effect: Effect::Replaces,
        input: input::<with::UploadFile>,
        output: record::file_schema,
    },
    Entry {
        name: "download_file",
        title: "Download a file",
        description: "Reads a whole file of a sandbox, as text or base64.",
        group: Group::Sandboxes,
        effect: Effect::Looks,
        input: input::<with::DownloadFile>,
        output: record::file_schema,
    },
    Entry {
        name: "list_files",
        title: "List files",
        description: "Lists files of a sandbox.",
        group: Group::Sandboxes,
        effect: Effect::Looks,
        input: input::<with::ListFiles>,
        output: record::files_schema,
    },
    Entry {
        name: "read_file",
        title: "Read a file",
        description: "Reads a file of a sandbox, up to `max_size` bytes.",
        group: Group::Sandboxes,
        effect: Effect::Looks,
        input: input::<with::ReadFile>,
        output: record::file_schema,
    },
    Entry {
        name: "write_file",
        title: "Write a file",
        description: "Writes a file of a sandbox, and replaces what was there.",
        group: Group::Sandboxes,
        effect: Effect::Replaces,
        input: input::<with::WriteFile>,
        output: record::file_schema,
    },
];

/// Tools for one language each: the name of the tool, the language, and what people call it.
pub(super) const LANGUAGES: &[(&str, &str, &str)] = &[
    ("run_python", "python", "Python"),
    ("run_javascript", "javascript", "JavaScript"),
    ("run_typescript", "typescript", "TypeScript"),
    ("run_go", "go", "Go"),
    ("run_rust", "rust", "Rust"),
    ("run_java", "java", "Java"),
    ("run_cpp", "cpp", "C++"),
    ("run_csharp", "csharp", "C#"),
    ("run_shell", "bash", "a shell script"),
];

/// The tool for any of them.
pub(super) const ANY_LANGUAGE: &str = "run_generic";

/// Those that a server with these options has on a host with these languages.
pub(super) fn all(options: &McpOptions, languages: &[Language]) -> Vec<Tool> {
    let mut tools: Vec<Tool> = Vec::new();
    let names: Vec<&str> = languages.iter().map(|language| language.name.as_str()).collect();
    for entry in ENTRIES.iter().filter(|entry| options.profile.has(entry.group)) {
        tools.push(made(entry, &names));
    }
    if options.profile.has(Group::Languages) {
        let there = |name: &str| languages.iter().any(|language| language.name == name);
        for (name, _, title) in LANGUAGES.iter().filter(|(_, language, _)| there(language)) {
            tools.push(of_language(
                name,
                &format!("Run {title}"),
                &format!("Runs {title} in a sandbox."),
                None,
            ));
        }
        let words = "Runs code in a sandbox. Its language is told from it if it is left out; code that could be anything \
            is refused.";
        tools.push(of_language(ANY_LANGUAGE, "Run any code", words, Some(&names)));
    }
    let wanted = |tool: &Tool| {
        let listed = |list: &[String]| list.iter().any(|name| *name == tool.name);
        (options.tools.is_empty() || listed(&options.tools)) && !listed(&options.disabled_tools)
    };
    tools.retain(wanted);
    if options.fixtures {
        tools.extend(fixtures::tools());
    }
    tools
}

fn made(entry: &Entry, languages: &[&str]) -> Tool {
    let mut input = (entry.input)();
    let extra: &[&str] = if entry.name == "reset_session" { &["all"] } else { &[] };
    choose(&mut input, "language", languages.iter().chain(extra));
    finished(Tool::new(entry.name, entry.description, input), entry.title, entry.effect, (entry.output)())
}

fn of_language(name: &'static str, title: &str, words: &str, languages: Option<&[&str]>) -> Tool {
    let mut schema = input::<with::RunLanguage>();
    match languages {
        Some(languages) => choose(&mut schema, "language", languages.iter()),
        None => {
            if let Some(Value::Object(properties)) = schema.get_mut("properties") {
                properties.remove("language");
            }
        }
    }
    finished(Tool::new(name, words.to_owned(), schema), title, Effect::Runs, record::command_schema())
}

fn finished(tool: Tool, title: &str, effect: Effect, output: Value) -> Tool {
    let output = match output {
        Value::Object(output) => Arc::new(output),
        _ => Arc::default(),
    };
    tool.with_title(title).with_raw_output_schema(output).with_annotations(effect.hints(title))
}

/// The schema of what a tool takes: an object without anything that is not in it.
fn input<T: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = match settings.into_generator().into_root_schema_for::<T>().to_value() {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    schema.remove("title");
    schema.remove("description");
    schema.entry("properties").or_insert_with(|| json!({}));
    schema.values_mut().for_each(without_null);
    schema.insert("additionalProperties".into(), false.into());
    schema
}

/// What may be left out need not be `null` as well, which many a model and client stumbles over. It is taken all the same.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(facts) => {
            let null = json!({"type": "null"});
            if facts.get("default") == Some(&Value::Null) {
                facts.remove("default");
            }
            if let Some(Value::Array(kinds)) = facts.get_mut("type") {
                kinds.retain(|kind| kind != "null");
                if let [kind] = kinds.as_slice() {
                    let kind = kind.clone();
                    facts.insert("type".into(), kind);
                }
            }
            if let Some(Value::Array(kinds)) = facts.get_mut("anyOf") {
                kinds.retain(|kind| *kind != null);
                if kinds.len() == 1
                    && let Some(Value::Object(only)) = kinds.pop()
                {
                    facts.remove("anyOf");
                    for (name, fact) in only {
                        facts.entry(name).or_insert(fact);
                    }
                }
            }
            facts.values_mut().for_each(without_null);
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(without_null),
        _ => {}
    }
}

/// Has a property be one of some words.
fn choose<'a>(schema: &mut JsonObject, property: &str, words: impl Iterator<Item = &'a &'a str>) {
    if let Some(property) = schema.get_mut("properties").and_then(|all| all.get_mut(property)) {
        let words: Vec<Value> = words.map(|word| json!(word)).collect();
        property["enum"] = words.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn languages() -> Vec<Language> {
        let of = |name: &str| Language {
            name: name.into(),
            title: name.into(),
            aliases: Vec::new(),
            mime: "text/plain".into(),
            extension: "x".into(),
            source: "main.x".into(),
        };
        vec![of("python"), of("bash"), of("lua")]
    }

    fn names(options: &McpOptions) -> Vec<String> {
        all(options, &languages()).iter().map(|tool| tool.name.to_string()).collect()
    }

    #[test]
    fn profiles_and_lists_choose_tools() {
        let of = |profile| names(&McpOptions { profile, ..McpOptions::default() });
        assert_eq!(of(Profile::Minimal), ["execute_code"]);
        assert_eq!(of(Profile::CodeSandbox), ["execute_code", "validate_code", "reset_session"]);
        let runner = of(Profile::SandboxRunner);
        assert!(runner.contains(&"run_python".into()) && runner.contains(&"create_sandbox".into()));
        assert!(!runner.contains(&"run_rust".into()) && !runner.contains(&"execute_code".into()));
        let options = McpOptions {
            tools: vec!["run_code".into(), "read_file".into()],
            disabled_tools: vec!["read_file".into()],
            ..McpOptions::default()
        };
        assert_eq!(names(&options), ["run_code"]);
    }

    #[test]
    fn inputs_are_closed_and_say_which_languages_there_are() {
        for tool in all(&McpOptions::default(), &languages()) {
            let schema = tool.schema_as_json_value();
            assert_eq!(schema["type"], "object", "{}", tool.name);
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            assert!(!schema.to_string().contains("null"), "{}: {schema}", tool.name);
            assert!(tool.annotations.is_some() && tool.output_schema.is_some(), "{}", tool.name);
        }
        let tools = all(&McpOptions::default(), &languages());
        let schema = tools[0].schema_as_json_value();
        assert_eq!(schema["required"], json!(["language", "code"]));
        assert_eq!(schema["properties"]["language"]["enum"], json!(["python", "bash", "lua"]));
    }
}
