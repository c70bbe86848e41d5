//! Arbitrary bytes, arbitrarily cut, as a control stream.
//!
//! Laws: frames read, written again, are the bytes they were read from, however these were cut; reading
//! stops only at the end, or at a header that may not be; a message survives being written and read; memory
//! is bounded by what arrived, and for a stream without end by a constant.
#![no_main]

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use protocol::{Frame, FrameError, FromExecutor, FromHost, LONGEST_BODY, Reader};
use std::alloc::System;
use std::fmt::Debug;

/// Stops the process, and so fails, when a limit set below is exceeded.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// JSON grows when it is read: the two bytes `[]` become a list with room for four values of 32 each.
const GROWTH: usize = 128;
const SLACK: usize = 64 << 10;
/// A prime, so that pieces end anywhere in a frame.
const PIECE: usize = 65_521;

fuzz_target!(|input: &[u8]| {
    let Some((&cutting, stream)) = input.split_first() else { return };
    if cutting == u8::MAX {
        without_end(stream);
    } else {
        once(cutting, stream);
    }
});

fn once(cutting: u8, stream: &[u8]) {
    let _limit = Limit::set(GROWTH * stream.len() + SLACK);
    let mut reader = Reader::default();
    let mut written = Vec::new();
    let mut error = None;
    for piece in Pieces::of(cutting, stream) {
        reader.push(piece);
        error = read_all(&mut reader, |frame| {
            judge(&frame);
            frame.write_to(&mut written);
        });
        if error.is_some() {
            break;
        }
    }
    let rest =
        stream.strip_prefix(written.as_slice()).expect("frames written are the bytes they were read from");
    assert_eq!(error, expected(rest), "reading stopped before {rest:?}");
    if error.is_some() {
        assert_eq!(reader.next_frame().err(), error, "an error stays");
    }
}

/// What reading says before bytes that are no whole frame.
fn expected(rest: &[u8]) -> Option<FrameError> {
    let length = u32::from_le_bytes(*rest.first_chunk()?) as usize;
    if !(5..=LONGEST_BODY + 5).contains(&length) {
        return Some(FrameError::Length(length));
    }
    let frame = rest.get(4..4 + length)?;
    assert!(frame[0] > 5, "a whole frame was left behind");
    Some(FrameError::Kind(frame[0]))
}

fn judge(frame: &Frame) {
    match frame.chunk() {
        Ok((sequence, bytes)) => assert_eq!(Frame::output(frame.kind, sequence, bytes).body, frame.body),
        Err(error) => assert!(error == FrameError::Sequence && frame.body.len() < 8),
    }
    survives(frame.message::<FromExecutor>());
    survives(frame.message::<FromHost>());
}

fn survives<T>(message: Result<T, FrameError>)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + Debug,
{
    if let Ok(message) = message {
        assert_eq!(Frame::control(&message).message::<T>().as_ref(), Ok(&message));
    }
}

/// The same frames again and again, cut anywhere: what was read must be let go of.
fn without_end(stream: &[u8]) {
    if stream.is_empty() {
        return;
    }
    let stock = stream.repeat(PIECE / stream.len() + 2);
    let _limit = Limit::set(8 * LONGEST_BODY);
    let mut reader = Reader::default();
    let mut arrived = 0;
    while arrived < 9 * LONGEST_BODY {
        let at = arrived % stream.len();
        reader.push(&stock[at..at + PIECE]);
        arrived += PIECE;
        if read_all(&mut reader, drop).is_some() {
            return;
        }
    }
}

fn read_all(reader: &mut Reader, mut take: impl FnMut(Frame)) -> Option<FrameError> {
    loop {
        match reader.next_frame() {
            Ok(Some(frame)) => take(frame),
            Ok(None) => return None,
            Err(error) => return Some(error),
        }
    }
}

/// A stream in pieces whose lengths follow from one number; 0 leaves it whole.
struct Pieces<'a> {
    rest: &'a [u8],
    number: u32,
}

impl<'a> Pieces<'a> {
    fn of(number: u8, rest: &'a [u8]) -> Pieces<'a> {
        Pieces { rest, number: number.into() }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let length = match self.number {
            0 => self.rest.len(),
            number => (number >> 3) as usize % 24,
        };
        self.number = self.number.wrapping_mul(75).wrapping_add(self.number.min(1)) % 65_537;
        let (piece, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        Some(piece)
    }
}

/// How much more may be allocated while this lives.
struct Limit;

impl Limit {
    fn set(more: usize) -> Limit {
        MEMORY.set_limit(MEMORY.allocated() + more).expect("the limit is above what is in use");
        Limit
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let _ = MEMORY.set_limit(usize::MAX);
    }
}
