//! Files and pages made of the catalogue: a file to begin with, and the reference.

use super::catalogue::{catalogue, sections};
use super::founding;
use super::key::{Key, Usual};
use super::kind::{Given, Kind};
use super::value::Value;

/// What a file of settings is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// YAML.
    Yaml,
    /// TOML.
    Toml,
}

/// A file with every setting, what it is for and what it is by default. It changes nothing: each line that would is
/// commented out.
pub fn generate(format: Format) -> String {
    let mut page = String::from(
        "# Settings of `sandboxd serve`. Each line that begins with # and no space is a setting as it is by default,\n\
         # or an example where there is no default: remove the # to set it.\n\
         # Variables win over this file, and the command line over variables.\n\
         # `sandboxd config validate` checks this file, `sandboxd config show` says what counts and why.\n",
    );
    for (section, about) in sections() {
        page.push_str(&format!("\n# {about}\n"));
        page.push_str(&match format {
            Format::Yaml => format!("{section}:\n"),
            Format::Toml => format!("[{section}]\n"),
        });
        let indent = if format == Format::Yaml { "  " } else { "" };
        for key in catalogue().iter().filter(|key| key.section() == section) {
            page.push_str(&format!("{indent}# {}\n", key.doc));
            page.push_str(&format!("{indent}# {}\n", said(key)));
            page.push_str(&format!("{indent}#{}\n", line(key, format)));
        }
    }
    page
}

/// What it may be, and what it is if not set.
fn said(key: &Key) -> String {
    let words = key.kind.words();
    match key.usual {
        Usual::Fixed(_) => format!("({words})"),
        Usual::Unset(means) | Usual::Told(means) => format!("({words}; by default {means})"),
    }
}

fn line(key: &Key, format: Format) -> String {
    // An example that names a file is no value before the file is there.
    let value = match key.read(&Given::Text(key.example.into())) {
        Ok(value) if !key.example.starts_with("file:") => value,
        _ => Value::Text(key.example.into()),
    };
    let middle = if format == Format::Yaml { ": " } else { " = " };
    format!("{}{middle}{}", key.name(), written(key, &value, format))
}

/// A value as a file has it.
pub(super) fn written(key: &Key, value: &Value, format: Format) -> String {
    match (format, value) {
        (_, Value::List(words)) => {
            format!("[{}]", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", "))
        }
        (_, Value::Map(pairs)) => {
            let middle = if format == Format::Yaml { ": " } else { " = " };
            let pair = |(name, text): (&String, &String)| format!("{}{middle}{}", quoted(name), quoted(text));
            format!("{{{}}}", pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        (_, Value::Flag(_) | Value::Whole(_) | Value::Decimal(_)) => value.written(),
        (Format::Yaml, _) if !matches!(value, Value::Text(_) | Value::Secret(_)) => value.written(),
        (Format::Yaml, _) if matches!(key.kind, Kind::Choice(_)) => value.written(),
        _ => quoted(&value.written()),
    }
}

/// In double quotes, which both formats read alike.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// The reference page, in Markdown.
pub fn reference() -> String {
    let mut page = String::from(INTRODUCTION);
    for (section, about) in sections() {
        page.push_str(&format!("\n## `{section}`\n\n{about}.\n\n"));
        page.push_str(
            "| Setting | Default | May be | Meaning | Also read from |\n| --- | --- | --- | --- | --- |\n",
        );
        for key in catalogue().iter().filter(|key| key.section() == section) {
            page.push_str(&row(key));
        }
    }
    page.push_str(ALIASES);
    for (name, reason) in founding::IGNORED {
        page.push_str(&format!("| `{name}` | {reason} |\n"));
    }
    page
}

fn row(key: &Key) -> String {
    let default = match key.usual {
        Usual::Fixed("") => "none".into(),
        Usual::Fixed(text) => format!("`{text}`"),
        Usual::Unset(means) | Usual::Told(means) => means.to_owned(),
    };
    let also = key.also.iter().map(|alias| match alias.unit.words() {
        "" => format!("`{}`", alias.name),
        unit => format!("`{}` ({unit})", alias.name),
    });
    let mut also: Vec<String> = also.collect();
    if key.path == "storage.url" {
        also.push("`DB_TYPE`, `DB_HOST`, `DB_PORT`, `DB_USER`, `DB_PASSWORD`, `DB_DATABASE`".into());
    }
    let cells = [format!("`{}`", key.name()), default, key.kind.words(), key.doc.into(), also.join(", ")];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

const INTRODUCTION: &str = "\
# Configuration

Settings of the server. This page is made of the table that the server itself goes by:
`sandboxd config generate --format markdown`.

Settings come from four places; later ones win:

1. the defaults below,
2. one file, YAML or TOML: the one named by `--config`, else by `SANDBOXD_CONFIG`, else the first of
   `./sandboxd.yaml`, `./sandboxd.toml`, `~/.config/sandboxd/sandboxd.yaml`, `~/.config/sandboxd/sandboxd.toml`,
   `/etc/sandboxd/sandboxd.yaml`, `/etc/sandboxd/sandboxd.toml`,
3. variables: `SANDBOXD_`, section and name in capitals, so `limits.max_timeout` is `SANDBOXD_LIMITS_MAX_TIMEOUT`,
4. the command line.

```console
$ sandboxd config generate -o sandboxd.yaml    # every setting, commented out
$ sandboxd config validate sandboxd.yaml       # everything that is wrong with it, at once
$ sandboxd config show                         # what counts, and where it came from
```

A setting that does not exist is an error, and so is a value that is out of range: nothing is cut, and nothing is
ignored in silence. A file that others than its owner and root can write is refused, because it decides about
isolation; one that was found and not named has to belong to whoever starts the server, or to root.

| Kind | Examples | Meaning |
| --- | --- | --- |
| time | `500ms`, `30s`, `5m`, `1h`, `30d`, `30` | a plain number is seconds; `-1` is never, where that is allowed |
| size | `64M`, `64Mi`, `64MB`, `1048576` | `K` `M` `G`, with or without `i` or `iB`, count in 1024; `KB` `MB` `GB` in 1000 |
| cores | `1`, `0.5`, `500m`, `50%` | |
| yes or no | `true`, `false` | also `yes`, `no`, `on`, `off`, `1`, `0` |
| list | `[\"a\", \"b\"]` | in a variable `a, b` too |
| names with texts | `{a: \"b\"}` | in a variable `a=b, c=d`, or JSON |
| path | `/var/lib/sandboxd`, `~/state` | a relative path begins where the server is started |
| secret | `file:/etc/sandboxd/token` | or the secret itself; the file must be readable for its owner only |
";

const ALIASES: &str = "
## Variables that are not read

The last column of the tables above names variables that are read for the sake of those who know them; the log says
so. `DISABLE_BWRAP` is an error unless it is false: isolation is not switched off like this. These mean nothing here,
and the log says that too:

| Variable | Why not |
| --- | --- |
";

#[cfg(test)]
mod tests;
