//! Numbers as people write them.

/// `1048576`, `64M`, `64Mi`, `64MB`: letters and `i` count in 1024, a final `B` alone in 1000.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "ki" | "kib" => 1 << 10,
        "m" | "mi" | "mib" => 1 << 20,
        "g" | "gi" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(format!("`{unit}` is no unit of size; use `64M`, `1Gi` or plain bytes")),
    };
    scale(number, factor)
}

/// `30`, `30s`, `500ms`, `2m`, `1h`, in milliseconds; a plain number means seconds.
pub fn duration(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("`{unit}` is no unit of time; use `500ms`, `30s` or `2m`")),
    };
    scale(number, factor)
}

/// `0.5`, `2`, `500m`, `50%`, in thousandths of a core.
pub fn cores(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" => 1_000,
        "m" => 1,
        "%" => 10,
        _ => return Err(format!("`{unit}` is no unit of cores; use `0.5`, `500m` or `50%`")),
    };
    scale(number, factor)
}

fn split(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..end].parse::<f64>().map_err(|_| format!("`{text}` does not begin with a number"))?;
    Ok((number, text[end..].trim()))
}

fn scale(number: f64, factor: u64) -> Result<u64, String> {
    let value = (number * factor as f64).round();
    // The largest float below 2^64 is exact; beyond it the conversion would lie.
    if value.is_finite() && value < 18_446_744_073_709_551_615.0 {
        Ok(value as u64)
    } else {
        Err("the number is too large".into())
    }
}

/// A short way to write a size: exact for whole units, rounded to a tenth of a megabyte otherwise.
pub fn show_bytes(bytes: u64) -> String {
    for (unit, shift) in [("G", 30), ("M", 20), ("K", 10)] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    if bytes >= 1 << 20 { format!("{:.1}M", bytes as f64 / f64::from(1 << 20)) } else { bytes.to_string() }
}

/// The shortest exact way to write a duration.
pub fn show_millis(millis: u64) -> String {
    match millis {
        0 => "0ms".into(),
        m if m.is_multiple_of(3_600_000) => format!("{}h", m / 3_600_000),
        m if m.is_multiple_of(60_000) => format!("{}m", m / 60_000),
        m if m.is_multiple_of(1_000) => format!("{}s", m / 1_000),
        m => format!("{m}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn people_write_numbers_in_many_ways() {
        for (text, value) in
            [("64M", 64 << 20), ("1Gi", 1 << 30), ("1.5k", 1536), ("2MB", 2_000_000), ("7", 7)]
        {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
        for (text, value) in [("1s", 1000), ("500ms", 500), ("2m", 120_000), ("0.5", 500), ("1h", 3_600_000)]
        {
            assert_eq!(duration(text), Ok(value), "{text}");
        }
        for (text, value) in [("0.5", 500), ("2", 2000), ("500m", 500), ("50%", 500)] {
            assert_eq!(cores(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "M", "-1", "1X", "NaN", "inf", "1..2M", "99999999999999999999999G"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert!(duration("1M").is_err());
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_read_back(value in 0u64..1 << 40) {
            let kib = value << 10;
            if kib.is_multiple_of(1 << 20) || kib < 1 << 20 {
                prop_assert_eq!(bytes(&show_bytes(kib)), Ok(kib));
            }
            prop_assert_eq!(duration(&show_millis(value)), Ok(value));
        }
    }
}
