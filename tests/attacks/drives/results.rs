//! Whether what comes out of a run is what went on in it, and nothing of it can do harm.

use super::Drive;
use crate::stage::Stage;
use crate::support::in_parallel;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path};
use std::sync::Mutex;

pub(super) const DRIVES: &[(&str, Drive)] = &[
    ("files_come_out_tame", files_come_out_tame),
    ("one_record_for_each_of_many", one_record_for_each_of_many),
    ("words_arrive_exactly", words_arrive_exactly),
];

/// Most files that are listed.
const MOST_FILES: usize = 1000;
/// Most bytes of them together: the storage of a run, unless it asks for another.
const MOST_BYTES: u64 = 256 << 20;
/// Runs that leave more than that.
const TOO_MUCH: [(&str, u64); 2] = [("many", MOST_BYTES), ("large", 32 << 20)];

/// What is listed is what is saved: regular files below the directory, with the content that the record names.
fn files_come_out_tame(stage: &Stage) -> Result<(), String> {
    let seen = stage.execute();
    stage.judge(&seen)?;
    let record = seen.record.as_ref().ok_or("no record")?;
    let listed = record["artifacts"].as_array().ok_or("no list")?;
    let mut wrong = Vec::new();
    let mut names = BTreeSet::new();
    for file in listed {
        let path = file["path"].as_str().unwrap_or_default();
        let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || path.is_empty() || path.contains('\0') || !names.insert(path.to_owned()) {
            wrong.push(format!("a path that is none: {path:?}"));
            continue;
        }
        // Links, fifos and sockets are called like this.
        if path.starts_with("special-") {
            wrong.push(format!("no file of its own: {path:?}"));
        }
        wrong.extend(tame(&stage.folder().join(path), file).err());
    }
    let saved = crate::traces::below(stage.folder(), &|_| true);
    let strange = saved.iter().filter(|path| {
        let name = path.strip_prefix(stage.folder()).unwrap_or(path).to_string_lossy().into_owned();
        !path.is_dir() && !names.contains(&name)
    });
    wrong.extend(strange.map(|path| format!("saved, but not listed: {}", path.display())));
    let bytes: u64 = listed.iter().filter_map(|file| file["size"].as_u64()).sum();
    let too_much = TOO_MUCH.iter().find(|(name, _)| *name == stage.run.name);
    let most = too_much.map_or(MOST_BYTES, |(_, bytes)| *bytes);
    if listed.is_empty() || listed.len() > MOST_FILES || bytes > most {
        wrong.push(format!("{} files of {bytes} bytes", listed.len()));
    }
    if too_much.is_some() && record["artifacts_truncated"] != true {
        wrong.push("there is more, and that is not told".into());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn tame(path: &Path, file: &Value) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let meta = std::fs::symlink_metadata(path).map_err(failed)?;
    let content = if meta.is_file() { std::fs::read(path).map_err(failed)? } else { Vec::new() };
    let hash: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
    let special = meta.permissions().mode() & 0o7000;
    let mime = file["mime"].as_str().unwrap_or_default();
    let wrong = if !meta.is_file() || meta.nlink() != 1 {
        "is no file of its own".to_owned()
    } else if special != 0 {
        format!("has special bits {special:o}")
    } else if file["size"].as_u64() != Some(content.len() as u64) || file["sha256"] != hash {
        "is not what the record says".to_owned()
    } else if !mime.contains('/') || mime.contains(|c: char| c.is_control() || c.is_whitespace()) {
        format!("has type {mime:?}")
    } else {
        return Ok(());
    };
    Err(format!("{} {wrong}", path.display()))
}

/// Each of many at once gets one record, its own, under a name that no other has.
fn one_record_for_each_of_many(stage: &Stage) -> Result<(), String> {
    const MANY: usize = 20;
    let (ids, outs) = (Mutex::new(BTreeSet::new()), Mutex::new(Vec::new()));
    let person = stage.person.clone();
    let numbers: Vec<usize> = (0..MANY).collect();
    let mut wrong = in_parallel(&numbers, |number| {
        let code = format!(
            "import sys\nprint('{{\"execution_id\":\"exec_{:032}\",\"status\":\"success\"}}')\nprint('word {number}')\nsys.exit({number})",
            0
        );
        let record = person.run("python", &code).json();
        let status = if *number == 0 { "success" } else { "failed" };
        record.is(status).exits(*number as i32);
        record.must(record.stdout().ends_with(&format!("word {number}\n")), "its own word");
        let id = record["execution_id"].as_str().unwrap_or_default().to_owned();
        outs.lock().unwrap().push(record.out.stdout.clone());
        if ids.lock().unwrap().insert(id.clone()) { Ok(()) } else { Err(format!("{id} twice")) }
    });
    outs.into_inner().unwrap().iter().for_each(|out| stage.show(out));
    let ids = ids.into_inner().unwrap();
    if ids.len() != MANY || ids.contains(&format!("exec_{:032}", 0)) {
        wrong.push(format!("{} names for {MANY} runs", ids.len()));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

const ODD: [&str; 22] = [
    "",
    " ",
    "a b",
    "-c",
    "--",
    "--json",
    "--help",
    "*",
    "~",
    "$HOME",
    "`id`",
    "$(id)",
    ";id;",
    "|id",
    "&&id",
    "'\"",
    "\\",
    "a\nb",
    "\t",
    "{source}",
    "%s%n",
    "é\u{202e}✓",
];
/// Names of programs: with an ending that tells the language, and a program that says `ran`.
const ENDINGS: [(&str, &str); 5] = [
    ("py", "print('ran')"),
    ("sh", "echo ran"),
    ("js", "console.log('ran')"),
    ("pl", "print \"ran\\n\""),
    ("c", "#include <stdio.h>\nint main(void) { puts(\"ran\"); }"),
];
const NAMES: [&str; 9] = ["-c", "--version", "-", ";id;", "$(id)", "a b", "'\"", "@x", "-o"];

/// Arguments, variables, names of files and of programs come as they were sent; a language that is none is refused.
fn words_arrive_exactly(stage: &Stage) -> Result<(), String> {
    let mut wrong = Vec::new();
    let names: Vec<&str> =
        ODD.into_iter().filter(|name| !name.trim().is_empty() && !name.contains('~')).collect();
    let mut run = stage.command();
    for (number, word) in ODD.iter().enumerate() {
        run = run.arg("--env", format!("WORD{number}={word}"));
    }
    let folder = stage.folder().join("files");
    std::fs::create_dir(&folder).map_err(|e| e.to_string())?;
    for name in &names {
        stage.person.write(&folder.join(name), "");
    }
    let seen = stage.notice(&run.arg("--file", format!("files={}", folder.display())).words(ODD).out());
    let said: Value = serde_json::from_slice(&seen.stdout).unwrap_or_default();
    if said["args"] != Value::from(ODD.to_vec()) {
        wrong.push(format!("arguments {}", said["args"]));
    }
    for (number, word) in ODD.iter().enumerate() {
        if said["words"][format!("WORD{number}")] != *word {
            wrong.push(format!("variable {}, not {word:?}", said["words"][format!("WORD{number}")]));
        }
    }
    wrong.extend(programs_with_odd_names(stage));
    for language in ["../../etc/passwd", "python;id", "-c", "$(id)", "/bin/sh", "py\nthon", "", "%2e%2e"] {
        let out = stage.person.run(language, "print('ran')").out();
        if out.code != 2 || out.text().contains("ran") {
            wrong.push(format!("language {language:?}: {}{}", out.text(), out.complaint()));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// No name of a program becomes an option or a command.
fn programs_with_odd_names(stage: &Stage) -> Vec<String> {
    let person = stage.person.clone();
    let all: Vec<(String, &str)> = ENDINGS
        .iter()
        .flat_map(|(ending, code)| NAMES.map(|name| (format!("{name}.{ending}"), *code)))
        .collect();
    let folder = stage.folder();
    in_parallel(&all, |(name, code)| {
        let path = person.write(&folder.join(name), code);
        let out = person.run_file(&path).flag("--quiet").out();
        match out.code {
            0 if out.text() == "ran\n" => Ok(()),
            code => Err(format!("program {name:?}: exit code {code}: {}{}", out.text(), out.complaint())),
        }
    })
}
