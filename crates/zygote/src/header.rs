//! What a waiting child is told when its program is there.
//!
//! Eight hexadecimal digits give the length of the rest, which is strings each ended by a NUL: how many
//! arguments, the arguments, and variables as `NAME=value`. It comes on standard input, before what the program
//! will read there, so not one byte too many may be taken.

use std::ffi::CString;
use std::io::{ErrorKind, Read};

/// A program to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The path of the main file, then what the program is given.
    pub(crate) arguments: Vec<CString>,
    /// Name and value of each variable to set.
    pub(crate) variables: Vec<(CString, CString)>,
}

impl Header {
    /// Reads exactly one. `None` when the other side hung up before it was complete: nobody wants this child.
    pub(crate) fn read(from: &mut impl Read) -> Result<Option<Header>, String> {
        let Some(digits) = exactly(from, 8)? else { return Ok(None) };
        let length = std::str::from_utf8(&digits).ok().and_then(|text| u32::from_str_radix(text, 16).ok());
        let length = length.ok_or("the header does not begin with its length")?;
        let Some(body) = exactly(from, length as usize)? else { return Ok(None) };
        Header::understand(&body).map(Some).ok_or("the header is not what its length and count say".into())
    }

    fn understand(body: &[u8]) -> Option<Header> {
        let mut strings = body.strip_suffix(b"\0")?.split(|&byte| byte == 0);
        let count: usize = std::str::from_utf8(strings.next()?).ok()?.parse().ok()?;
        let arguments: Vec<CString> =
            strings.by_ref().take(count).map(|bytes| CString::new(bytes).ok()).collect::<Option<_>>()?;
        let variables = strings
            .map(|bytes| {
                let equals = bytes.iter().position(|&byte| byte == b'=')?;
                Some((CString::new(&bytes[..equals]).ok()?, CString::new(&bytes[equals + 1..]).ok()?))
            })
            .collect::<Option<_>>()?;
        (count > 0 && arguments.len() == count).then_some(Header { arguments, variables })
    }
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
        assert_eq!(header.variables, [(string("A"), string("b=c")), (string("B"), string(""))]);
        assert_eq!(rest, 5);
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
