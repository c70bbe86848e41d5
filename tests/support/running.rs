//! A command that runs, with both its streams followed.

use super::{Out, host};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// What a stream has said so far, and whether it is over.
type Said = Arc<(Mutex<(Vec<u8>, bool)>, Condvar)>;

pub(crate) struct Running {
    child: Option<Child>,
    stdin: Option<ChildStdin>,
    stdout: Said,
    stderr: Said,
    began: Instant,
    shown: String,
}

impl Running {
    pub(super) fn new(mut child: Child, shown: String) -> Running {
        let stdout = child.stdout.take().map_or_else(|| follow(std::io::empty()), follow);
        let stderr = follow(child.stderr.take().unwrap());
        Running {
            stdin: child.stdin.take(),
            child: Some(child),
            stdout,
            stderr,
            began: Instant::now(),
            shown,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid() as i32).unwrap(), signal).unwrap();
    }

    /// Types everything and hangs up, without waiting for anybody to read it.
    pub(crate) fn type_in(&mut self, bytes: Vec<u8>) {
        if let Some(mut stdin) = self.stdin.take()
            && !bytes.is_empty()
        {
            std::thread::spawn(move || drop(stdin.write_all(&bytes)));
        }
    }

    /// Types this, and may go on.
    pub(crate) fn types(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Waits until standard output contains these words.
    pub(crate) fn until_it_says(&self, words: &str) {
        self.until(&self.stdout, words);
    }

    /// Waits until standard error contains these words.
    pub(crate) fn until_it_complains(&self, words: &str) {
        self.until(&self.stderr, words);
    }

    fn until(&self, stream: &Said, words: &str) {
        let (said, news) = &**stream;
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut said = said.lock().unwrap();
        while !String::from_utf8_lossy(&said.0).contains(words) {
            let left = deadline.saturating_duration_since(Instant::now());
            let heard = String::from_utf8_lossy(&said.0);
            assert!(!said.1 && !left.is_zero(), "it never said `{words}`: {}\n{heard}", self.shown);
            said = news.wait_timeout(said, left).unwrap().0;
        }
    }

    /// What it has said on standard error so far.
    pub(crate) fn complained(&self) -> String {
        text(&self.stderr)
    }

    /// Waits until a program of this name runs somewhere below it.
    pub(crate) fn until_it_runs(&self, name: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let named = |pid: &u32| host::status(*pid, "Name").as_deref() == Some(name);
        while !host::descendants(self.pid()).iter().any(named) {
            assert!(Instant::now() < deadline, "`{name}` never ran: {}\n{}", self.shown, text(&self.stderr));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until it ends, while whoever types to it does not hang up.
    pub(crate) fn until_it_ends(&mut self, patience: Duration) {
        let deadline = self.began + patience;
        while self.is_running() {
            assert!(Instant::now() < deadline, "it does not end: {}", self.shown);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.as_mut().unwrap().try_wait(), Ok(None))
    }

    /// Waits for its end, and for the end of its streams, which nobody else may hold open.
    pub(crate) fn out(mut self, patience: Duration) -> Out {
        self.stdin = None;
        let mut child = self.child.take().unwrap();
        let pid = Pid::from_raw(child.id() as i32).unwrap();
        let deadline = self.began + patience;
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(child.wait()));
        let Ok(status) = told.recv_timeout(deadline.saturating_duration_since(Instant::now())) else {
            let _ = kill_process(pid, Signal::KILL);
            panic!("did not end within {patience:?}: {}\n{}", self.shown, text(&self.stderr));
        };
        let took = self.began.elapsed();
        let status = status.unwrap();
        Out {
            code: status.code().unwrap_or_else(|| -status.signal().unwrap_or(0)),
            stdout: self.whole(&self.stdout),
            stderr: self.whole(&self.stderr),
            took,
            shown: std::mem::take(&mut self.shown),
        }
    }

    fn whole(&self, said: &Said) -> Vec<u8> {
        let (said, news) = &**said;
        let (mut said, wait) =
            news.wait_timeout_while(said.lock().unwrap(), Duration::from_secs(5), |said| !said.1).unwrap();
        assert!(!wait.timed_out(), "somebody still holds its output open: {}", self.shown);
        std::mem::take(&mut said.0)
    }
}

impl Drop for Running {
    /// A test that failed half-way leaves nothing running.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn follow(mut stream: impl Read + Send + 'static) -> Said {
    let said: Said = Said::default();
    let shared = Arc::clone(&said);
    std::thread::spawn(move || {
        let mut buffer = [0; 64 << 10];
        loop {
            let length = stream.read(&mut buffer).unwrap_or(0);
            let (said, news) = &*shared;
            let mut said = said.lock().unwrap();
            said.0.extend(&buffer[..length]);
            said.1 = length == 0;
            news.notify_all();
            if length == 0 {
                return;
            }
        }
    });
    said
}

fn text(said: &Said) -> String {
    String::from_utf8_lossy(&said.0.lock().unwrap().0).into_owned()
}
