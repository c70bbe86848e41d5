//! `sandboxd config`: a file of settings to begin with, what is wrong with one, and what counts in the end.

use crate::args::{ConfigCommand, ConfigFormat};
use crate::{MISUSE, report, show};
use anyhow::Result;
use serde::Serialize;
use server::settings::{self, Format, Loaded, Origin, Problems, Setting, Sources, Value};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn run(command: ConfigCommand) -> Result<ExitCode> {
    match command {
        ConfigCommand::Generate { output, format, force } => generate(output.as_deref(), format, force),
        ConfigCommand::Validate { file, set } => validate(file, set),
        ConfigCommand::Show { config, set, all, json } => print(config, set, all, json),
    }
}

fn generate(output: Option<&Path>, format: Option<ConfigFormat>, force: bool) -> Result<ExitCode> {
    let is_toml = output.is_some_and(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let page = match format {
        Some(ConfigFormat::Markdown) => settings::reference(),
        Some(ConfigFormat::Toml) => settings::generate(Format::Toml),
        Some(ConfigFormat::Yaml) => settings::generate(Format::Yaml),
        None if is_toml => settings::generate(Format::Toml),
        None => settings::generate(Format::Yaml),
    };
    let Some(path) = output else {
        show::print(page.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut options = OpenOptions::new();
    // A file that a group can write is one that the server refuses.
    options.write(true).mode(0o644);
    let opened = match force {
        true => options.create(true).truncate(true).open(path),
        false => options.create_new(true).open(path),
    };
    match opened.and_then(|mut file| file.write_all(page.as_bytes())) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            let hint = (error.kind() == ErrorKind::AlreadyExists).then_some("`--force` overwrites it");
            report::complain(&format!("`{}` cannot be written: {error}", path.display()), hint);
            Ok(ExitCode::from(MISUSE))
        }
    }
}

fn validate(file: Option<PathBuf>, set: Vec<(String, String)>) -> Result<ExitCode> {
    let loaded = match load(file, set) {
        Ok(loaded) => loaded,
        Err(problems) => return Ok(refuse(&problems)),
    };
    loaded.notes.iter().for_each(|note| report::note(note));
    show::print(&match &loaded.file {
        Some(path) => format!("`{}` is fine", path.display()),
        None => "there is no file, and what else is set is fine".into(),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    file: Option<&'a Path>,
    settings: Vec<Row<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Row<'a> {
    key: &'a str,
    value: serde_json::Value,
    origin: String,
}

fn print(file: Option<PathBuf>, set: Vec<(String, String)>, all: bool, json: bool) -> Result<ExitCode> {
    let loaded = match load(file, set) {
        Ok(loaded) => loaded,
        Err(problems) => return Ok(refuse(&problems)),
    };
    let wanted: Vec<&Setting> =
        loaded.all.iter().filter(|setting| all || setting.origin != Origin::Default).collect();
    if json {
        let row = |setting: &&Setting| Row {
            key: setting.key.path,
            value: value(setting),
            origin: setting.origin.to_string(),
        };
        let settings = wanted.iter().map(row).collect();
        show::print_json(&Report { file: loaded.file.as_deref(), settings, notes: &loaded.notes })?;
        return Ok(ExitCode::SUCCESS);
    }
    loaded.notes.iter().for_each(|note| report::note(note));
    if !wanted.is_empty() {
        let mut table = show::table(&["SETTING", "VALUE", "FROM"]);
        for setting in &wanted {
            let shown = report::one_line(&setting.key.shown(&setting.value));
            table.add_row([setting.key.path.into(), shown, setting.origin.to_string()]);
        }
        show::print(&table.to_string())?;
    }
    if wanted.len() < loaded.all.len() {
        let rest = loaded.all.len() - wanted.len();
        report::note(&format!("{rest} settings have their defaults; `--all` shows them"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The value for a program: as it would be written in a file, with nothing of a secret.
fn value(setting: &Setting) -> serde_json::Value {
    match &setting.value {
        Value::Nothing => serde_json::Value::Null,
        Value::Flag(yes) => (*yes).into(),
        Value::Whole(number) => (*number).into(),
        Value::Decimal(number) => (*number).into(),
        Value::List(words) => words.clone().into(),
        Value::Map(pairs) => serde_json::json!(pairs),
        value => setting.key.shown(value).into(),
    }
}

pub(crate) fn load(file: Option<PathBuf>, flags: Vec<(String, String)>) -> Result<Loaded, Problems> {
    settings::load(&Sources { file, flags, ..Sources::here() })
}

/// Everything that is wrong.
pub(crate) fn refuse(problems: &Problems) -> ExitCode {
    for problem in &problems.0 {
        report::complain(&problem.to_string(), problem.hint.as_deref());
    }
    ExitCode::from(MISUSE)
}
