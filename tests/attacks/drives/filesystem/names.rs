//! Names that are traps: whatever is stored under one is read back under it, or it is refused.

use super::given::{file, told};
use super::saved::below;
use crate::stage::Stage;
use std::collections::BTreeMap;

/// Names of given files. Those that the kernel itself cannot take in an argument are not among them.
const NAMES: [&[u8]; 42] = [
    b"",
    b".",
    b"..",
    b"/",
    b"./",
    b"../",
    b"a/",
    b"a/.",
    b"a/..",
    b"./a",
    b"a/./b",
    b"a//b",
    b"...",
    b".. ",
    b"..\\escape",
    b"%2e%2e%2fescape",
    b"..%5cescape",
    b"%00",
    b"a\nb",
    b"\n",
    b"a\tb",
    b"\x1b[2J",
    b"\x7f",
    b" ",
    b"-",
    b"-rf",
    b"--json",
    b"~",
    b"$(id)",
    b"`id`",
    b"*",
    b"\xe2\x80\xaetxt.exe",
    b"caf\xc3\xa9",
    b"cafe\xcc\x81",
    b"\xef\xbc\x8e\xef\xbc\x8e\xef\xbc\x8f",
    b"\xef\xbb\xbfbom",
    b"\xf0\x9f\x98\x80",
    b"\xff\xfe",
    b"a\xc0\xafb",
    b"\xed\xa0\x80",
    b"sub/../../escape",
    b"sub/.hidden",
];

/// What a name may be stored as: itself without needless dots and slashes.
fn plain(name: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> =
        name.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
    parts.join(&b'/')
}

pub(super) fn given(stage: &Stage) -> Result<(), String> {
    let path = stage.folder().join("content");
    let long = [vec![b'n'; 255], vec![b'n'; 256], vec![b'n'; 300], b"d/".repeat(100), vec![b'n'; 5000]];
    let names = NAMES.iter().map(|name| name.to_vec()).chain(long);
    let mut wrong = Vec::new();
    let (mut stored, mut refused) = (0, 0);
    for name in names {
        std::fs::write(&path, &name).map_err(|e| e.to_string())?;
        let out = file(stage.command(), &name, &path).out();
        let shown = String::from_utf8_lossy(&name).chars().take(40).collect::<String>();
        if out.code == 2 && out.stdout.is_empty() {
            refused += 1;
            continue;
        }
        let seen = stage.notice(&out);
        stage.judge(&seen).map_err(|why| format!("{shown:?}: {why}"))?;
        let start = name[..name.len().min(64)].to_vec();
        let wanted = BTreeMap::from([(plain(&name), (start, name.len()))]);
        let given = told(&seen.stdout);
        stored += 1;
        if given != wanted {
            wrong.push(format!("{shown:?} became {given:?}"));
        }
    }
    // Both happen: neither is a program that refuses everything, nor one that takes everything.
    if stored < 20 || refused < 12 {
        wrong.push(format!("{stored} stored, {refused} refused"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// A program makes files, each with its own name as content. What is listed and saved has that content
/// under that name; what is no text is left out, and the record says that something is.
pub(super) fn saved(stage: &Stage) -> Result<(), String> {
    let seen = stage.execute();
    stage.judge(&seen)?;
    let record = seen.record.as_ref().ok_or("no record")?;
    let listed = record["artifacts"].as_array().ok_or("no list of files")?;
    let listed: Vec<&str> = listed.iter().filter_map(|file| file["path"].as_str()).collect();
    let saved = below(&stage.folder().join("out"))?;
    let mut wrong = Vec::new();
    for (name, content) in &saved {
        if content.as_deref() != Some(name.as_slice()) {
            wrong.push(format!("{:?} was saved with other content", String::from_utf8_lossy(name)));
        }
    }
    let mut names: Vec<&[u8]> = listed.iter().map(|name| name.as_bytes()).collect();
    names.sort_unstable();
    if !names.iter().copied().eq(saved.keys().map(Vec::as_slice)) {
        wrong.push(format!("{} files are listed and {} saved, or not the same", names.len(), saved.len()));
    }
    // All that are text, as the program made them: fifty, of which three are none.
    let made = String::from_utf8_lossy(&seen.stdout).lines().filter(|line| line.ends_with("\tok")).count();
    if saved.len() + 3 != made {
        wrong.push(format!("{made} were made, {} saved", saved.len()));
    }
    if record["artifacts_truncated"] != true {
        wrong.push("nobody says that some were left out".into());
    }
    let outside: Vec<_> = std::fs::read_dir(stage.folder())
        .map_err(|e| e.to_string())?
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name != "out")
        .collect();
    if !outside.is_empty() {
        wrong.push(format!("outside lie {outside:?}"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
