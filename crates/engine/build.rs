//! Turns the pages people write (`runtimes/*.toml`, `policies/rootfs.toml`) into tables the engine reads fast.
//!
//! A run looks at one language and should not pay for the others, nor for TOML. Each page becomes JSON, its
//! checks apart from the rest, beside an index of the names and endings it answers to. Adding a language is
//! adding a file.

use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    let out = PathBuf::from(std::env::var("OUT_DIR").unwrap_or_default());

    let folder = root.join("runtimes");
    let mut pages = files(&folder);
    pages.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let mut index = String::from("&[\n");
    for path in &pages {
        let mut page = read(path);
        let checks =
            page.as_object_mut().and_then(|page| page.remove("check")).unwrap_or(Value::Array(Vec::new()));
        let name = page["name"].as_str().unwrap_or_else(|| panic!("{}: no name", path.display()));
        let mut names = vec![name.to_owned()];
        names.extend(words(&page["aliases"]));
        let _ = writeln!(
            index,
            "Page {{ names: &{names:?}, extensions: &{:?}, runtime: {:?}, checks: {:?} }},",
            words(&page["extensions"]),
            page.to_string(),
            checks.to_string()
        );
    }
    index.push(']');
    write(&out.join("runtimes.rs"), &index);

    write(&out.join("drivers.rs"), &texts(&folder.join("park")));
    write(&out.join("hosts.rs"), &texts(&folder.join("handler")));

    write(&out.join("rootfs.json"), &read(&root.join("policies/rootfs.toml")).to_string());
}

/// Names and texts of all files below a folder, as Rust.
fn texts(folder: &Path) -> String {
    let mut list = String::from("&[\n");
    for path in files_below(folder) {
        let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let _ = writeln!(list, "({name:?}, {text:?}),");
    }
    list.push(']');
    list
}

fn files(folder: &Path) -> Vec<PathBuf> {
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    paths
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let below = folders.filter(|path| path.is_dir()).flat_map(|path| files_below(&path));
    let mut paths: Vec<PathBuf> = below.chain(files(folder)).collect();
    paths.sort();
    paths
}

fn read(path: &Path) -> Value {
    println!("cargo:rerun-if-changed={}", path.display());
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn words(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|word| Some(word.as_str()?.to_owned())).collect()
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}
