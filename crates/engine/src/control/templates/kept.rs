//! What is kept ready for templates, and programs that name one.

use super::TemplateSpec;
use crate::control::program::{Defaults, Program};
use crate::control::{Caller, ControlError, ControlPlane, LOOK};
use crate::runtime::{Runtime, Warm};
use crate::storage::Template;
use crate::{Engine, EngineError, MOST_REHEARSAL, Request, Warmth};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Most modules of a language, and longest name of one.
const MOST_MODULES: usize = 32;
const LONGEST_NAME: usize = 100;
/// Shortest and longest time nobody has to ask, in milliseconds.
const IDLE: [u64; 2] = [1000, 30 * 24 * 3_600_000];
/// Templates that are looked at together.
const PIECE: usize = 100;

impl TemplateSpec {
    /// What it says about programs that wait, if anything.
    fn warmth(&self, template: &Template) -> Option<Arc<Warmth>> {
        let warmth = Warmth {
            template: template.id.clone(),
            revision: template.updated_at,
            preload: self.preload.clone(),
            rehearsal: self.rehearsal.clone(),
            pool: self.pool,
        };
        let says =
            !warmth.preload.is_empty() || !warmth.rehearsal.is_empty() || warmth.pool != Default::default();
        says.then(|| Arc::new(warmth))
    }

    /// What its programs get that do not ask for something else.
    fn defaults(&self, template: &Template, usual: &Defaults) -> Defaults {
        let mut env = usual.env.clone();
        env.extend(self.env.clone());
        Defaults {
            env,
            limits: self.limits.or(usual.limits),
            network: self.network.unwrap_or(usual.network),
            template: self.warmth(template),
            ..usual.clone()
        }
    }

    /// Whether it has this language; one that names none has all.
    fn has(&self, engine: &Engine, language: &str) -> bool {
        let is_it =
            |name: &String| engine.catalogue().by_name(name).is_ok_and(|known| known.name == language);
        self.languages.is_empty() || self.languages.iter().any(is_it)
    }

    /// Languages whose programs wait because of it: those it names, or says something about.
    fn waiting<'e>(&self, engine: &'e Engine) -> Vec<&'e Runtime> {
        let about = self.preload.keys().chain(self.rehearsal.keys());
        let mut names: Vec<&String> =
            if self.languages.is_empty() { about.collect() } else { self.languages.iter().collect() };
        names.sort();
        names.dedup();
        let runtimes = names.into_iter().filter_map(|name| engine.catalogue().by_name(name).ok());
        runtimes.filter(|runtime| runtime.warm != Warm::None).collect()
    }
}

impl ControlPlane {
    /// A program with what its template says.
    pub(in crate::control) async fn request_of_template(
        &self,
        caller: &Caller,
        id: &str,
        program: &Program,
    ) -> Result<Request, ControlError> {
        let template = self.template(id).await?;
        let spec: TemplateSpec = template.spec.read()?;
        if spec.inactive {
            return Err(ControlError::conflict("template", "is not active"));
        }
        self.check_network(spec.network)?;
        let defaults = spec.defaults(&template, &self.settings.defaults);
        let request = program.request(&caller.tenant, &defaults)?;
        let language = &self.engine.catalogue().by_name(&request.language)?.name;
        if !spec.has(&self.engine, language) {
            return Err(EngineError::invalid("language", format!("template `{id}` has no `{language}`"))
                .with_hint(format!("it has {}", listed(spec.languages.iter())))
                .into());
        }
        Ok(request)
    }

    /// Has sandboxes kept for templates as they are, also where another server changes them, until the end.
    pub(in crate::control) async fn follow_templates(self: Arc<ControlPlane>) {
        let mut ending = self.ending.subscribe();
        let mut seen = Vec::new();
        loop {
            // Storage that is away has no news.
            let _ = self.take_up_templates(&mut seen).await;
            tokio::select! {
                _ = ending.wait_for(|ending| *ending) => return,
                () = self.templates_changed.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    async fn take_up_templates(&self, seen: &mut Vec<Arc<Warmth>>) -> Result<(), ControlError> {
        let (mut after, mut all) = (None, Vec::new());
        loop {
            let page = self.templates(after.as_ref(), PIECE).await?;
            for template in page.items {
                let spec: TemplateSpec = template.spec.read()?;
                let warmth = spec.warmth(&template).filter(|_| !spec.inactive);
                all.extend(warmth.map(|warmth| (warmth, spec, template)));
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let kept: Vec<Arc<Warmth>> = all.iter().map(|(warmth, ..)| warmth.clone()).collect();
        self.engine.keep_templates(&kept);
        let is_new =
            |warmth: &Arc<Warmth>| warmth.pool.min.is_some_and(|min| min > 0) && !seen.contains(warmth);
        for (warmth, spec, template) in all.iter().filter(|(warmth, ..)| is_new(warmth)) {
            let defaults = spec.defaults(template, &self.settings.defaults);
            for runtime in spec.waiting(&self.engine) {
                let program = Program { language: runtime.name.clone(), ..Program::default() };
                let request = program.request("", &defaults)?;
                if let Err(error) = self.engine.expect(&request).await {
                    let (template, language) = (&warmth.template, &runtime.name);
                    tracing::warn!(template, language, %error, "no sandbox can be kept for this template");
                }
            }
        }
        *seen = kept;
        Ok(())
    }
}

/// The same with languages by their names, if all it says about programs that wait can be had.
pub(super) fn checked(engine: &Engine, spec: &TemplateSpec) -> Result<TemplateSpec, EngineError> {
    let mut checked = TemplateSpec { preload: BTreeMap::new(), rehearsal: BTreeMap::new(), ..spec.clone() };
    for (language, modules) in &spec.preload {
        let name = copied(engine, spec, "preload", language)?;
        let field = format!("preload.{language}");
        if modules.len() > MOST_MODULES {
            return Err(EngineError::invalid(&field, format!("{} modules are too many", modules.len()))
                .with_hint(format!("at most {MOST_MODULES}")));
        }
        if let Some(odd) = modules.iter().find(|module| !is_module(module)) {
            return Err(EngineError::invalid(&field, format!("`{odd}` is no name of a module")).with_hint(format!(
                "letters, digits and `_`, each part between dots beginning with a letter, at most {LONGEST_NAME}; such as `matplotlib.pyplot`"
            )));
        }
        if !modules.is_empty() {
            checked.preload.insert(name, modules.clone());
        }
    }
    for (language, program) in &spec.rehearsal {
        let name = copied(engine, spec, "rehearsal", language)?;
        let field = format!("rehearsal.{language}");
        if program.len() > MOST_REHEARSAL {
            return Err(EngineError::invalid(&field, format!("{} bytes are too many", program.len()))
                .with_hint(format!("at most {MOST_REHEARSAL}; it should do in short what programs do")));
        }
        if program.contains('\0') {
            return Err(EngineError::invalid(&field, "has a NUL byte in it").with_hint("it is a program"));
        }
        if !program.is_empty() {
            checked.rehearsal.insert(name, program.clone());
        }
    }
    check_pool(engine, &checked)?;
    Ok(checked)
}

fn check_pool(engine: &Engine, spec: &TemplateSpec) -> Result<(), EngineError> {
    let (pool, most) = (spec.pool, engine.template_max());
    for (field, value) in [("pool.max", pool.max), ("pool.min", pool.min)] {
        if let Some(value) = value.filter(|value| *value > most) {
            return Err(EngineError::invalid(field, format!("{value} is more than {most}"))
                .with_hint("whoever runs the server can set `pool.template_max`"));
        }
    }
    if let (Some(min), Some(max)) = (pool.min, pool.max)
        && min > max
    {
        return Err(EngineError::invalid(
            "pool.min",
            format!("{min} is more than `pool.max`, which is {max}"),
        )
        .with_hint("the least is part of the most"));
    }
    if let Some(idle) = pool.idle_timeout_ms
        && !(IDLE[0]..=IDLE[1]).contains(&idle)
    {
        let shown = IDLE.map(|bound| format!("{:?}", Duration::from_millis(bound)));
        return Err(EngineError::invalid("pool.idle_timeout", "is out of range")
            .with_hint(format!("from {} to {}", shown[0], shown[1])));
    }
    if pool.min.is_some_and(|min| min > 0) && spec.waiting(engine).is_empty() {
        return Err(EngineError::invalid("pool.min", "it names no language whose programs could wait")
            .with_hint("name them in `languages`"));
    }
    Ok(())
}

/// The name of a language whose interpreter is copied, and which the template has.
fn copied(engine: &Engine, spec: &TemplateSpec, field: &str, language: &str) -> Result<String, EngineError> {
    let catalogue = engine.catalogue();
    let runtime = catalogue.by_name(language).map_err(|error| match error {
        EngineError::Invalid { message, hint, .. } => {
            EngineError::Invalid { field: field.into(), message, hint }
        }
        other => other,
    })?;
    let all = catalogue.runtimes()?;
    if runtime.warm != Warm::Zygote {
        let can = all.iter().filter(|runtime| runtime.warm == Warm::Zygote).map(|runtime| &runtime.name);
        return Err(EngineError::invalid(
            &format!("{field}.{language}"),
            format!("interpreters of {} are not copied", runtime.title),
        )
        .with_hint(format!("this works for {}", listed(can))));
    }
    if !spec.has(engine, &runtime.name) {
        return Err(EngineError::invalid(&format!("{field}.{language}"), "is none of its `languages`")
            .with_hint("add it there, or leave it out here"));
    }
    Ok(runtime.name.clone())
}

/// Whether this can only be the name of a module, and not what makes one do something when it is loaded.
fn is_module(name: &str) -> bool {
    let plain = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    name.len() <= LONGEST_NAME && name.split('.').all(plain)
}

fn listed<'n>(names: impl Iterator<Item = &'n String>) -> String {
    let quoted: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_plain_names() {
        for name in ["os", "numpy", "matplotlib.pyplot", "urllib3", "a_b.c_1"] {
            assert!(is_module(name), "{name}");
        }
        let long = "a".repeat(LONGEST_NAME + 1);
        for name in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "../a",
            "a/b",
            "a b",
            "a-b",
            "1a",
            "__main__",
            "a.__main__",
            "_x",
            "é",
            &long,
        ] {
            assert!(!is_module(name), "{name}");
        }
    }
}
