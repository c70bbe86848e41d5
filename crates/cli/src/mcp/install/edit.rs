//! One entry set in a JSON text, and everything else left as somebody wrote it: order, spaces, numbers.
//!
//! The text is parsed strictly first, so what walks through it afterwards only has to know where things begin and end.
//! What comes out is parsed again and compared with what was meant.

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};
use std::collections::BTreeMap;
use std::ops::Range;

/// What became of the text.
#[derive(Debug, PartialEq)]
pub(super) enum Edit {
    /// The entry was there, as it should be.
    Same,
    /// The text with the entry.
    Changed(String),
}

/// Why a text is left as it is.
#[derive(Debug, PartialEq)]
pub(super) enum Unfit {
    /// It is not strict JSON; the words say where.
    NotJson(String),
    /// What should be an object is something else; the words say what.
    NotAnObject(String),
}

/// Sets `section.name` to an entry.
pub(super) fn set(text: &str, section: &str, name: &str, entry: &impl Serialize) -> Result<Edit, Unfit> {
    let style = Style::of(text);
    let alone = BTreeMap::from([(name, entry)]);
    if text.trim().is_empty() {
        let page = style.pretty(&BTreeMap::from([(section, &alone)]), "")?;
        return Ok(Edit::Changed(page + style.newline));
    }
    let old: Value = serde_json::from_str(text).map_err(not_json)?;
    let root = old.as_object().ok_or_else(|| Unfit::NotAnObject("the file".into()))?;
    let wanted = serde_json::to_value(entry).map_err(not_json)?;
    let mut meant = old.clone();
    match root.get(section) {
        None => meant[section] = serde_json::json!({ name: wanted }),
        Some(Value::Object(entries)) if entries.get(name) == Some(&wanted) => return Ok(Edit::Same),
        Some(Value::Object(_)) => meant[section][name] = wanted,
        Some(_) => return Err(Unfit::NotAnObject(format!("`{section}` in it"))),
    }

    let outer = Object::at(text, space(text.as_bytes(), 0));
    let new = match outer.member(section) {
        None => style.add(text, &outer, section, &alone)?,
        Some(found) => {
            let inner = Object::at(text, found.value.start);
            match inner.member(name) {
                None => style.add(text, &inner, name, entry)?,
                Some(old) => style.replace(text, &inner, old, entry)?,
            }
        }
    };
    match serde_json::from_str::<Value>(&new) {
        Ok(got) if got == meant => Ok(Edit::Changed(new)),
        _ => Err(Unfit::NotJson("it is written in a way that cannot be added to".into())),
    }
}

/// How a text is written.
struct Style<'t> {
    newline: &'t str,
    /// One step of indentation.
    step: &'t str,
}

impl<'t> Style<'t> {
    fn of(text: &'t str) -> Style<'t> {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let mut lines = text.lines().map(indentation).zip(text.lines());
        let indented = lines.find(|(step, line)| !step.is_empty() && step.len() < line.len());
        Style { newline, step: indented.map_or("  ", |(step, _)| step) }
    }

    /// Adds a member to an object, as the last one.
    fn add(&self, text: &str, object: &Object, key: &str, value: &impl Serialize) -> Result<String, Unfit> {
        let quoted = Value::from(key);
        let Some(last) = object.members.last() else {
            let (nl, base) = (self.newline, indentation(line_of(text, object.open)));
            let inside = format!("{base}{}", self.step);
            let value = self.pretty(value, &inside)?;
            let filled = format!("{{{nl}{inside}{quoted}: {value}{nl}{base}}}");
            return Ok(splice(text, object.open..object.close + 1, &filled));
        };
        let end = last.value.end;
        let member = if object.is_spread(text) {
            let inside = indentation(line_of(text, last.key));
            format!(",{}{inside}{quoted}: {}", self.newline, self.pretty(value, inside)?)
        } else {
            format!(", {quoted}: {}", serde_json::to_string(value).map_err(not_json)?)
        };
        Ok(splice(text, end..end, &member))
    }

    fn replace(
        &self,
        text: &str,
        object: &Object,
        member: &Member,
        value: &impl Serialize,
    ) -> Result<String, Unfit> {
        let value = match object.is_spread(text) {
            true => self.pretty(value, indentation(line_of(text, member.key)))?,
            false => serde_json::to_string(value).map_err(not_json)?,
        };
        Ok(splice(text, member.value.clone(), &value))
    }

    /// A value over several lines, all but the first indented.
    fn pretty(&self, value: &impl Serialize, indent: &str) -> Result<String, Unfit> {
        let mut bytes = Vec::new();
        let formatter = PrettyFormatter::with_indent(self.step.as_bytes());
        value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter)).map_err(not_json)?;
        let lines = String::from_utf8_lossy(&bytes).into_owned();
        Ok(lines.replace('\n', &format!("{}{indent}", self.newline)))
    }
}

/// Where an object of a valid text begins and ends, and what is in it.
struct Object {
    open: usize,
    close: usize,
    members: Vec<Member>,
}

struct Member {
    name: String,
    /// Where its name begins.
    key: usize,
    value: Range<usize>,
}

impl Object {
    /// The object whose brace is at `open`.
    fn at(text: &str, open: usize) -> Object {
        let bytes = text.as_bytes();
        let (mut members, mut at) = (Vec::new(), open + 1);
        loop {
            at = space(bytes, at);
            match bytes.get(at) {
                Some(b'"') => {
                    let (key, colon) = (at, past_string(bytes, at));
                    let name = serde_json::from_str(&text[key..colon]).unwrap_or_default();
                    let start = space(bytes, space(bytes, colon) + 1);
                    at = past_value(bytes, start);
                    members.push(Member { name, key, value: start..at });
                }
                Some(b',') => at += 1,
                _ => return Object { open, close: at, members },
            }
        }
    }

    /// The member of that name; of several the last one, as readers of JSON have it.
    fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().rev().find(|member| member.name == name)
    }

    /// Whether its members have lines of their own.
    fn is_spread(&self, text: &str) -> bool {
        self.members.first().is_some_and(|first| text[self.open..first.key].contains('\n'))
    }
}

fn space(bytes: &[u8], from: usize) -> usize {
    let blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    from + bytes.iter().skip(from).take_while(blank).count()
}

/// Where a string ends that begins at `from`.
fn past_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    loop {
        match bytes.get(at) {
            Some(b'\\') => at += 2,
            Some(b'"') | None => return at + 1,
            Some(_) => at += 1,
        }
    }
}

/// Where a value ends that begins at `from`: after one token, or after the bracket that closes the first.
fn past_value(bytes: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = past_string(bytes, at),
            b'{' | b'[' => (at, depth) = (at + 1, depth + 1),
            b'}' | b']' => (at, depth) = (at + 1, depth.saturating_sub(1)),
            b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            _ => at += bytes[at..].iter().take_while(|byte| !b",:{}[]\" \t\r\n".contains(byte)).count(),
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn splice(text: &str, range: Range<usize>, with: &str) -> String {
    [&text[..range.start], with, &text[range.end..]].concat()
}

fn line_of(text: &str, at: usize) -> &str {
    let begin = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    &text[begin..]
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn not_json(error: serde_json::Error) -> Unfit {
    Unfit::NotJson(error.to_string())
}

#[cfg(test)]
mod tests;
