//! `sandboxd mcp install`, with homes of its own: what it writes, what it leaves alone, and what it says.
#![cfg(test)]

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const SANDBOXD: &str = env!("CARGO_BIN_EXE_sandboxd");

/// A home, and a project in it.
struct Home(TempDir);

impl Home {
    fn new() -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        fs::create_dir(home.path("project")).unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, program: &Path, words: &str) -> Command {
        let mut command = Command::new(program);
        command
            .args(words.split_whitespace())
            .env_clear()
            .env("HOME", self.0.path())
            .env("PATH", "/usr/bin:/bin");
        command.current_dir(self.path("project")).stdin(Stdio::null());
        command
    }

    /// Runs `sandboxd mcp install` with these words.
    fn install(&self, words: &str) -> Said {
        Said::by(self.command(Path::new(SANDBOXD), &format!("mcp install {words}")))
    }

    /// Names of everything in a directory, in order.
    fn names(&self, dir: &str) -> Vec<String> {
        let names = fs::read_dir(self.path(dir)).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// What came of it.
struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Said {
    fn by(mut command: Command) -> Said {
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { code: status.code().unwrap(), stdout: text(stdout), stderr: text(stderr) }
    }

    #[track_caller]
    fn exits(&self, code: i32) -> &Said {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    fn says(&self, words: &str) -> &Said {
        assert!(self.stderr.contains(words), "no `{words}` in: {}", self.stderr);
        self
    }

    /// Nothing is on standard output, which is for data.
    #[track_caller]
    fn is_silent(&self) -> &Said {
        assert_eq!(self.stdout, "");
        self
    }
}

#[track_caller]
fn json_of(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn stdio() -> Value {
    json!({ "command": SANDBOXD, "args": ["mcp"] })
}

#[test]
fn a_file_is_made_where_there_is_none() {
    for (client, own, file) in [
        ("claude-desktop", ".config/Claude", ".config/Claude/claude_desktop_config.json"),
        ("claude-code", ".claude", ".claude.json"),
        ("cursor", ".cursor", ".cursor/mcp.json"),
        ("windsurf", ".codeium/windsurf", ".codeium/windsurf/mcp_config.json"),
    ] {
        let home = Home::new();
        fs::create_dir_all(home.path(own)).unwrap();
        let said = home.install(&format!("--client {client} --yes"));
        said.exits(0).is_silent().says("--- /dev/null").says("+  \"mcpServers\": {").says("restart");
        assert_eq!(json_of(&home.path(file)), json!({ "mcpServers": { "sandboxd": stdio() } }), "{client}");
        assert_eq!(mode(&home.path(file)), 0o600);
    }
    let home = Home::new();
    fs::create_dir_all(home.path(".config/Code")).unwrap();
    home.install("--client vscode --profile minimal --name box --yes").exits(0).is_silent();
    let entry = json!({ "type": "stdio", "command": SANDBOXD, "args": ["mcp", "--profile", "minimal"] });
    assert_eq!(json_of(&home.path(".config/Code/User/mcp.json")), json!({ "servers": { "box": entry } }));
}

#[test]
fn settings_are_where_the_variables_say() {
    let home = Home::new();
    for (client, variable, file) in [
        ("vscode", "XDG_CONFIG_HOME", "Code/User/mcp.json"),
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
    ] {
        let mut command = home.command(Path::new(SANDBOXD), &format!("mcp install --yes --client {client}"));
        command.env(variable, home.path("elsewhere"));
        Said::by(command).exits(0);
        assert!(home.path("elsewhere").join(file).is_file(), "{client}");
    }
}

#[test]
fn everything_else_stays_as_it_was() {
    let home = Home::new();
    let old = "{\n    \"zoom\": 1.10,\n    \"mcpServers\": {\n        \"z\": {\"command\":\"z\",  \"env\": {\"KEY\": \"1\"}},\n        \"a\": {\"command\": \"a\"}\n    },\n    \"alpha\": []\n}\n";
    let file = home.write(".cursor/mcp.json", old);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let said = home.install("--client cursor --yes");
    said.exits(0).is_silent().says("@@ -").says("+        \"sandboxd\": {").says(".bak-");
    let new = fs::read_to_string(&file).unwrap();
    let (before, rest) = new.split_once(",\n        \"sandboxd\": {\n").unwrap();
    let (_, after) = rest.split_once("\n        }").unwrap();
    assert_eq!(format!("{before}{after}"), old, "{new}");
    assert_eq!(json_of(&file)["mcpServers"]["sandboxd"], stdio());

    let names = home.names(".cursor");
    let [_, backup] = names.as_slice() else { panic!("{names:?}") };
    let digits = backup.strip_prefix("mcp.json.bak-").unwrap();
    assert!(digits.len() == 14 && digits.bytes().all(|byte| byte.is_ascii_digit()), "{backup}");
    let backup = home.path(".cursor").join(backup);
    assert_eq!(fs::read_to_string(&backup).unwrap(), old);
    assert_eq!((mode(&file), mode(&backup)), (0o640, 0o640));
}

#[test]
fn an_older_entry_is_replaced() {
    let home = Home::new();
    let old = json!({ "mcpServers": { "sandboxd": { "command": "/old/sandboxd" }, "b": {} } });
    let file = home.write(".cursor/mcp.json", &serde_json::to_string_pretty(&old).unwrap());
    home.install("--client cursor --yes").exits(0).says("-      \"command\": \"/old/sandboxd\"");
    assert_eq!(json_of(&file), json!({ "mcpServers": { "sandboxd": stdio(), "b": {} } }));
}

#[test]
fn the_second_time_nothing_changes() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", "{}");
    home.install("--client cursor --yes").exits(0);
    let (text, names) = (fs::read_to_string(&file).unwrap(), home.names(".cursor"));
    // There is nothing to ask about either.
    home.install("--client cursor").exits(0).is_silent().says("nothing to do");
    assert_eq!((fs::read_to_string(&file).unwrap(), home.names(".cursor")), (text, names));
}

#[test]
fn what_is_not_strict_json_is_left_alone_and_the_entry_printed() {
    for (text, why) in [
        ("{\n  // mine\n  \"servers\": {}\n}\n", "line 2"),
        ("{\"servers\": {},}", "trailing comma"),
        ("{\"servers\": ", "EOF"),
        ("{\"servers\": []}", "`servers` in it is not an object"),
        ("[]", "the file is not an object"),
    ] {
        let home = Home::new();
        let file = home.write("project/.vscode/mcp.json", text);
        let said = home.install("--client vscode --scope project --yes");
        said.exits(2).says("left as it is").says(why).says("hint: ");
        let printed: Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(printed["servers"]["sandboxd"]["command"], SANDBOXD);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        assert_eq!(home.names("project/.vscode"), ["mcp.json"]);
    }
}

#[test]
fn links_are_followed_but_not_into_nothing() {
    let home = Home::new();
    let real = home.write("dotfiles/cursor.json", "{}\n");
    fs::create_dir(home.path(".cursor")).unwrap();
    symlink(&real, home.path(".cursor/mcp.json")).unwrap();
    home.install("--client cursor --yes").exits(0).says("dotfiles/cursor.json");
    assert!(fs::symlink_metadata(home.path(".cursor/mcp.json")).unwrap().is_symlink());
    assert_eq!(json_of(&real)["mcpServers"]["sandboxd"], stdio());
    assert_eq!(home.names(".cursor"), ["mcp.json"]);
    assert_eq!(home.names("dotfiles").len(), 2);

    fs::remove_dir_all(home.path("dotfiles")).unwrap();
    fs::create_dir(home.path("dotfiles")).unwrap();
    home.install("--client cursor --yes").exits(2).is_silent().says("leads nowhere");
    assert_eq!(home.names("dotfiles"), [""; 0]);
}

#[test]
fn a_directory_nobody_may_write_to_is_left_alone() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", "{}");
    fs::set_permissions(home.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(home.path(".cursor"), fs::Permissions::from_mode(0o555)).unwrap();
    let said = if rustix::process::geteuid().is_root() {
        // Root may write anywhere, so somebody else has to try, with a copy of the program where they can reach it.
        let copy = home.path("sandboxd");
        fs::copy(SANDBOXD, &copy).unwrap();
        chown(&file, Some(20001), Some(20001)).unwrap();
        let mut command = home.command(Path::new("setpriv"), "--reuid 20001 --regid 20001 --clear-groups --");
        command.arg(&copy).args(["mcp", "install", "--client", "cursor", "--yes"]);
        Said::by(command)
    } else {
        home.install("--client cursor --yes")
    };
    said.exits(2).is_silent().says("cannot be written").says("Permission denied").says("--print");
    assert_eq!(fs::read_to_string(&file).unwrap(), "{}");
    assert_eq!(home.names(".cursor"), ["mcp.json"]);
}

#[test]
fn the_owner_of_a_file_stays_its_owner() {
    if !rustix::process::geteuid().is_root() {
        let _ = std::io::stderr()
            .write_all(b"`the_owner_of_a_file_stays_its_owner`: NOT RUN, because it takes root\n");
        return;
    }
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", "{}");
    chown(&file, Some(20001), Some(20002)).unwrap();
    home.install("--client cursor --yes").exits(0);
    for name in home.names(".cursor") {
        let meta = fs::metadata(home.path(".cursor").join(&name)).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (20001, 20002), "{name}");
    }
}

#[test]
fn without_a_terminal_it_wants_to_be_told() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", "{}");
    let said = home.install("--client cursor");
    said.exits(2).is_silent().says("+  \"mcpServers\"").says("no terminal").says("--yes");
    assert_eq!(fs::read_to_string(&file).unwrap(), "{}");
    assert_eq!(home.names(".cursor"), ["mcp.json"]);
}

/// Starts it on a terminal, lets it ask, does something, types an answer, and says how it ended and what was to be seen.
fn ask(home: &Home, test: &str, meanwhile: impl FnOnce(), answer: &str) -> Option<(i32, String)> {
    let line = format!("{SANDBOXD} mcp install --client cursor");
    let mut command = home.command(Path::new("script"), "-qec");
    command.args([&line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        let told = format!("`{test}`: NOT RUN, because there is no `script`\n");
        let _ = std::io::stderr().write_all(told.as_bytes());
        return None;
    };
    let mut keyboard = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut screen = Vec::new();
    output.read_until(b'?', &mut screen).unwrap();
    assert!(screen.ends_with(b"Change it?"), "{}", String::from_utf8_lossy(&screen));
    meanwhile();
    keyboard.write_all(answer.as_bytes()).unwrap();
    output.read_to_end(&mut screen).unwrap();
    Some((child.wait().unwrap().code().unwrap(), String::from_utf8(screen).unwrap()))
}

#[test]
fn on_a_terminal_it_asks() {
    for (answer, code) in [("y\n", 0), ("n\n", 1), ("\n", 1)] {
        let home = Home::new();
        let file = home.write(".cursor/mcp.json", "{}");
        let Some((got, screen)) = ask(&home, "on_a_terminal_it_asks", || {}, answer) else { return };
        assert_eq!(got, code, "{answer:?}: {screen}");
        assert!(screen.contains("+++ "), "{screen}");
        let changed = fs::read_to_string(&file).unwrap() != "{}";
        assert_eq!(changed, code == 0, "{answer:?}");
    }
}

#[test]
fn what_others_write_while_it_asks_is_kept() {
    let home = Home::new();
    let file = home.write(".cursor/mcp.json", "{}");
    let write = || fs::write(&file, "{\"new\": 1}").unwrap();
    let Some((code, screen)) = ask(&home, "what_others_write_while_it_asks_is_kept", write, "y\n") else {
        return;
    };
    assert!(code == 2 && screen.contains("somebody else"), "{code}: {screen}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "{\"new\": 1}");
    assert_eq!(home.names(".cursor"), ["mcp.json"]);
}

#[test]
fn an_agent_that_is_not_there_is_not_made_up() {
    for client in ["claude-desktop", "claude-code", "cursor", "vscode", "windsurf"] {
        let home = Home::new();
        home.install(&format!("--client {client}"))
            .exits(2)
            .is_silent()
            .says("was not found")
            .says("--print");
        assert_eq!(home.names(""), ["project"]);
        home.install(&format!("--client {client} --yes")).exits(0).is_silent();
    }
}

#[test]
fn projects_have_files_of_their_own() {
    let home = Home::new();
    let said = home.install("--client claude-code --client cursor --client vscode --scope project --yes");
    said.exits(0).is_silent();
    assert_eq!(json_of(&home.path("project/.mcp.json"))["mcpServers"]["sandboxd"], stdio());
    assert_eq!(json_of(&home.path("project/.cursor/mcp.json"))["mcpServers"]["sandboxd"], stdio());
    assert_eq!(json_of(&home.path("project/.vscode/mcp.json"))["servers"]["sandboxd"]["type"], "stdio");
    assert_eq!(home.names(""), ["project"]);
    // What one of them cannot do is refused before anything is written for the others.
    let home = Home::new();
    let said = home.install("--client cursor --client windsurf --scope project --yes");
    said.exits(2).is_silent().says("Windsurf has no configuration for a project");
    assert_eq!(home.names("project"), [""; 0]);
}

#[test]
fn a_server_is_named_without_its_token() {
    let home = Home::new();
    let mut command = home.command(
        Path::new(SANDBOXD),
        "mcp install --yes --url http://127.0.0.1:8000 --client claude-code --client cursor --client vscode --client windsurf",
    );
    command.env("SANDBOXD_TOKEN", "hunter2");
    let said = Said::by(command);
    said.exits(0).is_silent().says("SANDBOXD_TOKEN");
    assert!(!said.stderr.contains("hunter2"));
    let url = "http://127.0.0.1:8000/mcp";
    let (plain, env) = ("Bearer ${SANDBOXD_TOKEN}", "Bearer ${env:SANDBOXD_TOKEN}");
    for (file, section, entry) in [
        (
            ".claude.json",
            "mcpServers",
            json!({ "type": "http", "url": url, "headers": { "Authorization": plain } }),
        ),
        (".cursor/mcp.json", "mcpServers", json!({ "url": url, "headers": { "Authorization": env } })),
        (
            ".config/Code/User/mcp.json",
            "servers",
            json!({ "type": "http", "url": url, "headers": { "Authorization": env } }),
        ),
        (
            ".codeium/windsurf/mcp_config.json",
            "mcpServers",
            json!({ "serverUrl": url, "headers": { "Authorization": env } }),
        ),
    ] {
        assert_eq!(json_of(&home.path(file)), json!({ section: { "sandboxd": entry } }), "{file}");
    }
    home.install("--client claude-desktop --url http://127.0.0.1:8000 --yes").exits(2).says("programs only");
    home.install("--client cursor --url http://a:b@127.0.0.1 --yes").exits(2).says("password");
    home.install("--client cursor --url http://a.example.org --print").exits(0).says("unencrypted");
    home.install("--client cursor --url http://127.0.0.1 --profile all").exits(2).says("--profile");
}

#[test]
fn printing_touches_nothing() {
    let home = Home::new();
    for client in ["claude-desktop", "claude-code", "cursor", "windsurf"] {
        let said = home.install(&format!("--client {client} --print"));
        said.exits(0).says("note: for `");
        let printed: Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(printed, json!({ "mcpServers": { "sandboxd": stdio() } }), "{client}");
        assert!(said.stdout.find("command") < said.stdout.find("args"), "{}", said.stdout);
    }
    assert_eq!(home.names(""), ["project"]);
    let mut homeless = home.command(Path::new(SANDBOXD), "mcp install --client cursor --print");
    homeless.env_remove("HOME");
    assert!(Said::by(homeless).exits(0).stdout.contains(SANDBOXD));
}

#[test]
fn the_program_for_a_library_is_one() {
    let home = Home::new();
    for (words, class) in
        [("", "MCPServerStdio"), ("--url https://a.example.org/mcp", "MCPServerStreamableHttp")]
    {
        let said = home.install(&format!("--client openai-agents {words}"));
        said.exits(0);
        assert!(said.stdout.contains(class), "{}", said.stdout);
        let mut command = home.command(Path::new("python3"), "-c");
        let check = "import ast, sys; ast.parse(sys.stdin.read())";
        let mut child = command.arg(check).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(said.stdout.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{}", said.stdout);
    }
    assert_eq!(home.names(""), ["project"]);
}

#[test]
fn names_and_agents_are_checked() {
    let home = Home::new();
    home.install("").exits(2).says("--client");
    home.install("--client emacs").exits(2).says("emacs");
    home.install("--client cursor --name a.b").exits(2).says("letters");
    let mut homeless = home.command(Path::new(SANDBOXD), "mcp install --client cursor --yes");
    homeless.env_remove("HOME");
    Said::by(homeless).exits(2).is_silent().says("HOME");
}
