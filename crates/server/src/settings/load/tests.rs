use super::*;
use crate::settings::tests::file;

fn problems(sources: &Sources) -> Vec<String> {
    load(sources).map_or_else(|problems| problems.0.iter().map(ToString::to_string).collect(), |_| Vec::new())
}

#[test]
fn everything_that_is_wrong_is_told_with_its_place() {
    let text = "server:\n  port: x\n  colour: red\nservr: 1\nlimits:\n  timeout:\n  memory: [1, 2]\n";
    let (_folder, path) = file("s.yaml", text);
    let shown = path.display();
    let sources = Sources::nowhere()
        .file(&path)
        .flags(&[("pool.max", "-1"), ("pool.mx", "1")])
        .env("SANDBOXD_LOG_LEVEL", "loud")
        .env("SANDBOXD_LOG_LEVLE", "info")
        .env("SANDBOX_MEMORY_LIMIT", "much");
    let told = problems(&sources);
    for start in [
        format!("`server.port` ({shown}:2): `x` is no whole number"),
        format!("`server.colour` ({shown}:3): there is no such setting"),
        format!("`servr` ({shown}:4): there is no such setting"),
        format!("`limits.timeout` ({shown}:6): has no value"),
        format!("`limits.memory` ({shown}:7): is one value, not several"),
        "`limits.memory` ($SANDBOX_MEMORY_LIMIT): `much`".into(),
        "`log.level` ($SANDBOXD_LOG_LEVEL): `loud`".into(),
        "`SANDBOXD_LOG_LEVLE`: there is no such setting".into(),
        "`pool.max` (command line): `-1`".into(),
        "`pool.mx` (command line): there is no such setting".into(),
    ] {
        assert!(told.iter().any(|line| line.starts_with(&start)), "{start}\nis not in {told:#?}");
    }
    assert_eq!(told.len(), 10, "{told:#?}");
}

#[test]
fn files_that_cannot_be_read_or_understood_are_refused() {
    let gone = Sources::nowhere().file(std::path::Path::new("/nonexistent/s.yaml"));
    assert!(problems(&gone)[0].contains("cannot be read"));
    for (name, text, words) in [
        ("s.yaml", "server: [", "not YAML"),
        ("s.toml", "[server\n", "not TOML"),
        ("s.conf", "", "no ending"),
        ("s.yaml", "- a\n", "sections are missing"),
        ("s.yaml", "server: 8000\n", "is a section"),
        ("s.toml", "server = 8000\n", "is a section"),
    ] {
        let (_folder, path) = file(name, text);
        let told = problems(&Sources::nowhere().file(&path));
        assert!(told.len() == 1 && told[0].contains(words), "{text}: {told:?}");
    }
}

#[test]
fn a_file_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, path) = file("s.yaml", "");
    for (mode, is_fine) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(load(&Sources::nowhere().file(&path)).is_ok(), is_fine, "{mode:o}");
    }
}

#[test]
fn an_empty_file_or_section_is_fine() {
    for (name, text) in
        [("s.yaml", ""), ("s.yaml", "\u{feff}# nothing\n"), ("s.yaml", "server:\n"), ("s.toml", "")]
    {
        let (_folder, path) = file(name, text);
        assert_eq!(problems(&Sources::nowhere().file(&path)), [""; 0], "{text}");
    }
}

#[test]
fn a_file_from_before_is_not_read_and_says_what_its_settings_are_called_now() {
    let text = "logging:\n  level: info\nsandbox:\n  max_sandboxes: 10\n  default_resources:\n    memory_limit: 1G\n";
    let (folder, path) = file("mcp-sandboxd.yaml", text);
    let found = load(&Sources { folder: folder.path().into(), ..Sources::nowhere() }).unwrap();
    assert!(found.file.is_none() && found.notes.iter().any(|note| note.contains("mcp-sandboxd.yaml")));
    let told = load(&Sources::nowhere().file(&path)).unwrap_err();
    let hints: Vec<&str> = told.0.iter().filter_map(|problem| problem.hint.as_deref()).collect();
    assert_eq!(
        hints,
        ["did you mean `log.level`?", "did you mean `sessions.max`?", "did you mean `limits.memory`?"]
    );
}

#[test]
fn of_two_files_one_is_read_and_the_other_is_told() {
    let (folder, _) = file("sandboxd.yaml", "server: {port: 1}\n");
    std::fs::write(folder.path().join("sandboxd.toml"), "[server]\nport = 2\n").unwrap();
    let loaded = load(&Sources { folder: folder.path().into(), ..Sources::nowhere() }).unwrap();
    assert_eq!(loaded.settings.server.port, 1);
    assert!(loaded.notes.iter().any(|note| note.contains("sandboxd.toml")), "{:?}", loaded.notes);
}

#[test]
fn variables_of_kubernetes_are_recognised() {
    let links = Sources::nowhere()
        .env("SANDBOXD_SERVER_SERVICE_HOST", "10.0.0.1")
        .env("SANDBOXD_SERVER_SERVICE_PORT_HTTP", "8000")
        .env("SANDBOXD_SERVER_PORT_8000_TCP_ADDR", "10.0.0.1")
        .env("SANDBOXD_PORT", "tcp://10.0.0.1:8000");
    assert_eq!(problems(&links), [""; 0]);
    let told = load(&links.env("SANDBOXD_SERVER_PORT", "tcp://10.0.0.1:8000")).unwrap_err();
    assert!(told.0[0].hint.as_deref().is_some_and(|hint| hint.contains("enableServiceLinks")), "{told}");
}

#[test]
fn variables_of_the_command_are_no_settings() {
    let sources =
        Sources::nowhere().env("SANDBOXD_SERVER", "http://10.0.0.1:8000").env("SANDBOXD_TOKEN", "t");
    assert_eq!(load(&sources).unwrap().notes, [""; 0]);
}

#[test]
fn places_follow_the_home_and_the_state_directory() {
    let usual = load(&Sources::nowhere()).unwrap().settings;
    assert_eq!(usual.state.dir, PathBuf::from("/home/nobody/.local/state/sandboxd"));
    assert_eq!(usual.storage.url.to_string(), "sqlite:///home/nobody/.local/state/sandboxd/sandboxd.db");
    let xdg = load(&Sources::nowhere().env("XDG_STATE_HOME", "/x")).unwrap().settings;
    assert_eq!(xdg.state.dir, PathBuf::from("/x/sandboxd"));
    let root = load(&Sources { is_root: true, ..Sources::nowhere() }).unwrap().settings;
    assert_eq!(root.state.dir, PathBuf::from("/var/lib/sandboxd"));
    let flags = [("state.dir", "here"), ("server.unix_socket", "~/a.sock")];
    let chosen = load(&Sources::nowhere().flags(&flags)).unwrap().settings;
    assert_eq!(chosen.storage.objects, "/nonexistent/here/objects");
    assert_eq!(chosen.server.unix_socket, Some(PathBuf::from("/home/nobody/a.sock")));

    let mut homeless = Sources::nowhere();
    homeless.variables.clear();
    let told = problems(&homeless);
    assert!(told[0].contains("`state.dir`") && told[0].contains("home"), "{told:?}");
    assert_eq!(problems(&homeless.flags(&[("state.dir", "/x")])), [""; 0]);
}

#[test]
fn an_empty_variable_of_ours_is_an_error_and_one_from_before_is_none() {
    assert!(problems(&Sources::nowhere().env("SANDBOXD_SERVER_PORT", ""))[0].contains("has no value"));
    assert_eq!(
        problems(&Sources::nowhere().env("PORT", "").env("DB_TYPE", "").env("DATABASE_URL", "")),
        [""; 0]
    );
    let list = load(&Sources::nowhere().env("SANDBOXD_POOL_LANGUAGES", "")).unwrap();
    assert!(list.settings.pool.languages.is_empty());
}

#[test]
fn a_slip_in_a_ceiling_is_no_missing_ceiling() {
    let told = load(&Sources::nowhere().env("SANDBOXD_MAX_MEMROY", "64M")).unwrap_err();
    assert_eq!(told.0[0].hint.as_deref(), Some("did you mean `SANDBOXD_MAX_MEMORY`?"));
    let other = load(&Sources::nowhere().env("SANDBOXD_COLOUR", "red")).unwrap();
    assert!(other.notes.iter().any(|note| note.contains("SANDBOXD_COLOUR")));
}

proptest::proptest! {
    #[test]
    fn no_file_is_too_strange(text in r"([a-z]{1,6}|server|port|limits|[:=\-\[\]{}#&*!|>'\x22,.~?%@ \t\n]|[0-9]{1,3}|\PC){0,60}") {
        for name in ["s.yaml", "s.toml"] {
            let (_folder, path) = file(name, &text);
            if let Err(problems) = load(&Sources::nowhere().file(&path)) {
                proptest::prop_assert!(!problems.0.is_empty());
            }
        }
    }
}

#[test]
fn what_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let mut sources = Sources::nowhere();
    sources.variables.insert("SANDBOXD_SERVER_PORT".into(), OsString::from_vec(vec![0xff]));
    assert!(problems(&sources)[0].contains("UTF-8"));
}
