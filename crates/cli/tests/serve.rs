//! `sandboxd serve`, as people and systemd start it.
#![cfg(test)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server that was started, and what it says.
struct Served {
    child: Child,
    greeting: String,
    log: std::thread::JoinHandle<Vec<String>>,
}

fn sandboxd() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandboxd"));
    // Nothing is run here, so it does not matter that this is none.
    command.env("SANDBOXD_EXECUTOR", env!("CARGO_BIN_EXE_sandboxd")).stderr(Stdio::piped());
    command
}

fn start(mut command: Command) -> Served {
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let greeting: Vec<String> = lines.by_ref().take_while(|line| !line.contains("\"ready\"")).collect();
    let log = std::thread::spawn(move || lines.collect());
    Served { child, greeting: greeting.join("\n"), log }
}

impl Served {
    fn signal(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Tells it to stop, and waits.
    fn stop(mut self) -> (ExitStatus, Vec<String>) {
        self.signal();
        let until = Instant::now() + Duration::from_secs(15);
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > until => {
                    self.child.kill().unwrap();
                    panic!("it does not stop");
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        (status, self.log.join().unwrap())
    }

    fn address(&self) -> SocketAddr {
        let (_, rest) = self.greeting.split_once("http://").unwrap_or_else(|| panic!("{}", self.greeting));
        rest.split([',', '/']).next().unwrap().parse().unwrap()
    }
}

fn ask(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"))
}

fn token(state: &Path) -> String {
    std::fs::read_to_string(state.join("token")).unwrap().trim().to_owned()
}

#[test]
fn it_says_what_to_paste_and_logs_one_object_a_line_without_a_secret() {
    let folder = TempDir::new().unwrap();
    let state = folder.path().join("state");
    let mut command = sandboxd();
    command.args(["serve", "--port", "0", "--state-dir"]).arg(&state);
    let served = start(command);
    let (address, token) = (served.address(), token(&state));
    assert!(address.ip().is_loopback());
    let paste = format!("$(cat {})", state.join("token").display());
    assert!(
        served.greeting.contains(&paste) && served.greeting.contains("curl http://"),
        "{}",
        served.greeting
    );
    assert!(!served.greeting.contains(&token));

    let bearer = format!("Authorization: Bearer {token}\r\n");
    assert!(get(address, "/api/v1/keys", &bearer).starts_with("HTTP/1.1 200 "));
    get(address, &format!("/api/v1/keys?token={token}"), "");
    get(address, "/api/v1/keys", &format!("X-API-Key: {token}x\r\n"));
    let odd = "User-Agent: a\u{202e}\u{2028}{\"level\":\"ERROR\"}\r\nX-Request-ID: \"},{\r\n";
    get(address, "/x%0a%7b%22level%22%7d\"}", odd);
    let body = "{\"name\":\"in the body\",\"scopes\":[\"run\"]}";
    let made = ask(
        address,
        &format!(
            "POST /api/v1/keys HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{bearer}\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
    );
    let secret = made.split("\"token\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(secret.starts_with("sbx_"));

    let (status, log) = served.stop();
    assert!(status.success(), "{status}");
    let mut requests = 0;
    for line in &log {
        let said: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("no object: {line}"));
        assert!(said["level"].is_string() && said["timestamp"].is_string(), "{line}");
        requests += usize::from(said["target"] == "sandboxd::access");
        for private in [token.as_str(), secret.as_str(), "in the body", "\u{202e}", "\u{2028}"] {
            assert!(!line.contains(private), "{line}");
        }
    }
    assert_eq!(requests, 5, "{log:#?}");
}

#[test]
fn a_second_server_in_the_same_directory_names_the_first() {
    let folder = TempDir::new().unwrap();
    let mut command = sandboxd();
    command.args(["serve", "--port", "0", "--state-dir"]).arg(folder.path());
    let served = start(command);
    let out = sandboxd().args(["serve", "--port", "0", "--state-dir"]).arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(125), "{said}");
    assert!(said.contains(&served.child.id().to_string()) && said.contains("hint:"), "{said}");
    served.stop();
}

#[test]
fn other_machines_take_two_words() {
    let folder = TempDir::new().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, "a-token-of-my-own-1234\n").unwrap();
    for more in [&[][..], &["--allow-remote"]] {
        let out = sandboxd()
            .args(["serve", "--host", "0.0.0.0", "--port", "0", "--state-dir"])
            .arg(folder.path().join("state"))
            .args(more)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains("--token-file"), "{said}");
    }
    // A token that others may read is none.
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let serve = || {
        let mut command = sandboxd();
        command.args(["serve", "--port", "0", "--token-file"]).arg(&key);
        command.arg("--state-dir").arg(folder.path().join("state"));
        command
    };
    let out = serve().output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("chmod 600"));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let served = start(serve());
    let bearer = "Authorization: Bearer a-token-of-my-own-1234\r\n";
    assert!(get(served.address(), "/api/v1/keys", bearer).starts_with("HTTP/1.1 200 "));
    assert!(!folder.path().join("state/token").exists());
    served.stop();
}

#[test]
fn a_socket_that_was_opened_for_it_is_used() {
    let folder = TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec env LISTEN_PID=$$ LISTEN_FDS=1 \"$@\" 3<&0 </dev/null", "sh"])
        .arg(env!("CARGO_BIN_EXE_sandboxd"))
        .args(["serve", "--port", "1", "--state-dir"])
        .arg(folder.path())
        .env("SANDBOXD_EXECUTOR", env!("CARGO_BIN_EXE_sandboxd"))
        .stdin(OwnedFd::from(listener))
        .stderr(Stdio::piped());
    let served = start(command);
    assert_eq!(served.address(), address);
    assert!(get(address, "/health", "").starts_with("HTTP/1.1 200 "));
    let (status, _) = served.stop();
    assert!(status.success());
}
