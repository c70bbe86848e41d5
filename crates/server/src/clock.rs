//! Time, as storage counts it and as answers say it.

use jiff::Timestamp;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// As answers say it: RFC 3339, in UTC, to the millisecond.
pub(crate) fn rfc3339(millis: i64) -> String {
    let at = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{at:.3}")
}

/// This moment, likewise.
pub(crate) fn now() -> String {
    rfc3339(now_ms())
}
