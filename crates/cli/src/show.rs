//! Numbers and tables for people.

use comfy_table::{ContentArrangement, Table, presets};
use std::io::Write;

/// Prints a line. A reader that has seen enough is no failure.
pub(crate) fn print(line: &str) -> std::io::Result<()> {
    match writeln!(std::io::stdout(), "{line}") {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Prints a value as one line of JSON, as it is made: it can be large.
pub(crate) fn print_json(value: &impl serde::Serialize) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let written = serde_json::to_writer(&mut out, value).map_err(std::io::Error::from);
    match written.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// A table without lines, as wide as the terminal allows.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header.to_vec());
    table
}

/// Milliseconds with as many digits as matter.
pub(crate) fn millis(value: f64) -> String {
    match value {
        v if v >= 10_000.0 => format!("{:.1} s", v / 1000.0),
        v if v >= 100.0 => format!("{v:.0} ms"),
        v => format!("{v:.1} ms"),
    }
}

/// Bytes with as many digits as matter.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 30 => format!("{:.1} GB", b as f64 / f64::from(1 << 30)),
        b if b >= 1 << 20 => format!("{:.1} MB", b as f64 / f64::from(1 << 20)),
        b if b >= 1 << 10 => format!("{:.1} kB", b as f64 / 1024.0),
        b => format!("{b} B"),
    }
}
