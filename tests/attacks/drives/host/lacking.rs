//! RL-04 and RL-08: directories that are full or read-only, hosts without cgroups, containers.

use super::{arranged, by_script};
use crate::seen::Seen;
use crate::stage::Stage;
use crate::support::{Run, Sandboxd, host};

const HELLO: &str = "print('ran')";

/// Where this person's caches are.
fn cache(stage: &Stage) -> String {
    stage.person.home().join(".cache").display().to_string()
}

/// Nothing was run and the command says why, in words of its own.
fn refuses(stage: &Stage, run: Run, words: &str) -> Result<(), String> {
    let seen = stage.notice(&run.out());
    let said = String::from_utf8_lossy(&seen.stderr).into_owned();
    if seen.status == "unavailable" && said.contains(words) && !said.contains("panicked") {
        return Ok(());
    }
    Err(format!("status `{}`, not a refusal with `{words}`: {said}", seen.status))
}

fn runs(stage: &Stage, run: Run) -> Result<Seen, String> {
    let seen = stage.notice(&run.out());
    if seen.status == "success" && seen.stdout == b"ran\n" {
        return Ok(seen);
    }
    let said = String::from_utf8_lossy(&seen.stderr).into_owned();
    Err(format!("status `{}`, not a success: {said}", seen.status))
}

fn python(person: &Sandboxd) -> Run {
    person.run("python", HELLO).flag("--json")
}

/// With no room for the prepared root there is no sandbox. With room again there is, in the same directory.
pub(super) fn a_full_cache_directory(stage: &Stage) -> Result<(), String> {
    let cache = cache(stage);
    for bytes in ["4096", "65536"] {
        let full = arranged(stage, &[&format!("full={cache}:{bytes}")]);
        refuses(stage, python(&full), "prepared root")?;
    }
    runs(stage, python(&arranged(stage, &[&format!("full={cache}:33554432")])))?;
    // The same directory, first too full and then not: what was half made is not taken for whole.
    let growing = [format!("full={cache}:65536"), format!("growing={cache}:33554432")];
    runs(stage, python(&arranged(stage, &growing.each_ref().map(String::as_str))))?;
    runs(stage, python(&stage.person)).map(drop)
}

/// What is in a cache that cannot be written is used. What would have to be written into it is done without, or refused by
/// the name of the directory.
pub(super) fn a_read_only_cache_directory(stage: &Stage) -> Result<(), String> {
    let cache = cache(stage);
    runs(stage, python(&stage.person))?;
    let read_only = arranged(stage, &[&format!("readonly={cache}")]);
    runs(stage, python(&read_only))?;
    let c = "#include <stdio.h>\nint main(void) { puts(\"ran\"); }";
    let compiled = || read_only.run("c", c).flag("--json");
    runs(stage, compiled())
        .or_else(|_| refuses(stage, compiled(), "cache directory").map(|()| Seen::default()))?;
    // Where there is nothing yet and nothing can be made, the temporary directory serves, if there is one.
    let empty = arranged(stage, &[&format!("full={cache}:4096"), &format!("readonly={cache}")]);
    runs(stage, python(&empty.clone().with("TMPDIR", stage.folder().display())))?;
    refuses(stage, python(&empty.with("TMPDIR", "/proc")), "cache directory")?;
    runs(stage, python(&stage.person)).map(drop)
}

/// A compiled program that finds no room in the cache runs all the same, and the next one too.
pub(super) fn a_cache_directory_that_gets_full(stage: &Stage) -> Result<(), String> {
    // Enough for the prepared root, not for a program of eight megabytes.
    let c = "#include <stdio.h>\nchar much[8 << 20] = {1};\nint main(void) { puts(\"ran\"); }";
    let small = arranged(stage, &[&format!("full={}:6291456", cache(stage))]);
    for _ in 0..2 {
        runs(stage, small.run("c", c).flag("--json"))?;
    }
    Ok(())
}

/// Ids that nobody can lock could be given twice.
pub(super) fn no_place_for_locks(stage: &Stage) -> Result<(), String> {
    let person = arranged(stage, &["readonly=/run"]);
    let seen = stage.notice(&python(&person).out());
    let said = String::from_utf8_lossy(&seen.stderr).into_owned();
    // Locks can be taken on a file that is there and can be opened; where it cannot, there is no sandbox.
    if seen.status == "unavailable" && said.contains("reserve ids") {
        Ok(())
    } else {
        Err(format!("{}: {said}", seen.status))
    }
}

pub(super) fn the_receipt_names_the_cgroup(stage: &Stage) -> Result<(), String> {
    let running =
        stage.person.run("python", "import time\nprint('ready', flush=True)\ntime.sleep(60)").start();
    running.until_it_says("ready");
    let init = host::descendants(running.pid()).into_iter().find(|pid| host::inner_pid(*pid) == Some(1));
    let groups = init.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok());
    let groups = groups.ok_or("there is no PID 1")?;
    drop(running);
    let own = |line: &&str| line.contains("/sandboxd-");
    let found = match groups.lines().find(own) {
        Some(line) if line.starts_with("0::") => "v2",
        Some(_) => "v1",
        None => "none",
    };
    let seen = runs(stage, python(&stage.person))?;
    let isolation = seen.record.map(|record| record["isolation"].clone()).unwrap_or_default();
    let degraded = isolation["degraded"].to_string();
    if isolation["cgroup"] != found || degraded.contains("cgroup") != (found == "none") {
        return Err(format!("it is in {found}, and the receipt says {isolation}"));
    }
    Ok(())
}

/// Root refuses unless the weaker limits are accepted by name. A plain user has no cgroup anyway.
pub(super) fn no_cgroups(stage: &Stage) -> Result<(), String> {
    weaker_cgroups(stage, &["covered=/sys/fs/cgroup"])
}

pub(super) fn read_only_cgroups(stage: &Stage) -> Result<(), String> {
    weaker_cgroups(stage, &["readonly=/sys/fs/cgroup"])
}

fn weaker_cgroups(stage: &Stage, wishes: &[&str]) -> Result<(), String> {
    let person = arranged(stage, wishes);
    let mut run = python(&person);
    if stage.person.is_root() {
        refuses(stage, python(&person), "cgroup")?;
        run = run.options("--allow-weaker cgroup");
    }
    let seen = runs(stage, run)?;
    let isolation = seen.record.map(|record| record["isolation"].clone()).unwrap_or_default();
    if isolation["cgroup"] != "none" || !isolation["degraded"].to_string().contains("cgroup") {
        return Err(format!("the receipt says {isolation}"));
    }
    Ok(())
}

/// In a pid and mount namespace of others it works, or says what is in the way. Nothing in between.
pub(super) fn inside_another_container(stage: &Stage) -> Result<(), String> {
    const CONTAINERS: [&str; 3] = [
        "bwrap --unshare-pid --unshare-ipc --unshare-uts --bind / / --proc /proc --dev /dev --die-with-parent --",
        "bwrap --unshare-all --ro-bind / / --proc /proc --dev /dev --tmpfs /tmp --die-with-parent --",
        "unshare --user --map-current-user --mount --pid --fork --kill-child --mount-proc --",
    ];
    let mut wrong = Vec::new();
    for container in CONTAINERS {
        let person = by_script(stage, &format!("exec {container} SANDBOXD \"$@\""));
        let seen = stage.notice(&python(&person).out());
        let said = String::from_utf8_lossy(&seen.stderr).into_owned();
        let worked = seen.status == "success" && seen.stdout == b"ran\n";
        let refused = seen.status == "unavailable" && said.starts_with("error: ") && said.contains("hint: ");
        if !worked && !refused {
            wrong.push(format!("in {container}: status `{}`: {said}", seen.status));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
