//! Languages of this host, as tools name them.

use engine::runtime::{Catalogue, find};

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Language {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) aliases: Vec<String>,
    pub(super) mime: String,
    pub(super) extension: String,
    pub(super) source: String,
}

impl Language {
    pub(super) fn is(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }
}

/// Those that have what they need.
pub(super) fn usable(catalogue: &Catalogue) -> Vec<Language> {
    let all = catalogue.runtimes().unwrap_or_default();
    let usable = all.into_iter().filter(|runtime| find::find(runtime).is_ok());
    usable
        .map(|runtime| Language {
            name: runtime.name.clone(),
            title: runtime.title.clone(),
            aliases: runtime.aliases.clone(),
            mime: runtime.mime.clone(),
            extension: runtime.extensions.first().cloned().unwrap_or_default(),
            source: runtime.source.clone(),
        })
        .collect()
}
