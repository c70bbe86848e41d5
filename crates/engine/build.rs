//! Lists every page of `runtimes/`, so that adding a language is adding a file.

use std::fmt::Write;
use std::path::Path;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runtimes");
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut pages: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    pages.sort();
    let mut list = String::from("[\n");
    for page in pages {
        println!("cargo:rerun-if-changed={}", page.display());
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let _ = writeln!(list, "    ({name:?}, include_str!({:?})),", page.display().to_string());
    }
    list.push(']');
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    if let Err(e) = std::fs::write(Path::new(&out).join("runtimes.rs"), list) {
        panic!("runtimes.rs: {e}");
    }
}
