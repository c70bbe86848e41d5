//! Arbitrary text as sizes, durations and shares of cores.
//!
//! Laws: whole numbers are taken exactly; what is shown is read back as the same, where it can be shown
//! exactly; blanks around do not matter.
#![no_main]

// The file rather than the crate it belongs to, whose dependencies would take most of the time there is.
#[path = "../../crates/engine/src/limits/units.rs"]
mod limits;

use libfuzzer_sys::fuzz_target;
use limits::{bytes, cores, duration, show_bytes, show_millis};

type Read = fn(&str) -> Result<u64, String>;

/// Up to here every whole number is a float.
const EXACT: u128 = 1 << 53;
const MIB: u64 = 1 << 20;

const SIZES: [(&str, u64); 7] =
    [("", 1), ("K", 1 << 10), ("Mi", 1 << 20), ("gib", 1 << 30), ("kB", 1_000), ("MB", 1_000_000), ("b", 1)];
const TIMES: [(&str, u64); 6] =
    [("", 1_000), ("ms", 1), ("s", 1_000), ("m", 60_000), ("min", 60_000), ("h", 3_600_000)];
const SHARES: [(&str, u64); 3] = [("", 1_000), ("m", 1), ("%", 10)];

fuzz_target!(|text: &str| {
    for read in [bytes, duration, cores] as [Read; 3] {
        assert_eq!(read(text), read(&format!(" {text}\n")), "blanks around do not matter");
    }
    if let Ok(value) = bytes(text) {
        let shown = show_bytes(value);
        let again = bytes(&shown).expect("what is shown can be read");
        let exact = value < MIB || value.is_multiple_of(1024);
        let near = if exact { 0 } else { MIB / 20 + 1 + (value >> 52) };
        assert!(again.abs_diff(value) <= near, "{value} is shown as {shown}, which is {again}");
    }
    if let Ok(value) = duration(text) {
        assert_eq!(duration(&show_millis(value)), Ok(value));
    }
    if let Ok(value) = cores(text) {
        assert_eq!(cores(&format!("{value}m")), Ok(value));
        // Rounded twice
        if u128::from(value) < EXACT / 4 {
            assert_eq!(cores(&(value as f64 / 1000.0).to_string()), Ok(value));
        }
    }
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let digits = &digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())];
    if let Ok(number) = digits.parse::<u64>() {
        whole(number, bytes, &SIZES);
        whole(number, duration, &TIMES);
        whole(number, cores, &SHARES);
    }
});

fn whole(number: u64, read: Read, units: &[(&str, u64)]) {
    for (unit, factor) in units {
        let value = u128::from(number) * u128::from(*factor);
        // Rounded twice, as a number and as a product
        let near = if value <= EXACT { 0 } else { 2 * (value / EXACT + 1) };
        match read(&format!("{number}{unit}")) {
            Ok(read) => assert!(u128::from(read).abs_diff(value) <= near, "{number}{unit} is {read}"),
            Err(error) => assert!(value + near >= 1 << 64, "{number}{unit}: {error}"),
        }
    }
}
