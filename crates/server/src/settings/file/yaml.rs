//! YAML, as far as settings need it: sections, lists and texts. What could make one line mean another is refused.

use super::{Fault, Node, What};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

/// Deeper than any setting.
const DEEPEST: usize = 16;

/// The one document of a file.
pub(super) fn parse(text: &str) -> Result<Node, Vec<Fault>> {
    document(&mut Parser::new_from_str(text)).map_err(|fault| vec![fault])
}

type Events<'a> = Parser<'a, StrInput<'a>>;

fn document(events: &mut Events<'_>) -> Result<Node, Fault> {
    let mut found = None;
    while let Some((event, span)) = next(events)? {
        match event {
            Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd => {}
            _ if found.is_some() => return Err(fault(&span, "there is a second document in the file")),
            event => found = Some(node(event, &span, events, 0)?),
        }
    }
    Ok(found.unwrap_or(Node { line: 1, what: What::Nothing }))
}

fn node(event: Event<'_>, span: &Span, events: &mut Events<'_>, depth: usize) -> Result<Node, Fault> {
    if depth > DEEPEST {
        return Err(fault(span, "it is nested deeper than any setting"));
    }
    let what = match event {
        Event::Scalar(_, _, anchor, tag) if anchor != 0 || tag.is_some() => return Err(clever(span)),
        Event::SequenceStart(_, anchor, tag) | Event::MappingStart(_, anchor, tag)
            if anchor != 0 || tag.is_some() =>
        {
            return Err(clever(span));
        }
        Event::Scalar(text, ScalarStyle::Plain, ..) if ["", "~", "null"].contains(&&*text) => What::Nothing,
        Event::Scalar(text, ..) => What::Text(text.into_owned()),
        Event::SequenceStart(..) => {
            let mut nodes = Vec::new();
            loop {
                match must(events)? {
                    (Event::SequenceEnd, _) => break What::List(nodes),
                    (event, span) => nodes.push(node(event, &span, events, depth + 1)?),
                }
            }
        }
        Event::MappingStart(..) => What::Map(pairs(events, depth)?),
        _ => return Err(clever(span)),
    };
    Ok(Node { line: span.start.line(), what })
}

fn pairs(events: &mut Events<'_>, depth: usize) -> Result<Vec<(String, Node)>, Fault> {
    let mut pairs: Vec<(String, Node)> = Vec::new();
    loop {
        let (event, span) = must(events)?;
        let name = match event {
            Event::MappingEnd => return Ok(pairs),
            Event::Scalar(name, _, 0, None) => name.into_owned(),
            _ => return Err(fault(&span, "the name of a setting is a plain text")),
        };
        if pairs.iter().any(|(known, _)| *known == name) {
            return Err(fault(&span, &format!("`{name}` is there twice")));
        }
        let (event, value) = must(events)?;
        let mut child = node(event, &value, events, depth + 1)?;
        // A section begins where its name is, not where its first setting is.
        child.line = span.start.line();
        pairs.push((name, child));
    }
}

fn next<'a>(events: &mut Events<'a>) -> Result<Option<(Event<'a>, Span)>, Fault> {
    loop {
        match events.next() {
            Some(Ok((Event::Comment(..), _))) => {}
            other => return other.transpose().map_err(|error| broken(&error)),
        }
    }
}

fn must<'a>(events: &mut Events<'a>) -> Result<(Event<'a>, Span), Fault> {
    next(events)?.ok_or_else(|| Fault { line: None, message: "the file ends too early".into() })
}

fn broken(error: &ScanError) -> Fault {
    let message = format!("this is not YAML: {}", error.info());
    Fault { line: Some(error.marker().line()), message }
}

fn clever(span: &Span) -> Fault {
    fault(span, "anchors, aliases and tags are not understood here; write the value itself")
}

fn fault(span: &Span, message: &str) -> Fault {
    Fault { line: Some(span.start.line()), message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_as_they_are_written() {
        let node =
            parse("a:\n  b: 0.50\n  c: off\n  d: '0123'\n  e: # nothing\n  f: [x, 'y, z']\n").ok().unwrap();
        let What::Map(top) = node.what else { panic!() };
        assert_eq!((top[0].0.as_str(), top[0].1.line), ("a", 1));
        let What::Map(pairs) = &top[0].1.what else { panic!() };
        let texts: Vec<String> = pairs[..3].iter().map(|(_, node)| format!("{:?}", node.what)).collect();
        assert_eq!(texts, [r#"Text("0.50")"#, r#"Text("off")"#, r#"Text("0123")"#]);
        assert_eq!((&pairs[3].1.what, pairs[3].1.line), (&What::Nothing, 5));
        assert!(matches!(&pairs[4].1.what, What::List(words) if words.len() == 2));
    }

    #[test]
    fn what_is_too_clever_or_broken_is_refused_with_its_line() {
        let deep = format!("a: {}{}", "[".repeat(40), "]".repeat(40));
        let cases = [
            ("a: 1\nb: &x 2\n", 2),
            ("a: &x 1\nb: *x\n", 1),
            ("a: !!int 1\n", 1),
            ("a: 1\na: 2\n", 2),
            ("a: 1\n---\nb: 2\n", 3),
            ("a: [1\n", 1),
            ("a: 1\n  b: 2\n", 2),
            (deep.as_str(), 1),
        ];
        for (text, line) in cases {
            let fault = parse(text).err().unwrap_or_else(|| panic!("{text}")).remove(0);
            assert_eq!(fault.line, Some(line), "{text}: {}", fault.message);
        }
    }
}
