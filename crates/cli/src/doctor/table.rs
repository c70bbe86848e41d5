//! The report for people: two tables, hints for what is not ok, and the grade.
//!
//! Every meaning carried by a colour is also a word, so nothing is lost in a pipe or under `NO_COLOR`;
//! colours are always written here and taken out by `anstream` where they are not wanted.

use super::{Part, Row, State};
use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, Width, presets};
use jail::probe::{Host, Verdict};
use owo_colors::OwoColorize;
use std::fmt::Write;

/// Columns to use: those of the terminal, in bounds that are pleasant to read.
pub(super) fn width() -> u16 {
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    // Some pseudo terminals say they have no columns at all.
    let terminal = Table::new().width().filter(|columns| *columns >= 40);
    terminal.or_else(told).unwrap_or(100).clamp(60, 120)
}

pub(super) fn render(host: &Host, rows: &[Row], verdict: &Verdict, width: u16) -> String {
    let (native, other): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.part == Part::Native);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}\n", headline(host));
    let _ = writeln!(text, "{}\n", table("native isolator", &native, width));
    let _ = writeln!(text, "{}\n", table("not used yet", &other, width));
    let hints = hints(rows);
    if !hints.is_empty() {
        let _ = writeln!(text, "{hints}");
    }
    let _ = writeln!(text, "{}", conclusion(verdict));
    text
}

fn headline(host: &Host) -> String {
    let user = match (&host.identity.user, host.identity.root) {
        (_, true) => "root".to_owned(),
        (Some(name), _) => format!("`{name}` (uid {})", host.identity.uid),
        (None, _) => format!("uid {}", host.identity.uid),
    };
    let place = match &host.surroundings.container {
        Some(kind) => format!("inside a container (`{kind}`)"),
        None => "not in a container".to_owned(),
    };
    format!("Linux {} on {}, as {user}, {place}", host.kernel.release, host.kernel.arch)
}

fn table(title: &str, rows: &[&Row], width: u16) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .enforce_styling();
    let head = [title, "state", "found", "what it means"];
    table.set_header(head.map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
    for row in rows {
        let color = match (row.state, row.part) {
            (State::Ok, _) => Color::DarkGreen,
            (State::Weaker, _) => Color::DarkYellow,
            (State::Missing, Part::Native) => Color::DarkRed,
            (State::Missing, Part::Other) => Color::DarkGrey,
        };
        let state = Cell::new(row.state.word()).fg(color);
        table.add_row(vec![Cell::new(row.name), state, Cell::new(&row.found), Cell::new(&row.consequence)]);
    }
    table.style_text_only();
    if let Some(first) = table.column_mut(0) {
        first.set_padding((0, 1));
    }
    // The same columns in both tables, so that they read as one.
    let found = (width - 26) * 9 / 20;
    for (index, columns) in [(0, 17), (1, 9), (2, found)] {
        if let Some(column) = table.column_mut(index) {
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(columns)));
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn hints(rows: &[Row]) -> String {
    let mut told: Vec<&str> = Vec::new();
    let mut text = String::new();
    // What is not used yet needs no fixing.
    for row in rows.iter().filter(|row| row.part != Part::Other && row.state != State::Ok) {
        let Some(fix) = row.fix.as_deref() else { continue };
        // One cause may take several layers with it.
        if !told.contains(&fix) {
            told.push(fix);
            let _ = writeln!(text, "{} {}: {fix}", "hint:".cyan().bold(), row.name);
        }
    }
    text
}

fn conclusion(verdict: &Verdict) -> String {
    let (words, why) = match verdict.grade {
        Some(1) => ("grade 1, full isolation".green().to_string(), String::new()),
        Some(_) => {
            ("grade 0, works but degraded".yellow().to_string(), format!(": {}", verdict.degraded.join(", ")))
        }
        None => ("refuses to run".red().to_string(), format!(", missing: {}", verdict.missing.join(", "))),
    };
    format!("{} {words}{why}", "native isolator:".bold())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(host: &Host, width: u16) -> String {
        let mut rows = super::super::layers::rows(host);
        rows.extend(super::super::others::rows(host));
        let text = render(host, &rows, &host.verdict(), width);
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn tables_fit_the_width() {
        let host = jail::probe::host();
        for width in [80, 100, 120] {
            let text = plain(&host, width);
            let tables = text.lines().filter(|line| !line.contains(": "));
            for line in tables {
                assert!(line.chars().count() <= usize::from(width), "{width}: {line}");
            }
        }
    }

    #[test]
    fn a_missing_layer_is_understood_without_colours() {
        let mut host = jail::probe::host();
        host.sysctls.max_user_namespaces = Some(0);
        host.namespaces.user = jail::probe::Trial::Refused { errno: 28, reason: "No space left".into() };
        let text = plain(&host, 100);
        assert!(text.contains("missing  No space left (errno 28)"), "{text}");
        assert!(text.contains("hint: user namespace: "), "{text}");
        assert!(text.contains("sysctl user.max_user_namespaces=15000`"), "{text}");
        assert!(text.contains("native isolator: refuses to run, missing: user namespace"), "{text}");
    }
}
