use super::*;
use crate::settings::tests::file;
use crate::settings::{Origin, Sources, load};
use std::path::Path;

fn both() -> [(&'static str, Format); 2] {
    [("s.yaml", Format::Yaml), ("s.toml", Format::Toml)]
}

#[test]
fn the_generated_file_changes_nothing() {
    let usual = load(&Sources::nowhere()).unwrap();
    for (name, format) in both() {
        let (_folder, path) = file(name, &generate(format));
        let loaded = load(&Sources::nowhere().file(&path)).unwrap();
        assert_eq!(loaded.settings, usual.settings, "{name}");
        assert!(loaded.all.iter().all(|setting| setting.origin == Origin::Default), "{name}");
    }
}

#[test]
fn its_lines_are_the_defaults() {
    let usual = load(&Sources::nowhere()).unwrap();
    for (name, format) in both() {
        // Examples stand where there is no default, and may name what is not there.
        let is_default = |line: &str| {
            let key = line.trim_start().trim_start_matches('#').split([':', ' ']).next().unwrap_or_default();
            let named = |known: &&Key| known.name() == key && line.ends_with(&super::line(known, format));
            catalogue().iter().find(named).is_some_and(|key| matches!(key.usual, Usual::Fixed(_)))
        };
        let mut count = 0;
        let mut page = String::new();
        for line in generate(format).lines() {
            let is_setting = line.trim_start().starts_with('#') && !line.trim_start().starts_with("# ");
            if is_setting && is_default(line) {
                count += 1;
                page.push_str(&line.replacen('#', "", 1));
            } else {
                page.push_str(line);
            }
            page.push('\n');
        }
        let fixed = catalogue().iter().filter(|key| matches!(key.usual, Usual::Fixed(_))).count();
        assert_eq!(count, fixed, "{page}");
        let (_folder, path) = file(name, &page);
        let loaded = load(&Sources::nowhere().file(&path)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(loaded.settings, usual.settings, "{name}");
        let set = loaded.all.iter().filter(|setting| setting.origin != Origin::Default).count();
        assert_eq!(set, fixed, "{name}");
    }
}

#[test]
fn every_setting_is_in_the_file_and_on_the_page() {
    for key in catalogue() {
        for (_, format) in both() {
            assert!(generate(format).contains(key.doc), "{}", key.path);
        }
        assert!(reference().contains(&format!("| `{}` |", key.name())), "{}", key.path);
        assert!(key.also.iter().all(|alias| reference().contains(alias.name)), "{}", key.path);
    }
}

#[test]
fn the_reference_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    let advice = "run `sandboxd config generate --format markdown -f -o docs/reference/configuration.md`";
    assert!(page == reference(), "docs/reference/configuration.md is stale: {advice}");
}
