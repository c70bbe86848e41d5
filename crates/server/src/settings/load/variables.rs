//! The layer of variables: our own name for each setting, then names that people know from before.

use super::{Loading, Origin};
use crate::settings::catalogue::{catalogue, sections};
use crate::settings::founding::{self, Unit};
use crate::settings::key::Key;
use crate::settings::kind::{Given, Kind, Wrong, flag};
use crate::settings::nearest::nearest;
use crate::settings::problem::Problem;

/// Variables that start like ours and are no settings of the server.
const OTHERS: [&str; 5] =
    ["SANDBOXD_CONFIG", "SANDBOXD_EXECUTOR", "SANDBOXD_CACHE_DIR", "SANDBOXD_SERVER", "SANDBOXD_TOKEN"];

impl<'a> Loading<'a> {
    pub(super) fn variables(&mut self) {
        for key in catalogue() {
            self.variable(key);
        }
        self.strangers();
        self.meaningless();
    }

    /// Reads one setting: our own name first, then the others in their order.
    fn variable(&mut self, key: &'static Key) {
        let mut chosen: Option<String> = None;
        let own = key.variable();
        if let Some(text) = self.text(key, &own) {
            self.take(key, &own, text);
            chosen = Some(own);
        }
        for alias in &key.also {
            let Some(text) = self.text(key, alias.name).filter(|text| !text.trim().is_empty()) else {
                continue;
            };
            match (&chosen, alias.unit.convert(text)) {
                (Some(other), _) => {
                    self.notes.push(format!("`{}` is not read, because `{other}` is", alias.name))
                }
                (None, Ok(Some(text))) => {
                    self.take(key, alias.name, &text);
                    self.tell(key, alias.name);
                    chosen = Some(alias.name.into());
                }
                (None, Ok(None)) if alias.unit == Unit::Address => {
                    self.notes.push(format!("`{}` is not read: `{text}` is no address", alias.name));
                }
                (None, Ok(None)) => {}
                (None, Err(wrong)) => self.refuse(key.path, Origin::Variable(alias.name.into()), wrong),
            }
        }
        if key.path == "storage.url" {
            self.database(key, chosen);
        }
    }

    /// A database that was described in parts.
    fn database(&mut self, key: &'static Key, chosen: Option<String>) {
        let sources = self.sources;
        let known = super::Known { values: &self.values, sources };
        let parts =
            founding::database(|name| sources.variables.get(name)?.to_str().filter(|text| !text.is_empty()));
        let some: Vec<&str> =
            founding::DATABASE.into_iter().filter(|name| known.variable(name).is_some()).collect();
        let origin = Origin::Variable("DB_TYPE".into());
        match (some.first(), parts, chosen) {
            (None, ..) => {}
            (Some(name), None, _) => {
                self.notes.push(format!("`{name}` is not read, because `DB_TYPE` is not set"))
            }
            (Some(name), _, Some(other)) => {
                self.notes.push(format!("`{name}` is not read, because `{other}` is"))
            }
            (Some(_), Some(Ok(url)), None) => {
                self.set(key, &Given::Text(url), origin);
                self.tell(key, &some.join("`, `"));
            }
            (Some(_), Some(Err(wrong)), None) => self.refuse(key.path, origin, wrong),
        }
    }

    /// The text of a variable, if it is set and is a text.
    fn text(&mut self, key: &Key, name: &str) -> Option<&'a str> {
        let value = self.sources.variables.get(name)?;
        if value.to_str().is_none() {
            self.refuse(key.path, Origin::Variable(name.into()), Wrong::new("is not valid UTF-8"));
        }
        value.to_str()
    }

    fn take(&mut self, key: &'static Key, name: &str, text: &str) {
        let origin = Origin::Variable(name.into());
        if text.starts_with("tcp://") && matches!(key.kind, Kind::Whole { .. }) {
            let wrong = Wrong::new(format!("`{text}` is what Kubernetes says about a service of that name"));
            let hint = "rename the service, or set `enableServiceLinks: false` for the pod";
            return self.refuse(key.path, origin, wrong.hint(hint));
        }
        self.set(key, &Given::Text(text.into()), origin);
    }

    /// Says that a name from before was read. Our own short names need no word.
    fn tell(&mut self, key: &Key, name: &str) {
        let Some((value, _)) = self.values.0.get(key.path) else { return };
        if !name.starts_with("SANDBOXD_") && !self.broken.contains(key.path) {
            let shown = key.shown(value);
            let own = key.variable();
            self.notes.push(format!(
                "`{name}` is read as `{}`, which is {shown}; its own name is `{own}`",
                key.path
            ));
        }
    }

    /// Variables that start like ours, and are not: an error where they can only be a slip.
    fn strangers(&mut self) {
        let own: Vec<String> = catalogue().iter().map(Key::variable).collect();
        let also: Vec<&str> = catalogue().iter().flat_map(|key| &key.also).map(|alias| alias.name).collect();
        for name in self.sources.variables.keys() {
            let is_known =
                own.contains(name) || also.contains(&name.as_str()) || OTHERS.contains(&name.as_str());
            if is_known || is_service(name) {
                continue;
            }
            if name.starts_with(founding::FAMILY) {
                self.notes.push(format!("`{name}` is not read: there is no such setting here"));
            }
            let Some(rest) = name.strip_prefix("SANDBOXD_") else { continue };
            let is_ours = |(section, _): &(&str, _)| {
                rest.strip_prefix(&section.to_uppercase()).is_some_and(|rest| rest.starts_with('_'))
            };
            let known = own.iter().map(String::as_str).chain(also.iter().copied()).chain(OTHERS);
            let meant = nearest(name, known);
            match (sections().iter().any(is_ours), meant) {
                (false, None) => self.notes.push(format!("`{name}` is not read: there is no such setting")),
                (_, meant) => {
                    let hint = meant.map(|meant| format!("did you mean `{meant}`?"));
                    let message = "there is no such setting".into();
                    self.problems.push(Problem::at(format!("`{name}`"), Wrong { message, hint }));
                }
            }
        }
    }

    /// Variables that meant something before.
    fn meaningless(&mut self) {
        for (name, reason) in founding::IGNORED {
            if self.sources.variables.get(*name).is_some_and(|value| !value.is_empty()) {
                self.notes.push(format!("`{name}` is not read: {reason}"));
            }
        }
        let Some(text) = self.sources.variables.get("DISABLE_BWRAP") else { return };
        if flag(&text.to_string_lossy()) != Some(false) && !text.is_empty() {
            let wrong = Wrong::new("isolation is not switched off like this");
            let hint = "unset it; `isolation.allow_weaker` names layers that may be missing";
            self.problems.push(Problem::at("`DISABLE_BWRAP`", wrong.hint(hint)));
        }
    }
}

/// What Kubernetes sets for every service it knows.
fn is_service(name: &str) -> bool {
    let is_port = |(_, rest): (&str, &str)| rest.starts_with(|c: char| c.is_ascii_digit());
    ["_SERVICE_HOST", "_SERVICE_PORT"].iter().any(|end| name.contains(end))
        || name.split_once("_PORT_").is_some_and(is_port)
        || name == "SANDBOXD_PORT"
}
