//! What a template says about the programs that wait for those who name it.

use super::PoolSettings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Most bytes of a program that each copy of an interpreter runs before it waits.
pub const MOST_REHEARSAL: usize = 16 << 10;

/// A template, as far as the pool is concerned. Programs that name it have shelves of their own; once it says something
/// else, it has others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Warmth {
    /// Its id.
    pub template: String,
    /// Which of its states this is.
    pub revision: i64,
    /// By language, modules that are loaded in the interpreter its programs are copies of, as far as they are installed.
    pub preload: BTreeMap<String, Vec<String>>,
    /// By language, a program that each copy runs before it waits.
    pub rehearsal: BTreeMap<String, String>,
    /// How many wait.
    pub pool: TemplatePool,
}

/// How many sandboxes with waiting programs are kept for a template, where that shall differ from what is usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct TemplatePool {
    /// At least, for each of its languages, as long as the template is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<usize>,
    /// At most, for each of its languages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<usize>,
    /// How long nobody has to ask, in milliseconds, until those beyond the least are taken down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
}

impl Warmth {
    /// Modules its programs in this language find loaded.
    pub(crate) fn modules(&self, language: &str) -> &[String] {
        self.preload.get(language).map(Vec::as_slice).unwrap_or_default()
    }
}

/// How many places a shelf holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) min: usize,
    pub(super) max: usize,
    pub(super) idle_timeout: Duration,
}

impl Bounds {
    /// As the operator says, or a template within the operator's bounds.
    pub(super) fn of(template: Option<&Warmth>, settings: &PoolSettings) -> Bounds {
        let usual = Bounds { min: settings.min, max: settings.max, idle_timeout: settings.idle_timeout };
        let Some(TemplatePool { min, max, idle_timeout_ms }) = template.map(|template| template.pool) else {
            return usual;
        };
        let max = max.unwrap_or(usual.max.max(min.unwrap_or(0))).min(settings.template_max);
        let idle_timeout = idle_timeout_ms.map_or(usual.idle_timeout, Duration::from_millis);
        Bounds { min: min.unwrap_or(usual.min).min(max), max, idle_timeout }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_has_what_it_says_within_what_the_operator_allows() {
        let settings = PoolSettings { min: 2, max: 4, template_max: 10, ..PoolSettings::default() };
        let of = |min, max| {
            let pool = TemplatePool { min, max, idle_timeout_ms: Some(7) };
            let bounds = Bounds::of(Some(&Warmth { pool, ..Warmth::default() }), &settings);
            assert_eq!(bounds.idle_timeout, Duration::from_millis(7));
            (bounds.min, bounds.max)
        };
        assert_eq!(of(None, None), (2, 4));
        assert_eq!(of(Some(1), None), (1, 4));
        assert_eq!(of(Some(6), None), (6, 6));
        assert_eq!(of(None, Some(1)), (1, 1));
        assert_eq!(of(Some(20), Some(30)), (10, 10));
    }
}
