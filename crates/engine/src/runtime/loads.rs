//! What an interpreter loads, and whose copy it is.

use super::{Park, PreloadSet};
use crate::isolator::Load;

impl Park {
    /// What is loaded one after the other for programs that want a set, or these modules: what everybody gets, each
    /// set that the next one contains, and what is left. So whoever wants more is a copy of who wants less.
    pub(crate) fn loads(&self, set: Option<usize>, modules: &[String]) -> Vec<Load> {
        let mut wanted: Vec<&String> = modules.iter().collect();
        wanted.extend(set.and_then(|set| self.sets.get(set)).iter().flat_map(|set| &set.preload));
        let mut path = Vec::new();
        let mut nearest = self.nearest(|set| contains(&wanted, &set.preload));
        while let Some(set) = nearest {
            path.push(set);
            let has: Vec<&String> = set.preload.iter().collect();
            nearest = self.nearest(|other| other.preload.len() < has.len() && contains(&has, &other.preload));
        }
        let mut loads = vec![Load { preload: self.preload.clone(), warm_up: programs(&self.warm_up) }];
        for set in path.into_iter().rev() {
            let preload = missing(&loads, &set.preload);
            loads.push(Load { preload, warm_up: programs(&set.warm_up) });
        }
        let rest = missing(&loads, wanted);
        if !rest.is_empty() {
            loads.push(Load { preload: rest, warm_up: Vec::new() });
        }
        loads
    }

    /// The largest of the sets that fit.
    fn nearest(&self, fits: impl Fn(&PreloadSet) -> bool) -> Option<&PreloadSet> {
        self.sets.iter().filter(|set| fits(set)).max_by_key(|set| set.preload.len())
    }
}

fn contains(all: &[&String], some: &[String]) -> bool {
    some.iter().all(|one| all.contains(&one))
}

/// Those that are not loaded yet, each once.
fn missing<'m>(loads: &[Load], modules: impl IntoIterator<Item = &'m String>) -> Vec<String> {
    let mut missing: Vec<String> = Vec::new();
    for module in modules {
        if !loads.iter().any(|load| load.preload.contains(module)) && !missing.contains(module) {
            missing.push(module.clone());
        }
    }
    missing
}

fn programs(text: &str) -> Vec<String> {
    if text.is_empty() { Vec::new() } else { vec![text.to_owned()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn park() -> Park {
        let set = |names: &[&str]| serde_json::json!({"preload": names, "warm_up": names.join(" ")});
        let sets = [
            set(&["sqlite3"]),
            set(&["numpy"]),
            set(&["numpy", "pandas"]),
            set(&["numpy", "plot", "plot.more"]),
            set(&["numpy", "pandas", "plot", "plot.more"]),
        ];
        let page = serde_json::json!({"start_env": [], "preload": ["os"], "warm_up": "1", "set": sets});
        serde_json::from_value(page).unwrap()
    }

    fn names(loads: &[Load]) -> Vec<String> {
        loads.iter().map(|load| load.preload.join(" ")).collect()
    }

    #[test]
    fn who_wants_more_is_a_copy_of_who_wants_less() {
        let park = park();
        let of_set = |set| names(&park.loads(Some(set), &[]));
        assert_eq!(names(&park.loads(None, &[])), ["os"]);
        assert_eq!(of_set(1), ["os", "numpy"]);
        assert_eq!(of_set(2), ["os", "numpy", "pandas"]);
        assert_eq!(of_set(4), ["os", "numpy", "plot plot.more", "pandas"]);
        assert_eq!(park.loads(Some(2), &[])[1], park.loads(Some(1), &[])[1], "so that they meet");
    }

    #[test]
    fn modules_of_a_template_come_on_top_of_the_nearest_set() {
        let park = park();
        let of = |modules: &[&str]| {
            let modules: Vec<String> = modules.iter().map(|&name| name.to_owned()).collect();
            names(&park.loads(None, &modules))
        };
        assert_eq!(of(&["wave"]), ["os", "wave"]);
        assert_eq!(of(&["os"]), ["os"]);
        assert_eq!(of(&["pandas"]), ["os", "pandas"], "which is no set");
        assert_eq!(
            of(&["pandas", "sqlite3", "numpy", "wave", "wave"]),
            ["os", "numpy", "pandas", "sqlite3 wave"]
        );
        let same = park.loads(None, &["numpy".into(), "pandas".into()]);
        assert_eq!(same, park.loads(Some(2), &[]), "what is the same is not loaded twice");
    }
}
