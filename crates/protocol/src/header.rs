//! What a waiting program is told when there is something to do.
//!
//! Eight hexadecimal digits give the length of the rest, which is strings each ended by a NUL: how many
//! arguments, the arguments, and variables as `NAME=value`. It comes on standard input, before what the program
//! will read there, so not one byte too many may be taken. Before it, a copy of an interpreter is told in the same way
//! what it shall do while it waits for it: one program, or nothing, and whether anybody waits already.

use std::ffi::CString;
use std::io::{ErrorKind, Read};

/// What it has to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is, then what it is given.
    pub arguments: Vec<CString>,
    /// `NAME=value` of each variable to set.
    pub variables: Vec<CString>,
}

/// The bytes of a header. Nothing in it may have a NUL.
pub fn header<'a>(
    arguments: impl ExactSizeIterator<Item = &'a str>,
    variables: impl Iterator<Item = impl AsRef<str>>,
) -> Vec<u8> {
    let mut body = format!("{}\0", arguments.len()).into_bytes();
    let mut say = |text: &str| {
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    };
    arguments.for_each(&mut say);
    variables.for_each(|variable| say(variable.as_ref()));
    measured(&body)
}

/// What a copy of an interpreter does before it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsal {
    /// A program, or nothing.
    pub program: String,
    /// Whether somebody waits for it already: then nothing else is done that only makes what follows faster.
    pub hurry: bool,
}

impl Rehearsal {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let first = if self.hurry { '!' } else { '.' };
        measured(format!("{first}{}", self.program).as_bytes())
    }

    /// Reads exactly one. `None` when the other side hung up before it was complete.
    pub fn read(from: &mut impl Read) -> Result<Option<Rehearsal>, String> {
        let Some(body) = read_measured(from)? else { return Ok(None) };
        match body.split_first() {
            Some((first @ (b'!' | b'.'), program)) => Ok(Some(Rehearsal {
                program: String::from_utf8_lossy(program).into_owned(),
                hurry: *first == b'!',
            })),
            _ => Err("a rehearsal does not say whether there is a hurry".into()),
        }
    }
}

fn measured(body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{:08x}", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

impl Header {
    /// Reads exactly one. `None` when the other side hung up before it was complete: nobody wants this child.
    pub fn read(from: &mut impl Read) -> Result<Option<Header>, String> {
        let Some(body) = read_measured(from)? else { return Ok(None) };
        Header::understand(&body).map(Some).ok_or("the header is not what its length and count say".into())
    }

    fn understand(body: &[u8]) -> Option<Header> {
        let mut strings = body.strip_suffix(b"\0")?.split(|&byte| byte == 0);
        let count: usize = std::str::from_utf8(strings.next()?).ok()?.parse().ok()?;
        let arguments: Vec<CString> =
            strings.by_ref().take(count).map(|bytes| CString::new(bytes).ok()).collect::<Option<_>>()?;
        let variables = strings
            .map(|bytes| CString::new(bytes).ok().filter(|_| bytes.contains(&b'=')))
            .collect::<Option<_>>()?;
        (count > 0 && arguments.len() == count).then_some(Header { arguments, variables })
    }
}

fn read_measured(from: &mut impl Read) -> Result<Option<Vec<u8>>, String> {
    let Some(digits) = exactly(from, 8)? else { return Ok(None) };
    let length = std::str::from_utf8(&digits).ok().and_then(|text| u32::from_str_radix(text, 16).ok());
    exactly(from, length.ok_or("the header does not begin with its length")? as usize)
}

/// So many bytes and not one more, or `None` if there are fewer.
fn exactly(from: &mut impl Read, length: usize) -> Result<Option<Vec<u8>>, String> {
    let mut bytes = vec![0; length];
    match from.read_exact(&mut bytes) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(format!("the header cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (Result<Option<Header>, String>, usize) {
        let mut rest = bytes;
        let header = Header::read(&mut rest);
        (header, rest.len())
    }

    #[test]
    fn it_takes_what_it_has_and_leaves_the_rest() {
        let (header, rest) = read(b"000000172\0main.py\0--x\0A=b=c\0B=\0input");
        let string = |text: &str| CString::new(text).unwrap();
        let header = header.unwrap().unwrap();
        assert_eq!(header.arguments, [string("main.py"), string("--x")]);
        assert_eq!(header.variables, [string("A=b=c"), string("B=")]);
        assert_eq!(rest, 5);
    }

    #[test]
    fn what_is_said_is_heard() {
        let (arguments, variables) = (["main.py", "", "\u{e9}"], ["A=b=c", "B="]);
        let bytes = super::header(arguments.into_iter(), variables.into_iter());
        let heard = read(&bytes).0.unwrap().unwrap();
        let strings = |all: &[&str]| all.iter().map(|text| CString::new(*text).unwrap()).collect::<Vec<_>>();
        assert_eq!(heard, Header { arguments: strings(&arguments), variables: strings(&variables) });
    }

    #[test]
    fn a_rehearsal_comes_before_it() {
        let rehearsal = |program: &str, hurry| Rehearsal { program: program.to_owned(), hurry };
        let all = [rehearsal("x = '\u{e9}'\n", false), rehearsal("", true)];
        let bytes = [all[0].bytes(), all[1].bytes(), header(["a"].into_iter(), ["B="].into_iter())].concat();
        let mut rest = bytes.as_slice();
        for one in all {
            assert_eq!(Rehearsal::read(&mut rest), Ok(Some(one)));
        }
        assert_eq!(Header::read(&mut rest).unwrap().unwrap().arguments.len(), 1);
        assert_eq!(Rehearsal::read(&mut rest), Ok(None));
        assert!(Rehearsal::read(&mut &b"00000000"[..]).is_err());
        assert!(Rehearsal::read(&mut &b"00000001x"[..]).is_err());
    }

    #[test]
    fn empty_arguments_are_arguments() {
        let (header, _) = read(b"0000000c3\0main.py\0\0\0");
        assert_eq!(header.unwrap().unwrap().arguments.len(), 3);
    }

    #[test]
    fn an_end_before_its_end_is_no_header() {
        let whole = b"0000000a1\0main.py\0";
        assert!(read(whole).0.unwrap().is_some());
        for cut in 0..whole.len() {
            assert_eq!(read(&whole[..cut]).0, Ok(None), "{cut}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for bytes in [
            &b"xxxxxxxx"[..],
            b"000000022\0",
            b"000000020\0",
            b"000000091\0main.py",
            b"0000000d1\0main.py\0NO\0",
        ] {
            assert!(read(bytes).0.is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
    }
}
