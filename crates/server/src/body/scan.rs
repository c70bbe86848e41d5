//! A look at JSON before it is read: how deep it is, how much there is, and whether a key is there twice.
//!
//! It goes over the text once, without recursion, and stops at the first fault. It does not judge numbers, words and
//! separators: whoever reads the text does.

use std::borrow::Cow;
use std::collections::HashSet;

/// Most keys, in all objects together.
const MOST_KEYS: usize = 100_000;
/// Most values: each takes more memory than text.
const MOST_VALUES: usize = 1_000_000;

/// Why text is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("the body is empty")]
    Empty,
    #[error("the body begins with a byte order mark")]
    Mark,
    #[error("the body is not UTF-8")]
    NotUtf8,
    #[error("the body is nested deeper than {0} levels")]
    TooDeep(usize),
    #[error("the body has more than {MOST_KEYS} keys")]
    TooManyKeys,
    #[error("the body has more than {MOST_VALUES} values")]
    TooManyValues,
    #[error("the key `{0}` is there twice")]
    Twice(String),
    #[error("the body ends inside of a text")]
    OpenText,
    #[error("the body has a bracket that does not fit")]
    Bracket,
}

impl Fault {
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            Fault::Empty => Some("send a JSON object"),
            Fault::Mark | Fault::NotUtf8 => Some("send UTF-8 without a byte order mark"),
            _ => None,
        }
    }
}

/// The body as text.
pub(super) fn text(bytes: &[u8]) -> Result<&str, Fault> {
    if bytes.is_empty() {
        return Err(Fault::Empty);
    }
    if bytes.starts_with(b"\xef\xbb\xbf") || bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff")
    {
        return Err(Fault::Mark);
    }
    std::str::from_utf8(bytes).map_err(|_| Fault::NotUtf8)
}

/// An object or an array that is open.
enum Level<'a> {
    Object { keys: HashSet<Cow<'a, str>>, expects_key: bool },
    Array,
}

/// Looks at the text.
pub(super) fn check(text: &str, depth: usize) -> Result<(), Fault> {
    let bytes = text.as_bytes();
    let mut open: Vec<Level<'_>> = Vec::new();
    let (mut at, mut keys, mut values) = (0, 0, 0);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => {
                if open.len() >= depth {
                    return Err(Fault::TooDeep(depth));
                }
                open.push(match byte {
                    b'{' => Level::Object { keys: HashSet::new(), expects_key: true },
                    _ => Level::Array,
                });
            }
            b'}' if !matches!(open.pop(), Some(Level::Object { .. })) => return Err(Fault::Bracket),
            b']' if !matches!(open.pop(), Some(Level::Array)) => return Err(Fault::Bracket),
            b',' => {
                values += 1;
                if values >= MOST_VALUES {
                    return Err(Fault::TooManyValues);
                }
                if let Some(Level::Object { expects_key, .. }) = open.last_mut() {
                    *expects_key = true;
                }
            }
            b'"' => {
                let end = end_of_text(bytes, at).ok_or(Fault::OpenText)?;
                if let Some(Level::Object { keys: seen, expects_key }) = open.last_mut()
                    && std::mem::take(expects_key)
                {
                    keys += 1;
                    if keys > MOST_KEYS {
                        return Err(Fault::TooManyKeys);
                    }
                    let key = key(text, at, end);
                    if let Some(twice) = seen.replace(key) {
                        return Err(Fault::Twice(twice.chars().take(64).collect()));
                    }
                }
                at = end + 1;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Where the quote is that ends the text which begins here.
fn end_of_text(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The key between these places, which are those of its quotes, as it is meant. One that is not written properly is
/// nobody's twin; the reader will complain.
fn key(text: &str, start: usize, end: usize) -> Cow<'_, str> {
    let plain = &text[start..end];
    if !plain.contains('\\') {
        return Cow::Borrowed(plain);
    }
    serde_json::from_str(&text[start - 1..=end]).map_or(Cow::Borrowed(plain), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn depth_is_bounded_however_deep() {
        assert_eq!(check("[[[]]]", 3), Ok(()));
        assert_eq!(check("[[[[]]]]", 3), Err(Fault::TooDeep(3)));
        assert_eq!(check(&"[".repeat(1_000_000), 64), Err(Fault::TooDeep(64)));
        assert_eq!(check("[\"[[[[[[[\"]", 1), Ok(()), "brackets in texts are none");
    }

    #[test]
    fn a_key_is_there_once_however_it_is_written() {
        assert_eq!(check(r#"{"a":{"a":1},"b":["a","a"],"A":2}"#, 8), Ok(()));
        assert_eq!(check(r#"{"a":1,"a":2}"#, 8), Err(Fault::Twice("a".into())));
        assert_eq!(check(r#"{"a":1,"\u0061":2}"#, 8), Err(Fault::Twice("a".into())));
        assert_eq!(check(r#"[{"a":1},{"a":2}]"#, 8), Ok(()));
    }

    #[test]
    fn there_is_a_bound_on_how_many() {
        let keys: Vec<String> = (0..=MOST_KEYS).map(|i| format!("\"{i}\":0")).collect();
        assert_eq!(check(&format!("{{{}}}", keys.join(",")), 8), Err(Fault::TooManyKeys));
        assert_eq!(check(&format!("[{}0]", "0,".repeat(MOST_VALUES)), 8), Err(Fault::TooManyValues));
    }

    proptest! {
        #[test]
        fn what_serde_writes_is_fine(
            map in proptest::collection::btree_map(any::<String>(), any::<Vec<String>>(), 0..8)
        ) {
            prop_assert_eq!(check(&serde_json::to_string(&map).unwrap(), 8), Ok(()));
        }

        #[test]
        fn nothing_makes_it_panic(text in any::<String>(), tail in "[\\[\\]{}\":,\\\\a]{0,40}") {
            let _ = check(&(text + &tail), 8);
        }
    }
}
