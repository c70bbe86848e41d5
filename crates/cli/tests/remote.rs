//! `sandboxd session`, `template`, `key` and `top` against a real server with real sandboxes.
#![cfg(test)]

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than anything here should take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server of its own, and whoever uses it.
struct World {
    folder: TempDir,
    server: Child,
    url: String,
}

/// What a command did.
struct Done {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

impl Done {
    fn of(out: Output) -> Done {
        Done {
            code: out.status.code(),
            stdout: out.stdout,
            stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|_| panic!("{} {}", self.text(), self.stderr))
    }

    fn exits(self, code: i32) -> Done {
        assert_eq!(self.code, Some(code), "{}\n{}", self.text(), self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    fn says(self, words: &str) -> Done {
        assert!(self.stderr.contains(words), "`{words}` is not in: {}", self.stderr);
        self
    }
}

/// The program that runs inside sandboxes, as the other tests find it.
fn executor() -> PathBuf {
    let given = std::env::var_os("SANDBOXD_BIN").map(PathBuf::from);
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/sandboxd");
    let path = given.unwrap_or(built).with_file_name("sandbox-executor");
    assert!(path.is_file(), "`{}` is missing: run `make build`, or set SANDBOXD_BIN", path.display());
    path
}

/// The command, in an environment that says nothing.
fn bare(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandboxd"));
    command.env_clear().env("HOME", folder).env("PATH", "/usr/bin:/bin").current_dir(folder);
    command
}

impl World {
    fn start() -> World {
        World::with(&["--port", "0"])
    }

    fn with(place: &[&str]) -> World {
        let folder = TempDir::new().unwrap();
        let mut server = bare(folder.path())
            .args(["serve", "--set", "pool.enabled=false", "--state-dir", "state"])
            .args(place)
            .env("SANDBOXD_EXECUTOR", executor())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(server.stderr.take().unwrap()).lines().map_while(Result::ok);
        let greeting = lines.find(|line| line.contains("listens on")).expect("a greeting");
        let url = greeting.split(' ').find(|word| word.starts_with("http://"));
        let url = url.unwrap_or_default().trim_end_matches(',').to_owned();
        lines.find(|line| line.contains("\"ready\"")).expect("a server that is ready");
        std::thread::spawn(move || lines.for_each(drop));
        World { folder, server, url }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn token(&self) -> String {
        std::fs::read_to_string(self.path("state/token")).unwrap().trim().to_owned()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = bare(self.folder.path());
        command.args(words).env("SANDBOXD_SERVER", &self.url).env("SANDBOXD_STATE_DIR", self.path("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, words: &[&str]) -> Done {
        Done::of(self.command(words).output().unwrap())
    }

    /// What it prints, if it goes well.
    fn ok(&self, words: &[&str]) -> String {
        self.run(words).exits(0).text()
    }

    fn session(&self, id: &str) {
        assert_eq!(self.ok(&["session", "create", id, "--memory", "256Mi"]), format!("{id}\n"));
    }

    fn exec(&self, id: &str, code: &str) -> Done {
        self.run(&["session", "exec", id, "-c", code])
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.server), Signal::TERM);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && !matches!(self.server.try_wait(), Ok(Some(_))) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.server.kill();
    }
}

/// The exit code of a command that should end soon.
fn soon(child: &mut Child) -> Option<i32> {
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return status.code(),
            None if Instant::now() > until => {
                child.kill().unwrap();
                panic!("it does not end");
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

#[test]
fn a_session_is_made_shown_paused_and_ended() {
    let world = World::start();
    world.run(&["session", "list"]).exits(0).says("session create");
    assert_eq!(world.run(&["session", "list", "--json"]).exits(0).json(), serde_json::json!([]));
    let words = "session create s1 --memory 256Mi -e WHO=you --metadata team=a --idle never --timeout 5s";
    assert_eq!(world.ok(&words.split(' ').collect::<Vec<_>>()), "s1\n");
    let made = world.run(&["session", "create", "-l", "python", "--json"]).exits(0).json();
    let other = made["id"].as_str().unwrap().to_owned();

    let list = world.ok(&["session", "ls"]);
    assert!(list.contains("SESSION") && list.contains("s1") && list.contains(&other), "{list}");
    assert_eq!(world.run(&["session", "list", "--limit", "1", "--json"]).exits(0).json()[0]["id"], *other);
    let shown = world.ok(&["session", "show", "s1"]);
    for part in ["256.0 MB", "WHO=you", "team=a", "never", "5s", "ready", "WHEN"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // What it did not ask for is what is usual.
    let rows = |name: &str| shown.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    for (name, usual) in [
        ("cores", "1 (default)"),
        ("processes", "128 (default)"),
        ("network", "none (default)"),
        ("storage", "MB (default)"),
    ] {
        assert!(rows(name).contains(usual), "{name}: {shown}");
    }
    for asked in ["memory", "time of a program"] {
        assert!(!rows(asked).contains("default"), "{asked}: {shown}");
    }
    let shown = world.run(&["session", "show", "s1", "--json"]).exits(0).json();
    assert!(shown["history"].as_array().unwrap().iter().any(|step| step["to"] == "ready"), "{shown}");
    assert_eq!(shown["idle_timeout_ms"], -1);

    assert_eq!(world.ok(&["session", "pause", "s1"]), "s1\n");
    let paused = world.run(&["session", "list", "--status", "paused", "--json"]).exits(0).json();
    assert_eq!((paused.as_array().unwrap().len(), &paused[0]["id"]), (1, &"s1".into()));
    world.ok(&["session", "resume", "s1"]);
    assert_eq!(world.run(&["session", "show", "s1", "--json"]).exits(0).json()["state"], "ready");

    // What is wrong with one is no reason not to end the others.
    let done = world.run(&["session", "rm", "s1", "nope", &other]).exits(2).says("nope");
    assert_eq!(done.text(), format!("s1\n{other}\n"));
    assert_eq!(world.run(&["session", "show", "s1", "--json"]).exits(0).json()["state"], "terminated");
    world.ok(&["session", "rm", "--purge", "s1"]);
    world.run(&["session", "show", "s1"]).exits(2).says("error:");
    world.run(&["session", "create", "a/b"]).exits(2).says("id");
    world.run(&["session", "show", ".."]).exits(2);
}

#[test]
fn programs_run_as_they_do_without_a_server() {
    let world = World::start();
    world.session("s");
    let done =
        world.exec("s", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)").exits(3);
    assert_eq!((done.text().as_str(), done.stderr.as_str()), ("out\n", "err\n"));
    world.exec("s", "open('kept', 'w').write('x' * 5)").exits(0);
    assert_eq!(world.exec("s", "print(open('kept').read())").exits(0).text(), "xxxxx\n");
    let bytes = world.exec("s", "import sys; sys.stdout.buffer.write(bytes(range(256)))").exits(0).stdout;
    assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());

    std::fs::write(world.path("hello.sh"), "cat; echo \"$1 $WHO\"; cat data").unwrap();
    std::fs::write(world.path("data"), [0, 255]).unwrap();
    let words = [
        "session", "exec", "s", "hello.sh", "--stdin", "in ", "-e", "WHO=you", "--file", "data", "--", "one",
    ];
    assert_eq!(world.run(&words).exits(0).stdout, b"in one you\n\x00\xff");
    let shell = world.ok(&["session", "exec", "s", "--mode", "shell", "-c", "echo a b | wc -w"]);
    assert_eq!(shell.trim(), "2");
    assert_eq!(
        world.ok(&["session", "exec", "s", "--mode", "evaluate", "-c", "print(1, end=''); 6 * 7"]),
        "1\n42\n"
    );
    let handler = ["session", "exec", "s", "--mode", "handler", "--event", "{\"n\": 2}", "-c"];
    let code = "def handler(event): return {'twice': event['n'] * 2}";
    assert_eq!(world.ok(&[&handler[..], &[code]].concat()), "{\"twice\":4}\n");

    let late =
        world.run(&["session", "exec", "s", "-c", "while True: pass", "--timeout", "300ms"]).exits(124);
    late.says("--timeout");
    let record = world.run(&["session", "exec", "s", "-c", "print(1); exit(4)", "--json"]).exits(4);
    assert!(record.stderr.is_empty(), "{}", record.stderr);
    let record = record.json();
    assert_eq!((&record["stdout"], &record["status"]), (&"1\n".into(), &"failed".into()));
    assert_eq!(record["isolation"]["backend"], "native");
    // Also what is too long to be kept in the record.
    let long = world.run(&["session", "exec", "s", "-c", "print('x' * 200_000)", "--json"]).exits(0).json();
    assert_eq!(long["stdout"].as_str().unwrap().len(), 200_001);

    world.run(&["session", "exec", "s", "-l", "klingon", "-c", "1"]).exits(2).says("language");
    world.run(&["session", "exec", "nope", "-c", "1"]).exits(2).says("session");
    world.run(&["session", "exec", "s", "missing.py"]).exits(2).says("no such file");
    world.run(&["session", "exec", "s", "-c", "1", "--event", "{}"]).exits(2).says("--mode handler");
    world.run(&["session", "exec", "s"]).exits(2).says("FILE");
}

#[test]
fn output_comes_while_the_program_runs_and_in_order() {
    let world = World::start();
    world.session("s");
    let code = "import time\nfor n in range(3):\n print(n, flush=True)\n time.sleep(1)";
    let mut child = world.command(&["session", "exec", "s", "-c", code]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(lines.next().as_deref(), Some("0"));
    assert!(child.try_wait().unwrap().is_none(), "what is first comes before the end");
    assert_eq!(lines.collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(soon(&mut child), Some(0));
}

#[test]
fn an_interrupt_ends_the_program_on_the_server() {
    let world = World::start();
    world.session("s");
    let code = "import time; print('begun', flush=True); time.sleep(25)";
    let mut child = world.command(&["session", "exec", "s", "-c", code]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(lines.next().as_deref(), Some("begun"));
    let before = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(soon(&mut child), Some(130));
    assert!(before.elapsed() < Duration::from_secs(15));
    let execution = world.run(&["session", "logs", "s", "--json"]).exits(0).json();
    assert_eq!((&execution["outcome"], &execution["stdout"]), (&"cancelled".into(), &"begun\n".into()));
    // And the session is there for the next one.
    assert_eq!(world.exec("s", "print(1)").exits(0).text(), "1\n");
}

#[test]
fn files_come_back_as_they_went() {
    let world = World::start();
    world.session("s");
    let content: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(world.path("data.bin"), &content).unwrap();
    world.run(&["session", "files", "put", "s", "data.bin", "a b/ü?#%.bin"]).exits(0).says("2.9 MB");
    world.ok(&["session", "files", "mkdir", "s", "empty/deep"]);
    let list = world.run(&["session", "files", "ls", "s", "-r", "--json"]).exits(0).json();
    let paths: Vec<&str> =
        list.as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["a b", "a b/ü?#%.bin", "empty", "empty/deep"]);
    assert!(world.ok(&["session", "files", "ls", "s", "a b"]).contains("2.9 MB"));
    let seen = world.exec("s", "import os; print(os.path.getsize('a b/ü?#%.bin'))").exits(0);
    assert_eq!(seen.text(), "3000000\n");

    world.ok(&["session", "files", "mv", "s", "a b/ü?#%.bin", "/workspace/moved.bin"]);
    world.run(&["session", "files", "get", "s", "moved.bin"]).exits(0);
    assert!(std::fs::read(world.path("moved.bin")).unwrap() == content);
    std::fs::create_dir(world.path("out")).unwrap();
    world.run(&["session", "files", "get", "s", "moved.bin", "out"]).exits(0);
    assert!(std::fs::read(world.path("out/moved.bin")).unwrap() == content);
    assert!(world.run(&["session", "files", "get", "s", "moved.bin", "-"]).exits(0).stdout == content);

    let mut put =
        world.command(&["session", "files", "put", "s", "-", "typed"]).stdin(Stdio::piped()).spawn().unwrap();
    put.stdin.take().unwrap().write_all(b"from a pipe").unwrap();
    assert_eq!(soon(&mut put), Some(0));
    assert_eq!(world.ok(&["session", "files", "get", "s", "typed", "-"]), "from a pipe");

    world.run(&["session", "files", "rm", "s", "empty"]).exits(2).says("error:");
    world.ok(&["session", "files", "rm", "s", "-r", "empty", "typed"]);
    world.run(&["session", "files", "get", "s", "typed"]).exits(2).says("error:");
    assert!(!world.path("typed").exists(), "nothing is left of what did not come");
    world.run(&["session", "files", "get", "s", "../x"]).exits(2).says("leads elsewhere");
    world.run(&["session", "files", "rm", "s", "-r", "/workspace"]).exits(2).says("workspace itself");
    world.run(&["session", "files", "put", "s", "out"]).exits(2).says("directory");
    world.run(&["session", "files", "put", "s", "-"]).exits(2).says("name");
}

#[test]
fn logs_tell_what_was_written_and_what_is() {
    let world = World::start();
    world.session("s");
    world.exec("s", "print('first')").exits(0);
    world.exec("s", "import sys; print('second'); print('aside', file=sys.stderr)").exits(0);
    let logs = world.run(&["session", "logs", "s"]).exits(0);
    assert_eq!(logs.text(), "first\nsecond\n");
    assert!(
        logs.stderr.contains("aside\n") && logs.stderr.matches("== exec_").count() == 2,
        "{}",
        logs.stderr
    );
    assert_eq!(world.ok(&["session", "logs", "s", "-n", "1"]), "second\n");
    assert_eq!(world.ok(&["session", "logs", "s", "--json"]).lines().count(), 2);

    let mut follow = world.command(&["session", "logs", "s", "-f", "-n", "0"]).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines().map_while(Result::ok);
    // It looks at what there is before it follows.
    std::thread::sleep(Duration::from_secs(2));
    world.exec("s", "import time; print('third', flush=True); time.sleep(1); print('fourth')").exits(0);
    assert_eq!((lines.next().as_deref(), lines.next().as_deref()), (Some("third"), Some("fourth")));
    world.ok(&["session", "rm", "s"]);
    assert_eq!(soon(&mut follow), Some(0), "the end of the session is its end");
    world.run(&["session", "logs", "nope"]).exits(2);
}

#[test]
fn templates_are_made_changed_used_and_removed() {
    let world = World::start();
    let words = "template create data --name Data -l python --memory 300Mi -e A=1 --network none";
    assert_eq!(world.ok(&words.split(' ').collect::<Vec<_>>()), "data\n");
    let list = world.ok(&["template", "list"]);
    assert!(list.contains("data") && list.contains("300.0 MB"), "{list}");
    assert!(world.ok(&["template", "show", "data"]).contains("A=1"));
    let changed = world.run(&["template", "update", "data", "--memory", "400Mi", "--json"]).exits(0).json();
    assert_eq!((&changed["default_memory_mb"], &changed["name"]), (&400.into(), &"Data".into()));
    let rehearsal = world.folder.path().join("warm.py");
    std::fs::write(&rehearsal, "import wave").unwrap();
    let rehearsal = format!("--rehearsal=python={}", rehearsal.display());
    let words = "template update data --preload python=colorsys,wave --preload python=json --pool-min 1 --pool-max 2 --pool-idle 1m --json";
    let words: Vec<&str> = words.split(' ').chain([rehearsal.as_str()]).collect();
    let changed = world.run(&words).exits(0).json();
    assert_eq!(changed["preload"]["python"], serde_json::json!(["colorsys", "wave", "json"]));
    assert_eq!(changed["rehearsal"]["python"], "import wave");
    assert_eq!(changed["pool"], serde_json::json!({"min": 1, "max": 2, "idle_timeout": 60.0}));
    let shown = world.ok(&["template", "show", "data"]);
    assert!(shown.contains("colorsys wave json") && shown.contains("min=1"), "{shown}");
    world.run(&["template", "update", "data", "--preload", "numpy"]).exits(2).says("python=numpy,pandas");
    let changed =
        world.run(&["template", "update", "data", "--preload", "python=", "--json"]).exits(0).json();
    assert_eq!(changed["preload"], serde_json::json!({}));
    world.ok(&["session", "create", "s", "--template", "data"]);
    assert_eq!(world.exec("s", "import os; print(os.environ['A'])").exits(0).text(), "1\n");
    world.run(&["template", "rm", "data"]).exits(2).says("error:");
    world.ok(&["session", "rm", "--purge", "s"]);
    assert_eq!(world.ok(&["template", "rm", "data"]), "data\n");
    let left = world.run(&["template", "list", "--json"]).exits(0).json();
    assert!(left.as_array().unwrap().iter().all(|template| template["id"] != "data"), "{left}");
    world.run(&["template", "show", "data"]).exits(2);
}

#[test]
fn keys_show_their_token_once_and_work_until_they_are_revoked() {
    let world = World::start();
    let made = world.run(&["key", "create", "ci", "--tenant", "team-a", "--concurrency", "2"]).exits(0);
    let token = made.text().trim().to_owned();
    assert!(token.starts_with("sbx_") && !made.stderr.contains(&token), "{}", made.stderr);
    let list = world.run(&["key", "list", "--tenant", "team-a", "--json"]).exits(0);
    assert!(!list.text().contains(&token));
    let id = list.json()[0]["id"].as_str().unwrap().to_owned();
    assert!(world.ok(&["key", "list"]).contains("works"));
    assert!(world.ok(&["key", "show", &id]).contains("concurrency=2"));

    let with =
        |words: &[&str]| Done::of(world.command(words).env("SANDBOXD_TOKEN", &token).output().unwrap());
    with(&["session", "create", "theirs"]).exits(0);
    with(&["key", "list"]).exits(2).says("error:");
    let top = with(&["top", "--json", "--once"]).exits(0).json();
    assert_eq!((&top["nodes"], &top["sessions"][0]["id"]), (&serde_json::json!([]), &"theirs".into()));
    // Other tenants do not see it.
    world.run(&["session", "show", "theirs"]).exits(2);
    assert_eq!(world.ok(&["key", "revoke", &id]), format!("{id}\n"));
    let refused = with(&["session", "list"]).exits(2).says("hint:");
    assert!(!refused.stderr.contains(&token));
    assert!(world.ok(&["key", "show", &id]).contains("revoked"));
    world.run(&["key", "create", "x", "--expires", "tomorrow"]).exits(2).says("expires_at");
}

#[test]
fn a_server_that_is_away_or_a_token_that_is_wrong_is_told_with_what_helps() {
    let world = World::start();
    let away = "http://127.0.0.1:1";
    world.run(&["session", "list", "--server", away]).exits(125).says("sandboxd serve");
    world.run(&["top", "--once", "--server", away]).exits(125).says(away);
    world.run(&["session", "--server", "ftp://x", "list"]).exits(2).says("`server`");
    let secret = "sbx_none_ofyourbusiness";
    for words in [&["session", "list", "--token", secret][..], &["key", "create", "x", "--token", secret]] {
        let done = world.run(words).exits(2).says("--token");
        assert!(!done.stderr.contains(secret));
    }
    // Without the token of this machine there is none.
    let nowhere = Done::of(world.command(&["session", "list", "--state-dir", "/nowhere"]).output().unwrap());
    nowhere.exits(2).says("/nowhere/token");
    // What was typed counts before what is in the environment.
    let typed = world
        .command(&["session", "list", "--json", "--token", &world.token()])
        .env("SANDBOXD_TOKEN", secret)
        .output()
        .unwrap();
    Done::of(typed).exits(0);
    let help = world.run(&["session", "--help"]).exits(0).text();
    assert!(help.contains("SANDBOXD_SERVER") && help.contains("Examples"), "{help}");
    let help =
        Done::of(world.command(&["session", "--help"]).env("SANDBOXD_TOKEN", secret).output().unwrap());
    assert!(!help.exits(0).text().contains(secret));
    assert!(world.ok(&["man"]).contains("SESSION FILES GET"));
}

#[test]
fn a_server_that_dies_is_no_success() {
    let mut world = World::start();
    world.session("s");
    let code = "import time; print(1, flush=True); time.sleep(25)";
    let mut child = world.command(&["session", "exec", "s", "-c", code]).spawn().unwrap();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    world.server.kill().unwrap();
    assert_eq!(soon(&mut child), Some(125));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("connection") && said.contains(&world.url), "{said}");
}

#[test]
fn a_socket_in_the_file_system_is_a_server_and_one_without_tls_is_told() {
    let mut world = World::with(&["--unix-socket", "s.sock"]);
    world.url = format!("unix:{}", world.path("s.sock").display());
    world.session("s");
    assert_eq!(world.exec("s", "print(6 * 7)").exits(0).text(), "42\n");
    world.run(&["session", "list", "--server", "unix:/nowhere/s.sock"]).exits(125).says("sandboxd serve");
    // A server that does not speak TLS is there, and still none that can be talked to.
    let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/base", plain.local_addr().unwrap());
    std::thread::spawn(move || plain.accept().unwrap().0.write_all(b"HTTP/1.1 400 No\r\n\r\n"));
    let refused = world.run(&["session", "list", "--server", &url]).exits(125).says(&url);
    assert!(!refused.stderr.contains("no server answers"), "{}", refused.stderr);
}

/// A terminal with somebody before it, who looks on for a while and then types.
const SOMEBODY: &str = r#"
import os, pty, select, sys, time
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[2], sys.argv[2:])
seen, typed, begin = b"", False, time.time()
while time.time() - begin < 30:
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    if not typed and seen.count(b"stand: 1,") > 1:
        typed = True
        os.write(terminal, bytes.fromhex(sys.argv[1]))
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(code, seen.count(b"\x1b[?1049h"), seen.count(b"\x1b[?1049l"), seen.count(b"\x1b[?25h"))
"#;

#[test]
fn top_leaves_the_terminal_as_it_was() {
    let world = World::start();
    world.session("s");
    for key in ["71", "03"] {
        let top = world.command(&[]);
        let python = Command::new("python3")
            .args(["-c", SOMEBODY, key])
            .arg(top.get_program())
            .args(["top", "--interval", "100ms"])
            .envs(top.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .output();
        assert_eq!(Done::of(python.unwrap()).exits(0).text(), "0 1 1 1\n", "{key}");
    }
}

#[test]
fn top_shows_what_there_is() {
    let world = World::start();
    world.session("s");
    let page = world.ok(&["top"]);
    assert!(page.contains(&world.url) && page.contains("stand: 1,") && page.contains("256.0 MB"), "{page}");
    let code = "import time; print(1, flush=True); time.sleep(25)";
    let mut child = world.command(&["session", "exec", "s", "-c", code]).spawn().unwrap();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    let view = world.run(&["top", "--once", "--json"]).exits(0).json();
    assert_eq!(
        (&view["sessions"][0]["id"], &view["executions"][0]["session_id"]),
        (&"s".into(), &"s".into())
    );
    assert!(view["server"]["uptime_seconds"].as_f64().unwrap() > 0.0, "{view}");
    assert_eq!(view["nodes"][0]["load"]["sessions"], 1, "{view}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    soon(&mut child);

    let mut watch = world.command(&["top", "--json", "--interval", "100ms"]).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map_while(Result::ok);
    for _ in 0..2 {
        let view: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
        assert_eq!(view["sessions"][0]["id"], "s");
    }
    // A reader that leaves ends it, and is no failure.
    drop(lines);
    assert_eq!(soon(&mut watch), Some(0));
    let mut said = String::new();
    watch.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}
