//! What a program wrote, kept as its bytes. What a record shows of it is made while the record is written, because
//! text and base64 of bytes that are no text take several times their memory.

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// Output as text; bytes that are no text are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(Arc<Vec<u8>>);

impl Text {
    /// Whether its last line has no end.
    pub fn is_unfinished(&self) -> bool {
        self.0.last().is_some_and(|byte| *byte != b'\n')
    }

    /// Its exact bytes.
    pub(crate) fn bytes(&self) -> Arc<Vec<u8>> {
        self.0.clone()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.utf8_chunks() {
            f.write_str(part.valid())?;
            if !part.invalid().is_empty() {
                f.write_str("\u{fffd}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Exact output in base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exact(Arc<Vec<u8>>);

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(&self.0, &STANDARD))
    }
}

/// Output as text, and its exact bytes where that is not the same.
pub(crate) fn text(mut bytes: Vec<u8>, truncated: bool) -> (Text, Option<Exact>) {
    let mut valid = std::str::from_utf8(&bytes).map(drop);
    if let (true, Err(error)) = (truncated, valid)
        && error.error_len().is_none()
    {
        // The cut went through a character; half of one is noise.
        bytes.truncate(error.valid_up_to());
        valid = Ok(());
    }
    let bytes = Arc::new(bytes);
    (Text(bytes.clone()), valid.is_err().then_some(Exact(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8], truncated: bool) -> (String, Option<String>) {
        let (text, exact) = text(bytes.to_vec(), truncated);
        let json = |exact| serde_json::to_value(exact).unwrap().as_str().unwrap().to_owned();
        assert_eq!(serde_json::to_value(&text).unwrap(), text.to_string());
        (text.to_string(), exact.map(json))
    }

    #[test]
    fn output_that_is_no_text_keeps_its_bytes() {
        assert_eq!(shown("é✓".as_bytes(), false), ("é✓".into(), None));
        assert_eq!(shown(&[0xff, b'a', 0], false), ("\u{fffd}a\0".into(), Some("/2EA".into())));
    }

    #[test]
    fn a_character_cut_at_the_limit_is_left_out() {
        assert_eq!(shown(&"abc✓".as_bytes()[..5], true), ("abc".into(), None));
        assert_eq!(shown(&"abc✓".as_bytes()[..5], false), ("abc\u{fffd}".into(), Some("YWJj4pw=".into())));
    }
}
