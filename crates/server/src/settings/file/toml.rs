//! TOML.

use super::{Fault, Node, What};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The table of a file, or everything that is wrong with it.
pub(super) fn parse(text: &str) -> Result<Node, Vec<Fault>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        let what = What::Map(pairs(table.get_ref(), text));
        return Ok(Node { line: 1, what });
    }
    let fault = |error: toml::de::Error| Fault {
        line: error.span().map(|span| line(text, span.start)),
        message: format!("this is not TOML: {}", error.message()),
    };
    Err(errors.into_iter().map(fault).collect())
}

fn pairs(table: &DeTable<'_>, text: &str) -> Vec<(String, Node)> {
    let pair = |(name, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let name: &Spanned<std::borrow::Cow<'_, str>> = name;
        // Where its name is: the value of a section begins elsewhere.
        let line = line(text, name.span().start);
        (name.get_ref().to_string(), Node { line, ..node(value, text) })
    };
    table.iter().map(pair).collect()
}

fn node(value: &Spanned<DeValue<'_>>, text: &str) -> Node {
    let what = match value.get_ref() {
        DeValue::String(text) => What::Text(text.to_string()),
        DeValue::Integer(number) => {
            let plain = i128::from_str_radix(number.as_str(), number.radix());
            What::Text(plain.map_or_else(|_| number.to_string(), |number| number.to_string()))
        }
        DeValue::Float(number) => What::Text(number.as_str().to_owned()),
        DeValue::Boolean(yes) => What::Text(yes.to_string()),
        DeValue::Datetime(moment) => What::Text(moment.to_string()),
        DeValue::Array(values) => What::List(values.iter().map(|value| node(value, text)).collect()),
        DeValue::Table(table) => What::Map(pairs(table, text)),
    };
    Node { line: line(text, value.span().start), what }
}

fn line(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_texts_with_their_lines() {
        let node =
            parse("[a]\nb = 0x10\nc = 1_000\nd = 0.5\ne = \"x\"\nf = [\"y\", \"z\"]\ng = -1\n").ok().unwrap();
        let What::Map(top) = node.what else { panic!() };
        let What::Map(pairs) = &top[0].1.what else { panic!() };
        let shown: Vec<String> =
            pairs.iter().map(|(name, node)| format!("{name} {} {:?}", node.line, node.what)).collect();
        assert_eq!(shown[..3], [r#"b 2 Text("16")"#, r#"c 3 Text("1000")"#, r#"d 4 Text("0.5")"#]);
        assert!(shown[4].starts_with("f 6 List("), "{shown:?}");
        assert_eq!(shown[5], r#"g 7 Text("-1")"#);
    }

    #[test]
    fn everything_that_is_broken_is_told() {
        let faults = parse("a = \nb = 1\nb = 2\n[c\n").err().unwrap();
        let lines: Vec<_> = faults.iter().map(|fault| fault.line).collect();
        assert!(lines.contains(&Some(1)) && lines.contains(&Some(4)), "{lines:?}");
    }
}
