//! What the host shows of sandboxes, seen through `/proc`.

use std::path::Path;

/// Every process below `pid`, parents first.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        found.extend(children(*pid));
        at += 1;
    }
    found.split_off(1)
}

/// The processes whose parent is `pid`.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let text: String =
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok()).collect();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Every process of the host.
pub(crate) fn processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A line of `/proc/PID/status`, without its name.
pub(crate) fn status(pid: u32, field: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// Real, effective, saved and file system uid, as the host sees them.
pub(crate) fn uids(pid: u32) -> Vec<u32> {
    let line = status(pid, "Uid").unwrap_or_default();
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Its number in the innermost pid namespace.
pub(crate) fn inner_pid(pid: u32) -> Option<u32> {
    status(pid, "NSpid")?.split_whitespace().last()?.parse().ok()
}

pub(crate) fn program(pid: u32) -> Option<String> {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(path.file_name()?.to_string_lossy().trim_end_matches(" (deleted)").to_owned())
}

/// Directories named like this below a directory, at any depth.
pub(crate) fn directories_named(start: &str, below: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut next = vec![below.to_owned()];
    while let Some(dir) = next.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(start) {
                    found.push(entry.path().display().to_string());
                }
                next.push(entry.path());
            }
        }
    }
    found
}

/// Hundredths of a second a process has computed for.
pub(crate) fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
    fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}
