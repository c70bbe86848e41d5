//! Framing: `[length u32][kind u8][stream u32][body]`, all little-endian, length counting what follows it.
//!
//! Control bodies are JSON, all others raw bytes. Output bodies begin with a sequence number that counts
//! chunks over both streams, so that their order survives any carrier.

use serde::Serialize;

/// Longest body accepted from either side.
pub const LONGEST_BODY: usize = 1 << 20;
/// Bytes before the body.
pub const HEADER: usize = 9;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A JSON message.
    Control = 0,
    /// Input for the running program; empty means end of input.
    Stdin = 1,
    /// Output of the running program.
    Stdout = 2,
    /// Diagnostics of the running program.
    Stderr = 3,
    /// Content of a file going in; `stream` is its index in the job.
    FileIn = 4,
    /// Content of a file coming out; `stream` is its index among the artifacts.
    FileOut = 5,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Kind> {
        [Kind::Control, Kind::Stdin, Kind::Stdout, Kind::Stderr, Kind::FileIn, Kind::FileOut]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it carries.
    pub kind: Kind,
    /// Which of several streams of that kind.
    pub stream: u32,
    /// What is carried.
    pub body: Vec<u8>,
}

/// Why bytes are no frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length is impossible.
    #[error("a frame of {0} bytes is out of bounds")]
    Length(usize),
    /// The kind is unknown.
    #[error("a frame has the unknown kind {0}")]
    Kind(u8),
    /// An output chunk lacks its number.
    #[error("an output frame is too short for its sequence number")]
    Sequence,
    /// The JSON is not a message.
    #[error("a control frame is not a message: {0}")]
    Message(String),
}

impl Frame {
    /// A control frame.
    pub fn control(message: &impl Serialize) -> Frame {
        // Messages are plain data with string keys, which always have a JSON form.
        let body = serde_json::to_vec(message).unwrap_or_default();
        Frame { kind: Kind::Control, stream: 0, body }
    }

    /// A chunk of output with its number.
    pub fn output(kind: Kind, sequence: u64, bytes: &[u8]) -> Frame {
        let mut body = Vec::with_capacity(8 + bytes.len());
        body.extend(sequence.to_le_bytes());
        body.extend(bytes);
        Frame { kind, stream: 0, body }
    }

    /// The number and the bytes of a chunk of output.
    pub fn chunk(&self) -> Result<(u64, &[u8]), FrameError> {
        let (sequence, bytes) = self.body.split_first_chunk::<8>().ok_or(FrameError::Sequence)?;
        Ok((u64::from_le_bytes(*sequence), bytes))
    }

    /// The message of a control frame.
    pub fn message<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, FrameError> {
        serde_json::from_slice(&self.body).map_err(|e| FrameError::Message(e.to_string()))
    }

    /// Appends the frame's bytes.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve(HEADER + self.body.len());
        out.extend((self.body.len() as u32 + 5).to_le_bytes());
        out.push(self.kind as u8);
        out.extend(self.stream.to_le_bytes());
        out.extend(&self.body);
    }
}

/// Bytes of frames that were taken out, beyond which they are forgotten: what stays small stays in the cache.
const FORGOTTEN: usize = 64 << 10;

/// Turns bytes, however they were cut, back into frames.
#[derive(Debug, Default)]
pub struct Reader {
    buffer: Vec<u8>,
    used: usize,
}

impl Reader {
    /// Takes what arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.used > 0 && self.used == self.buffer.len() {
            self.buffer.clear();
            self.used = 0;
        } else if self.used > FORGOTTEN {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if it has arrived.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let bytes = &self.buffer[self.used..];
        let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if !(5..=LONGEST_BODY + 5).contains(&length) {
            return Err(FrameError::Length(length));
        }
        let Some((frame, _)) = rest.split_at_checked(length) else { return Ok(None) };
        let Some(([kind, stream @ ..], body)) = frame.split_first_chunk::<5>() else { return Ok(None) };
        let kind = Kind::from_byte(*kind).ok_or(FrameError::Kind(*kind))?;
        let frame = Frame { kind, stream: u32::from_le_bytes(*stream), body: body.to_vec() };
        self.used += 4 + length;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_frame() -> impl Strategy<Value = Frame> {
        (0u8..6, any::<u32>(), proptest::collection::vec(any::<u8>(), 0..300))
            .prop_map(|(kind, stream, body)| Frame { kind: Kind::from_byte(kind).unwrap(), stream, body })
    }

    proptest! {
        #[test]
        fn frames_survive_any_cutting(
            frames in proptest::collection::vec(any_frame(), 0..8),
            cut in 1usize..50,
        ) {
            let mut bytes = Vec::new();
            frames.iter().for_each(|frame| frame.write_to(&mut bytes));
            let mut reader = Reader::default();
            let mut read = Vec::new();
            for piece in bytes.chunks(cut) {
                reader.push(piece);
                while let Some(frame) = reader.next_frame().unwrap() {
                    read.push(frame);
                }
            }
            prop_assert_eq!(read, frames);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let mut reader = Reader::default();
            reader.push(&bytes);
            while let Ok(Some(frame)) = reader.next_frame() {
                let _ = frame.chunk();
                let _ = frame.message::<crate::FromExecutor>();
                let _ = frame.message::<crate::FromHost>();
            }
        }
    }

    #[test]
    fn impossible_lengths_are_refused_before_they_are_waited_for() {
        for length in [0u32, 4, LONGEST_BODY as u32 + 6, u32::MAX] {
            let mut reader = Reader::default();
            reader.push(&length.to_le_bytes());
            assert_eq!(reader.next_frame(), Err(FrameError::Length(length as usize)));
        }
    }
}
