//! Variables that people know from before: read as what they meant, in the unit they had, and told about.
//!
//! A variable whose meaning does not exist here is not accepted in silence: it is named with the reason.

use super::kind::{Wrong, flag};

/// Another variable of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Its name.
    pub name: &'static str,
    /// How its text becomes ours.
    pub unit: Unit,
}

/// How the text of a variable becomes the text of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The same.
    Same,
    /// A plain number is kilobytes of 1024.
    Kilobytes,
    /// A plain number is minutes, `-1` is never.
    Minutes,
    /// A plain number is hours, `-1` is never.
    Hours,
    /// Names that were usual for levels of a log.
    Level,
    /// `console` was one more name for text.
    Format,
    /// Yes is the host's network.
    Network,
    /// No is zero; yes says nothing.
    Unlimited,
    /// An address; other software uses this variable for other things.
    Address,
    /// The name of a bucket.
    Bucket,
    /// The name of a database's driver may stand beside its kind.
    Driver,
}

impl Unit {
    /// The text of the setting; none where the variable says nothing about it.
    pub(super) fn convert(self, text: &str) -> Result<Option<String>, Wrong> {
        let text = text.trim();
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let counted = |unit: &str| if is_plain { format!("{text}{unit}") } else { text.to_owned() };
        let yes = || flag(text).ok_or_else(|| Wrong::new(format!("`{text}` is neither yes nor no")));
        Ok(Some(match self {
            Unit::Same => text.to_owned(),
            Unit::Kilobytes => counted("K"),
            Unit::Minutes => counted("m"),
            Unit::Hours => counted("h"),
            Unit::Level => match text.to_ascii_lowercase().as_str() {
                "warning" => "warn".into(),
                "critical" | "fatal" => "error".into(),
                other => other.to_owned(),
            },
            Unit::Format if text.eq_ignore_ascii_case("console") => "text".into(),
            Unit::Format => text.to_owned(),
            Unit::Network => if yes()? { "host" } else { "none" }.into(),
            Unit::Unlimited if yes()? => return Ok(None),
            Unit::Unlimited => "0".into(),
            Unit::Address if text == "localhost" || text.parse::<std::net::IpAddr>().is_ok() => {
                text.to_owned()
            }
            Unit::Address => return Ok(None),
            Unit::Bucket => format!("s3://{text}"),
            Unit::Driver => without_driver(text),
        }))
    }

    /// What a plain number or word means, for the reference page.
    pub fn words(self) -> &'static str {
        match self {
            Unit::Same | Unit::Driver => "",
            Unit::Kilobytes => "KB",
            Unit::Minutes => "minutes",
            Unit::Hours => "hours",
            Unit::Level => "`WARNING` and `CRITICAL` too",
            Unit::Format => "`console` too",
            Unit::Network => "`true` is `host`",
            Unit::Unlimited => "`false` is 0",
            Unit::Address => "only an IP address or `localhost`",
            Unit::Bucket => "the bucket's name",
        }
    }
}

/// `mysql+aiomysql://…` is `mysql://…`.
fn without_driver(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => format!("{}://{rest}", scheme.split('+').next().unwrap_or_default()),
        None => url.to_owned(),
    }
}

/// The parts a database was described by, as one address; none if its kind is not given.
pub(super) fn database<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Option<Result<String, Wrong>> {
    let kind = variable("DB_TYPE")?.to_ascii_lowercase();
    let (scheme, usual_port) = match kind.as_str() {
        "mysql" | "mariadb" => ("mysql", "3306"),
        "postgres" | "postgresql" => ("postgres", "5432"),
        "sqlite" => {
            return Some(variable("DB_DATABASE").map_or_else(
                || Err(Wrong::new("`DB_TYPE` is `sqlite`, and `DB_DATABASE` names no file")),
                |path| Ok(format!("sqlite://{}", encode(path, true))),
            ));
        }
        _ => {
            let wrong = Wrong::new(format!("`{kind}` is no kind of database that is supported"));
            return Some(Err(wrong.hint("use `mysql`, `mariadb`, `postgres` or `sqlite`")));
        }
    };
    let part = |name: &str, usual: &'static str| encode(variable(name).unwrap_or(usual), false);
    let Some(name) = variable("DB_DATABASE").or_else(|| variable("DB_NAME")) else {
        return Some(Err(Wrong::new("`DB_TYPE` is set, and `DB_DATABASE` is not")));
    };
    let who = match (variable("DB_USER"), variable("DB_PASSWORD")) {
        (None, _) => String::new(),
        (Some(user), None) => format!("{}@", encode(user, false)),
        (Some(user), Some(password)) => format!("{}:{}@", encode(user, false), encode(password, false)),
    };
    let (host, port) = (variable("DB_HOST").unwrap_or("localhost"), part("DB_PORT", usual_port));
    Some(Ok(format!("{scheme}://{who}{host}:{port}/{}", encode(name, false))))
}

/// Variables that are parts of the address of a database.
pub(super) const DATABASE: [&str; 7] =
    ["DB_TYPE", "DB_HOST", "DB_PORT", "DB_USER", "DB_PASSWORD", "DB_DATABASE", "DB_NAME"];

/// What has a meaning in an address is written as a number.
fn encode(text: &str, path: bool) -> String {
    let keep = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte) || (path && *byte == b'/');
    let one = |byte: u8| if keep(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

/// Variables that meant something, and mean nothing here.
pub(super) const IGNORED: &[(&str, &str)] = &[
    ("WORKERS", "one process serves all requests, with as many threads as there are cores"),
    ("ENVIRONMENT", "there is one way to run"),
    ("DEBUG", "`log.level` is `debug` for that"),
    ("RUNNER_DEBUG", "`log.level` is `debug` for that"),
    ("VERBOSE", "`log.level` is `debug` for that"),
    ("SANDBOX_MAX_TASK_COUNT", "a sandbox that ran a program is never used for another one"),
    ("SANDBOX_ISOLATION_TYPE", "isolation is chosen by what the host offers, and never weakened in silence"),
    ("SANDBOX_WORKDIR", "a sandbox has its workspace in memory of its own"),
    ("WORKDIR", "a sandbox has its workspace in memory of its own"),
    ("SANDBOX_DOCKER_IMAGE", "sandboxes are made without images"),
    ("SANDBOX_DOCKER_NETWORK", "sandboxes are made without Docker; see `isolation.network`"),
    ("SANDBOX_RUNTIME", "a request names its language"),
    ("DEFAULT_TEMPLATE_IMAGE", "sandboxes are made without images; see `sessions.default_template`"),
    ("DOCKER_HOST", "sandboxes are made without Docker"),
    ("KUBERNETES_NAMESPACE", "sandboxes are made on this host"),
    ("CONTROL_PLANE_URL", "sandboxes do not call back"),
    ("CREATING_TIMEOUT_SECONDS", "making a sandbox has a bound of its own"),
    ("HEALTH_CHECK_INTERVAL_SECONDS", "sandboxes are watched by the kernel, not asked"),
    ("HEARTBEAT_INTERVAL_SECONDS", "sandboxes are watched by the kernel, not asked"),
    ("HEARTBEAT_TIMEOUT_SECONDS", "sandboxes are watched by the kernel, not asked"),
    ("METRICS_PORT", "metrics are at `/metrics` of the server's own port"),
    ("SECRET_KEY", "nothing is signed with it; see `server.token`"),
    ("JUPYTER_GATEWAY_URL", "sessions keep their own interpreters"),
    ("MCP_TRANSPORT", "MCP is a door of the same server"),
    ("MCP_HOST", "MCP is a door of the same server; see `server.host`"),
    ("MCP_PORT", "MCP is a door of the same server; see `server.port`"),
    ("MCP_CONTROL_PLANE_URL", "MCP is a door of the same server"),
];

/// How a whole family of variables began that followed the sections of a file.
pub(super) const FAMILY: &str = "SANDBOXRUNNER_";

/// Where files of that family were.
pub(super) const FILES: [&str; 4] = [
    "./mcp-sandboxd.yaml",
    "./config/mcp-sandboxd.yaml",
    "~/.config/sandboxrunner/mcp-sandboxd.yaml",
    "/etc/sandboxrunner/mcp-sandboxd.yaml",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_unit_it_had() {
        let cases = [
            (Unit::Kilobytes, "131072", "131072K"),
            (Unit::Kilobytes, "128M", "128M"),
            (Unit::Minutes, "30", "30m"),
            (Unit::Minutes, "-1", "-1"),
            (Unit::Hours, "6", "6h"),
            (Unit::Level, "WARNING", "warn"),
            (Unit::Format, "console", "text"),
            (Unit::Network, "yes", "host"),
            (Unit::Network, "0", "none"),
            (Unit::Unlimited, "false", "0"),
            (Unit::Address, "0.0.0.0", "0.0.0.0"),
            (Unit::Bucket, "work", "s3://work"),
            (Unit::Driver, "mysql+aiomysql://a:b@c/d", "mysql://a:b@c/d"),
        ];
        for (unit, text, ours) in cases {
            assert_eq!(unit.convert(text), Ok(Some(ours.into())), "{text}");
        }
        assert_eq!(Unit::Unlimited.convert("true"), Ok(None));
        assert_eq!(Unit::Address.convert("x86_64-conda-linux-gnu"), Ok(None));
        assert!(Unit::Network.convert("maybe").is_err());
    }

    #[test]
    fn a_database_is_put_together_from_its_parts() {
        let parts = |pairs: &'static [(&str, &str)]| {
            database(move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, text)| *text))
        };
        assert_eq!(parts(&[("DB_HOST", "db")]), None);
        let whole = parts(&[
            ("DB_TYPE", "mariadb"),
            ("DB_HOST", "db"),
            ("DB_USER", "me"),
            ("DB_PASSWORD", "p@ss/word"),
            ("DB_DATABASE", "x"),
        ]);
        assert_eq!(whole, Some(Ok("mysql://me:p%40ss%2Fword@db:3306/x".into())));
        let file = parts(&[("DB_TYPE", "sqlite"), ("DB_DATABASE", "/a b.db")]);
        assert_eq!(file, Some(Ok("sqlite:///a%20b.db".into())));
        assert!(parts(&[("DB_TYPE", "oracle")]).unwrap().is_err());
        assert!(parts(&[("DB_TYPE", "mysql")]).unwrap().is_err());
    }

    #[test]
    fn no_variable_is_both_read_and_ignored() {
        let read: Vec<&str> =
            crate::settings::catalogue().iter().flat_map(|key| &key.also).map(|alias| alias.name).collect();
        for (name, reason) in IGNORED {
            assert!(!read.contains(name), "{name}");
            assert!(!reason.is_empty() && !reason.ends_with('.'), "{name}");
        }
        for (index, name) in read.iter().enumerate() {
            assert!(!read[index + 1..].contains(name), "{name} is read by two settings");
        }
    }
}
