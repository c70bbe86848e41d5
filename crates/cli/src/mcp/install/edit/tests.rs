use super::*;
use proptest::prelude::*;
use serde_json::json;

/// What `mcpServers.sandboxd` is set to here.
fn entry() -> Value {
    json!({ "command": "/bin/sandboxd" })
}

fn edited(text: &str) -> String {
    match set(text, "mcpServers", "sandboxd", &entry()) {
        Ok(Edit::Changed(new)) => new,
        other => panic!("{text:?}: {other:?}"),
    }
}

#[test]
fn nothing_becomes_a_whole_file() {
    let page =
        "{\n  \"mcpServers\": {\n    \"sandboxd\": {\n      \"command\": \"/bin/sandboxd\"\n    }\n  }\n}\n";
    assert_eq!(edited(""), page);
    assert_eq!(edited(" \n"), page);
    assert_eq!(edited("{}\n"), page);
    assert_eq!(edited("{\n}\n"), page);
}

#[test]
fn others_stay_as_they_were_written() {
    let old = "{\n\t\"z\": 1.50e+3,\n\t\"mcpServers\": {\n\t\t\"b\": {\"command\":  \"b\"},\n\t\t\"a\": { }\n\t},\n\t\"a\": [1,2 , 3]\n}\n";
    let new = "{\n\t\"z\": 1.50e+3,\n\t\"mcpServers\": {\n\t\t\"b\": {\"command\":  \"b\"},\n\t\t\"a\": { },\n\t\t\"sandboxd\": {\n\t\t\t\"command\": \"/bin/sandboxd\"\n\t\t}\n\t},\n\t\"a\": [1,2 , 3]\n}\n";
    assert_eq!(edited(old), new);
}

#[test]
fn a_section_is_added_at_the_end() {
    let new = edited("{\n    \"theme\": \"dark\"\n}");
    assert_eq!(
        new,
        "{\n    \"theme\": \"dark\",\n    \"mcpServers\": {\n        \"sandboxd\": {\n            \"command\": \"/bin/sandboxd\"\n        }\n    }\n}"
    );
}

#[test]
fn an_entry_is_replaced_where_it_stands() {
    let old = "{\n  \"mcpServers\": {\n    \"sandboxd\": {\"command\": \"old\", \"args\": [\"}\"]},\n    \"x\": {}\n  }\n}\n";
    let new = "{\n  \"mcpServers\": {\n    \"sandboxd\": {\n      \"command\": \"/bin/sandboxd\"\n    },\n    \"x\": {}\n  }\n}\n";
    assert_eq!(edited(old), new);
}

#[test]
fn what_is_on_one_line_stays_on_one_line() {
    let entry = r#""sandboxd": {"command":"/bin/sandboxd"}"#;
    assert_eq!(edited(r#"{"mcpServers":{"x":{}}}"#), format!(r#"{{"mcpServers":{{"x":{{}}, {entry}}}}}"#));
    assert_eq!(edited(r#"{"mcpServers":{"sandboxd": 3}}"#), format!(r#"{{"mcpServers":{{{entry}}}}}"#));
    let named = r#"{"a": 1, "mcpServers": {"sandboxd":{"command":"/bin/sandboxd"}}}"#;
    assert_eq!(edited(r#"{"a": 1}"#), named);
}

#[test]
fn lines_end_as_they_did() {
    let new = edited("{\r\n  \"a\": 1\r\n}\r\n");
    assert_eq!(new.matches('\n').count(), new.matches("\r\n").count(), "{new:?}");
    assert!(new.ends_with("}\r\n}\r\n"), "{new:?}");
}

#[test]
fn the_second_time_nothing_changes() {
    for text in ["", "{}", "{\"a\": 1}", "{\n  \"mcpServers\": {\n    \"b\": 1\n  }\n}"] {
        let once = edited(text);
        assert_eq!(set(&once, "mcpServers", "sandboxd", &entry()), Ok(Edit::Same), "{once}");
    }
}

#[test]
fn names_in_strings_and_below_are_no_members() {
    let old = r#"{"x": "\"mcpServers\": {\\", "y": {"mcpServers": {"sandboxd": 1}}, "\u006dcpServers": {"é\"": 0}}"#;
    let new: Value = serde_json::from_str(&edited(old)).unwrap();
    assert_eq!(new["y"]["mcpServers"]["sandboxd"], 1);
    assert_eq!(new["mcpServers"], json!({ "é\"": 0, "sandboxd": entry() }));
}

#[test]
fn of_several_the_last_counts() {
    let new = edited(r#"{"mcpServers": {"a": 1}, "mcpServers": {"b": 2}}"#);
    let read: Value = serde_json::from_str(&new).unwrap();
    assert_eq!(read["mcpServers"], json!({ "b": 2, "sandboxd": entry() }));
    assert!(new.starts_with(r#"{"mcpServers": {"a": 1}, "#), "{new}");
}

#[test]
fn what_is_not_strict_json_is_left_alone() {
    for odd in ["// mine\n{}", "{\"a\": 1,}", "{", "{'a': 1}", "\u{feff}{}", "{} {}"] {
        let got = set(odd, "mcpServers", "sandboxd", &entry());
        assert!(matches!(got, Err(Unfit::NotJson(_))), "{odd}: {got:?}");
    }
    for (odd, what) in
        [("[]", "the file"), ("3", "the file"), (r#"{"mcpServers": []}"#, "`mcpServers` in it")]
    {
        let got = set(odd, "mcpServers", "sandboxd", &entry());
        assert_eq!(got, Err(Unfit::NotAnObject(what.into())), "{odd}");
    }
}

/// Any value, with names that matter here among its keys.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 30, 5, |inner| {
        let key = prop_oneof![Just("mcpServers".to_owned()), Just("sandboxd".to_owned()), any::<String>()];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..5).prop_map(|members| json!(members)),
        ]
    })
}

/// A value as text, with some space wherever there may be some.
fn written(value: &Value, space: &str) -> String {
    let list = |parts: Vec<String>| format!("{space}{}{space}", parts.join(&format!("{space},{space}")));
    match value {
        Value::Array(values) => {
            format!("[{}]", list(values.iter().map(|value| written(value, space)).collect()))
        }
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| {
                format!("{}{space}:{space}{}", Value::from(key.as_str()), written(value, space))
            };
            format!("{{{}}}", list(members.iter().map(member).collect()))
        }
        leaf => leaf.to_string(),
    }
}

proptest! {
    #[test]
    fn in_any_text_only_the_entry_changes(value in values(), space in "[ \t\r\n]{0,3}") {
        let text = format!("{space}{}{space}", written(&value, &space));
        let fits = value.is_object() && value.get("mcpServers").is_none_or(Value::is_object);
        match set(&text, "mcpServers", "sandboxd", &entry()) {
            Ok(Edit::Changed(new)) => {
                prop_assert!(fits);
                let mut old: Value = serde_json::from_str(&text).unwrap();
                if old.get("mcpServers").is_none() {
                    old["mcpServers"] = json!({});
                }
                old["mcpServers"]["sandboxd"] = entry();
                prop_assert_eq!(serde_json::from_str::<Value>(&new).unwrap(), old);
                prop_assert_eq!(set(&new, "mcpServers", "sandboxd", &entry()), Ok(Edit::Same));
            }
            Ok(Edit::Same) => prop_assert_eq!(&value["mcpServers"]["sandboxd"], &entry()),
            Err(Unfit::NotAnObject(_)) => prop_assert!(!fits),
            Err(Unfit::NotJson(why)) => prop_assert!(false, "{}", why),
        }
    }
}
