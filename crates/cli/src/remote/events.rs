//! What happens to an execution, as a server tells it: server-sent events.

use super::RemoteError;
use super::client::Client;
use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Response;
use serde_json::Value;
use std::time::Duration;

/// A server says something every 15 seconds, if only that it is there.
const SILENCE: Duration = Duration::from_secs(60);
/// Longest line that is taken.
const MOST: usize = 256 << 20;

/// Something that happened.
#[derive(Debug, PartialEq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) data: Value,
}

impl Event {
    /// The bytes of a piece of output.
    pub(super) fn bytes(&self) -> Vec<u8> {
        match (self.data["text"].as_str(), self.data["base64"].as_str()) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(text)) => STANDARD.decode(text).unwrap_or_default(),
            (None, None) => Vec::new(),
        }
    }
}

/// An answer that goes on.
pub(super) struct Events {
    client: Client,
    response: Response,
    lines: Lines,
}

impl Events {
    pub(super) fn of(client: &Client, response: Response) -> Events {
        Events { client: client.clone(), response, lines: Lines::default() }
    }

    /// The next one; none when the answer is over.
    pub(super) async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(event) = self.lines.next() {
                return Ok(Some(event));
            }
            if self.lines.held() > MOST {
                return Err(self.client.odd().into());
            }
            let chunk = tokio::time::timeout(SILENCE, self.response.chunk()).await.map_err(|_| {
                RemoteError::new(format!("`{}` has said nothing for a minute", self.client.name()))
            })?;
            match chunk.map_err(|error| self.client.failed(error))? {
                Some(bytes) => self.lines.push(&bytes),
                None => return Ok(None),
            }
        }
    }
}

/// Bytes on their way to being events.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// Where the next line begins.
    at: usize,
    /// Up to where there is no end of a line.
    searched: usize,
    name: String,
    data: Vec<String>,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.searched -= self.at;
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    fn held(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn next(&mut self) -> Option<Event> {
        while let Some(line) = self.line() {
            match line.split_once(':').unwrap_or((line.as_str(), "")) {
                ("", _) if line.is_empty() => {
                    let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
                    if !data.is_empty() {
                        let data = serde_json::from_str(&data.join("\n")).unwrap_or(Value::Null);
                        return Some(Event { name, data });
                    }
                }
                ("event", value) => self.name = unspaced(value),
                ("data", value) => self.data.push(unspaced(value)),
                // Numbers are for those who come back, and comments for those who wait.
                _ => {}
            }
        }
        None
    }

    fn line(&mut self) -> Option<String> {
        let Some(end) = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len();
            return None;
        };
        let end = self.searched + end;
        let line = String::from_utf8_lossy(&self.bytes[self.at..end]).trim_end_matches('\r').to_owned();
        (self.at, self.searched) = (end + 1, end + 1);
        Some(line)
    }
}

fn unspaced(value: &str) -> String {
    value.strip_prefix(' ').unwrap_or(value).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_are_the_same_however_they_are_cut() {
        let text = "id: 1\nevent: stdout\ndata: {\"text\":\"a\\nü\"}\n\n: still there\n\nevent: stderr\r\ndata: {\"base64\":\n\
                    data: \"AP8=\"}\r\n\r\nevent: finished\ndata: {}\n\n";
        for size in [1, 2, 3, 7, 1000] {
            let (mut lines, mut events) = (Lines::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                lines.push(piece);
                events.extend(std::iter::from_fn(|| lines.next()));
            }
            let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
            assert_eq!(names, ["stdout", "stderr", "finished"], "{size}");
            assert_eq!(events[0].bytes(), "a\nü".as_bytes());
            assert_eq!(events[1].bytes(), [0, 255]);
            assert_eq!(events[2].data, json!({}));
        }
    }

    #[test]
    fn what_is_not_over_is_no_event() {
        let mut lines = Lines::default();
        lines.push(b"event: stdout\ndata: {\"text\":\"a\"}\n");
        assert_eq!(lines.next(), None);
        lines.push(b"\n");
        assert_eq!(lines.next().unwrap().bytes(), b"a");
        assert_eq!((lines.next(), lines.held()), (None, 0));
    }
}
