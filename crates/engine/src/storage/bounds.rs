//! What fits into a column, checked before the database sees it: three databases would complain in three ways,
//! or cut in silence.

use super::error::StoreError;

/// Longest id, in characters.
pub const MAX_ID: usize = 64;
/// Longest name a person gives to something, in characters.
pub const MAX_NAME: usize = 255;
/// Longest request or record of an execution, in bytes of JSON.
pub const MAX_RECORD: usize = 4 * 1024 * 1024;
/// Longest JSON of anything else, in bytes: lists hold a thousand of them.
pub const MAX_SPEC: usize = 64 * 1024;

/// Ids are letters, digits, `_`, `-`, `.` and `:`, and start with a letter or digit.
pub(crate) fn id(field: &'static str, text: &str) -> Result<(), StoreError> {
    if text.len() > MAX_ID {
        return Err(StoreError::TooLong { field, limit: MAX_ID as u64, unit: "characters" });
    }
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
    match text.as_bytes() {
        [first, rest @ ..] if first.is_ascii_alphanumeric() && rest.iter().all(|byte| inner(*byte)) => Ok(()),
        _ => Err(StoreError::Invalid {
            field,
            message: "has other characters than letters, digits, `_`, `-`, `.` and `:`, or starts with none of the \
                      first two",
        }),
    }
}

/// Ids of executions are `exec_` and hexadecimal digits that begin with 48 bits of time: sorting them sorts by it.
pub(crate) fn execution_id(field: &'static str, text: &str) -> Result<(), StoreError> {
    let hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    match text.strip_prefix("exec_").map(str::as_bytes) {
        Some(bytes) if (32..=48).contains(&bytes.len()) && bytes.iter().all(hex) => Ok(()),
        _ => {
            let message = "is not `exec_` and 32 to 48 hexadecimal digits";
            Err(StoreError::Invalid { field, message })
        }
    }
}

/// What is smaller than every id of an execution begun at this time or later, and greater than those before.
pub(crate) fn execution_id_at(millis: i64) -> String {
    // Ids carry 48 bits of time.
    format!("exec_{:012x}", millis.clamp(0, (1 << 48) - 1))
}

/// Names are compared, and databases disagree about spaces at the end; no database likes NUL.
pub(crate) fn name(field: &'static str, text: &str) -> Result<(), StoreError> {
    if text.chars().count() > MAX_NAME {
        return Err(StoreError::TooLong { field, limit: MAX_NAME as u64, unit: "characters" });
    }
    if text.is_empty() || text.trim() != text || text.chars().any(char::is_control) {
        let message = "is empty, begins or ends with a space, or has control characters in it";
        return Err(StoreError::Invalid { field, message });
    }
    Ok(())
}

/// Text that is only kept: of any kind, but PostgreSQL cannot keep NUL.
pub(crate) fn text(field: &'static str, text: &str, limit: usize) -> Result<(), StoreError> {
    if text.len() > limit {
        return Err(StoreError::TooLong { field, limit: limit as u64, unit: "bytes" });
    }
    if text.contains('\0') {
        return Err(StoreError::Invalid { field, message: "has a NUL character in it" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_plain_and_short() {
        for good in ["a", "0", "sess_20260101_x", &"x".repeat(MAX_ID), "a:b.c-d"] {
            assert_eq!(id("id", good), Ok(()), "{good}");
        }
        for bad in ["", "-a", "a b", "a/b", "ä", "a\0", "..", "%"] {
            assert!(matches!(id("id", bad), Err(StoreError::Invalid { field: "id", .. })), "{bad}");
        }
        assert!(matches!(id("id", &"x".repeat(MAX_ID + 1)), Err(StoreError::TooLong { field: "id", .. })));
    }

    #[test]
    fn ids_of_executions_are_sortable() {
        let uuid = uuid::Uuid::now_v7();
        let id = format!("exec_{}", uuid.simple());
        assert_eq!(execution_id("id", &id), Ok(()));
        for bad in
            [&format!("exec_{uuid}"), &uuid.simple().to_string(), &format!("exec_{:049}", 0), "", "exec_"]
        {
            assert!(execution_id("id", bad).is_err(), "{bad}");
        }
        let (seconds, nanos) = uuid.get_timestamp().map(|time| time.to_unix()).unwrap();
        let at = i64::try_from(seconds).unwrap() * 1000 + i64::from(nanos / 1_000_000);
        assert!(execution_id_at(at) < id && id < execution_id_at(at + 1));
        assert!(execution_id_at(i64::MIN) < id && id < execution_id_at(i64::MAX));
    }

    #[test]
    fn names_are_counted_in_characters() {
        assert_eq!(name("name", &"😀".repeat(MAX_NAME)), Ok(()));
        assert!(matches!(name("name", &"a".repeat(MAX_NAME + 1)), Err(StoreError::TooLong { .. })));
        for bad in ["", " a", "a ", "a\0b", "a\nb", "\u{a0}"] {
            assert!(matches!(name("name", bad), Err(StoreError::Invalid { .. })), "{bad:?}");
        }
    }
}
