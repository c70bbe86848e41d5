//! Parts of sandboxd die, are told to end, or find a host that lacks something.

mod killing;
mod lacking;
mod telling;

use super::Drive;
use crate::stage::Stage;
use crate::support::{Sandboxd, host, repository};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

pub(super) const DRIVES: &[(&str, Drive)] = &[
    ("a_cache_directory_that_gets_full", lacking::a_cache_directory_that_gets_full),
    ("a_command_is_told_to_end_while_nobody_reads", telling::while_nobody_reads),
    ("a_command_that_is_told_to_end_keeps_the_output", telling::the_output_is_kept),
    ("a_full_cache_directory", lacking::a_full_cache_directory),
    ("a_host_with_read_only_cgroups", lacking::read_only_cgroups),
    ("a_host_without_cgroups", lacking::no_cgroups),
    ("a_read_only_cache_directory", lacking::a_read_only_cache_directory),
    ("commands_are_told_to_end_at_random", telling::at_random),
    ("fifty_commands_and_janitors_are_killed", killing::commands_and_janitors),
    ("fifty_commands_are_killed", killing::commands),
    ("helpers_are_killed_at_random", killing::helpers_at_random),
    ("inside_another_container", lacking::inside_another_container),
    ("no_place_for_locks", lacking::no_place_for_locks),
    ("the_receipt_names_the_cgroup", lacking::the_receipt_names_the_cgroup),
];

/// The same person on a host that is arranged for each of their commands; `host/arranged.py` says how.
pub(super) fn arranged(stage: &Stage, wishes: &[&str]) -> Sandboxd {
    let source = repository().join("tests/attacks/drives/host/arranged.py");
    let helper = stage.folder().join("arranged.py");
    stage.person.write(&helper, std::fs::read(source).expect("arranged.py"));
    let line = format!("exec /usr/bin/python3 {} {} -- SANDBOXD \"$@\"", helper.display(), wishes.join(" "));
    by_script(stage, &line)
}

/// The same person, whose `sandboxd` is a line of shell in which SANDBOXD stands for the real one.
fn by_script(stage: &Stage, line: &str) -> Sandboxd {
    let line = line.replace("SANDBOXD", &stage.person.binary("sandboxd").display().to_string());
    let script = stage.person.write(&stage.folder().join("sandboxd"), format!("#!/bin/sh\n{line}\n"));
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).expect("the script");
    stage.person.clone().installed_in(stage.folder())
}

/// Those that live; the dead that nobody has waited for yet do not count.
fn living(pids: &[u32]) -> Vec<u32> {
    let lives = |pid: &u32| host::status(*pid, "State").is_some_and(|state| !state.starts_with(['Z', 'X']));
    pids.iter().copied().filter(lives).collect()
}

/// Waits until all of them are dead, for two seconds.
fn soon_dead(pids: &[u32]) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let left = living(pids);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("{} of {} processes live after 2 s: {left:?}", left.len(), pids.len()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A moment that differs from one to the next, and is the same each time.
fn moment(number: usize, most: u64) -> Duration {
    Duration::from_micros((number as u64 + 1).wrapping_mul(2_654_435_761) % (most * 1000))
}
