//! `sandboxd config`: a file to begin with, everything that is wrong at once, and where each value came from.
#![cfg(test)]

mod support;

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use support::{Out, Sandboxd};

fn show(out: &Out) -> Value {
    let report = serde_json::from_slice(&out.exits(0).stdout).ok();
    out.must(report.is_some(), "JSON");
    report.unwrap()
}

/// The row of a setting.
fn row<'a>(report: &'a Value, key: &str) -> &'a Value {
    let rows = report["settings"].as_array().unwrap();
    rows.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("no `{key}` in {report}"))
}

#[test]
fn a_generated_file_is_fine_and_changes_nothing() {
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        for name in ["sandboxd.yaml", "sandboxd.toml"] {
            let path = folder.path().join(name);
            who.command(["config", "generate", "-o"]).flag(&path).out().exits(0).says("").is_quiet();
            let checked = who.command(["config", "validate"]).flag(&path).out();
            checked.exits(0).is_quiet().must(checked.text().contains(name), "the name of the file");
            let out = who.command(["config", "show", "--json", "--config"]).flag(&path).out();
            let report = show(&out);
            out.is_quiet().must(report["settings"].as_array().unwrap().is_empty(), "nothing that is set");
            out.must(report["file"] == path.display().to_string(), "the file it read");
        }
    }
}

#[test]
fn a_file_that_is_there_is_kept_unless_forced() {
    let who = Sandboxd::plain();
    let folder = who.folder();
    let path = who.write(&folder.path().join("mine.yaml"), "mine");
    let again = who.command(["config", "generate", "-o"]).flag(&path).out();
    again.exits(2).complains_of("mine.yaml").must(again.complaint().contains("--force"), "the way out");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    who.command(["config", "generate", "--force", "-o"]).flag(&path).out().exits(0).is_quiet();
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.contains("server:") && page.contains("#port: 8000"), "{page}");
    let printed = who.command(["config", "generate"]).out();
    printed.exits(0).is_quiet().must(printed.text() == page, "the same page");
    let toml = who.command(["config", "generate", "--format", "toml"]).out();
    toml.exits(0).must(toml.text().contains("[server]") && toml.text().contains("#port = 8000"), "TOML");
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let who = Sandboxd::plain();
    let folder = who.folder();
    let text = "server:\n  prot: 9000\n  port: 99999\nlimits:\n  timeout: soon\npool:\n  min: 9\n  max: 3\n";
    let path = who.write(&folder.path().join("wrong.yaml"), text);
    let run = who.command(["config", "validate", "--set", "log.level=loud"]).flag(&path);
    let out = run.env("SANDBOXD_SERVER_HSOT", "x").out();
    out.exits(2).never_panics().must(out.stdout.is_empty(), "nothing on stdout");
    for words in [
        "wrong.yaml:2",
        "did you mean `server.port`?",
        "wrong.yaml:3): `99999` is out of range",
        "a whole number from 0 to 65535",
        "wrong.yaml:5): `soon`",
        "wrong.yaml:7): 9 is more than `pool.max`",
        "`log.level` (command line)",
        "did you mean `SANDBOXD_SERVER_HOST`?",
    ] {
        out.must(out.complaint().contains(words), words);
    }
    let errors = out.complaint().lines().filter(|line| line.starts_with("error: ")).count();
    out.must(errors == 6, "one line for each of six");
    who.command(["config", "show", "--config"]).flag(&path).out().exits(2);
}

#[test]
fn show_says_where_each_value_came_from() {
    let who = Sandboxd::plain();
    let folder = who.folder();
    let text = "[server]\nport = 1000\nmax_body = \"1M\"\n[limits]\ntimeout = \"10s\"\n";
    let path = who.write(&folder.path().join("s.toml"), text);
    let run = who.command(["config", "show", "--all", "--json", "--set", "server.port=3000", "--config"]);
    let run = run.flag(&path).env("SANDBOXD_SERVER_PORT", "2000").env("SANDBOXD_LIMITS_TIMEOUT", "20s");
    let out = run.env("SANDBOX_MEMORY_LIMIT", "131072").env("SANDBOXD_SERVER_TOKEN", "hunter2").out();
    let report = show(&out);
    for (key, value, origin) in [
        ("server.port", Value::from(3000), "command line".to_owned()),
        ("server.max_body", "1M".into(), format!("{}:3", path.display())),
        ("limits.timeout", "20s".into(), "$SANDBOXD_LIMITS_TIMEOUT".into()),
        ("limits.memory", "128M".into(), "$SANDBOX_MEMORY_LIMIT".into()),
        ("server.token", "***".into(), "$SANDBOXD_SERVER_TOKEN".into()),
        ("server.host", "127.0.0.1".into(), "default".into()),
        ("server.unix_socket", Value::Null, "default".into()),
    ] {
        let row = row(&report, key);
        out.must(row["value"] == value && row["origin"] == *origin, key);
    }
    out.must(!out.text().contains("hunter2"), "no secret");
    let notes = report["notes"].to_string();
    out.must(notes.contains("SANDBOX_MEMORY_LIMIT") && notes.contains("SANDBOXD_LIMITS_MEMORY"), "a note");

    let people = who.command(["config", "show"]).env("SANDBOXD_SERVER_TOKEN", "hunter2").out();
    people.exits(0).must(people.text().contains("server.token") && people.text().contains("***"), "a table");
    people.must(!people.text().contains("hunter2") && people.complaint().contains("--all"), "no secret");
    let all = who.command(["config", "show", "--all"]).out();
    all.exits(0).is_quiet().must(all.text().contains("isolation.network"), "defaults");
}

#[test]
fn a_file_that_others_can_write_is_refused() {
    let who = Sandboxd::plain();
    let folder = who.folder();
    let path = who.write(&folder.path().join("s.yaml"), "server:\n  port: 1\n");
    for (mode, code) in [(0o644, 0), (0o600, 0), (0o664, 2), (0o646, 2)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let out = who.command(["config", "validate"]).flag(&path).out();
        out.exits(code);
        if code == 2 {
            out.complains_of("others can write it")
                .must(out.complaint().contains("chmod go-w"), "the way out");
        }
    }
}

#[test]
fn a_file_of_somebody_else_counts_only_when_it_is_named() {
    let Some(root) = Sandboxd::root() else { return };
    let home = root.folder();
    let root = root.living_in(home.path());
    let folder = home.path().join(".config/sandboxd");
    std::fs::create_dir_all(&folder).unwrap();
    let path = Sandboxd::plain().write(&folder.join("sandboxd.yaml"), "server: {port: 1}\n");
    let out = root.command(["config", "show"]).out();
    out.exits(2)
        .complains_of("belongs to somebody else")
        .must(out.complaint().contains("--config"), "the way out");
    root.command(["config", "show", "--config"]).flag(&path).out().exits(0);
}

#[test]
fn files_are_found_in_their_order() {
    let who = Sandboxd::plain();
    let home = who.folder();
    let who = who.living_in(home.path());
    let folder = home.path().join(".config/sandboxd");
    std::fs::create_dir_all(&folder).unwrap();
    let port = |who: &Sandboxd| {
        let report = show(&who.command(["config", "show", "--all", "--json"]).out());
        row(&report, "server.port")["value"].as_u64().unwrap()
    };
    assert_eq!(port(&who), 8000);
    who.write(&folder.join("sandboxd.toml"), "[server]\nport = 1\n");
    assert_eq!(port(&who), 1);
    who.write(&folder.join("sandboxd.yaml"), "server: {port: 2}\n");
    assert_eq!(port(&who), 2);
    let named = who.write(&home.path().join("other.yaml"), "server: {port: 3}\n");
    let who = who.with("SANDBOXD_CONFIG", named.display());
    assert_eq!(port(&who), 3);
    let gone = who.with("SANDBOXD_CONFIG", "/nonexistent.yaml");
    gone.command(["config", "show"]).out().exits(2).never_panics();
}

#[test]
fn secrets_come_from_files_that_only_their_owner_reads() {
    let who = Sandboxd::plain();
    let folder = who.folder();
    let path = who.write(&folder.path().join("token"), "hunter2\n");
    let set = format!("server.token=file:{}", path.display());
    for (mode, code) in [(0o600, 0), (0o400, 0), (0o640, 2), (0o604, 2)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let out = who.command(["config", "show"]).arg("--set", &set).out();
        out.exits(code).must(!(out.text() + &out.complaint()).contains("hunter2"), "no secret");
    }
}

#[test]
fn isolation_and_the_outside_are_not_given_away_by_accident() {
    let who = Sandboxd::plain();
    let validate = || who.command(["config", "validate"]);
    validate().env("DISABLE_BWRAP", "true").out().exits(2).complains_of("isolation");
    validate().env("DISABLE_BWRAP", "false").out().exits(0).is_quiet();
    validate().env("SANDBOX_ALLOW_NETWORK", "true").out().exits(2).complains_of("isolation.network");
    validate().env("HOST", "0.0.0.0").out().exits(2).complains_of("server.host");
    validate().options("--set server.host=0.0.0.0 --set server.allow_remote=true").out().exits(2);
    let open = "--set server.host=0.0.0.0 --set server.allow_remote=true --set server.token=t";
    validate().options(open).out().exits(0).is_quiet();
    let ignored = validate().env("WORKERS", "4").out();
    ignored.exits(0).must(ignored.complaint().contains("note: `WORKERS`"), "a note");
}

#[test]
fn the_reference_page_is_what_the_command_prints() {
    let page = support::repository().join("docs/reference/configuration.md");
    let out = Sandboxd::plain().command(["config", "generate", "--format", "markdown"]).out();
    let kept = std::fs::read_to_string(Path::new(&page)).unwrap();
    out.exits(0).is_quiet().must(out.text() == kept, "the page in docs/reference");
}
