//! KS-21: `sandboxd` on hosts that lack something. `lacking.py` arranges them, for one command each.

use crate::seen::Seen;
use crate::stage::Stage;

/// What it may say instead of running a program: that there is no sandbox, that the program could not be started,
/// that the platform broke. Each time the exit code is 125.
const REFUSALS: [&str; 3] = ["unavailable", "start_failed", "infra_error"];

/// Calls that `sandboxd` is built on, with words of which one is in the complaint about them. A host may really lack
/// these: its kernel is too old, or a container's filter refuses them.
const CALLS: &[(&str, &[&str])] = &[
    ("clone3", &["clone3", "namespaces"]),
    ("close_range", &["close_range", "descriptors"]),
    ("landlock_add_rule", &["Landlock"]),
    ("landlock_restrict_self", &["Landlock"]),
    ("mount", &["file system"]),
    ("mount_setattr", &["file system"]),
    ("move_mount", &["file system"]),
    ("open_tree", &["file system"]),
    ("openat2", &["openat2", "file `main.py`"]),
    ("pivot_root", &["file system"]),
    ("seccomp", &["system call filter"]),
    ("umount2", &["file system"]),
    ("unshare", &["namespaces"]),
];
/// Calls that no host lacks. Whatever refuses one of them, no program may run.
const OTHER_CALLS: &[&str] = &[
    "capset",
    "prctl@1",
    "prctl@28",
    "prctl@38",
    "prctl@4",
    "prctl@47",
    "prlimit64",
    "sethostname",
    "setsid",
];
/// Further ones of root, who changes ids.
const CALLS_OF_ROOT: &[&str] = &["setgroups", "setresgid", "setresuid"];

/// Of those above, what `doctor` looks for by name.
const DOCTORS: [&str; 6] = ["clone3", "close_range", "mount_setattr", "open_tree", "openat2", "seccomp"];

pub(super) fn namespaces(stage: &Stage) -> Result<(), String> {
    runs(stage, &["namespaces=none"], "", &[])?;
    let mut wrong = Vec::new();
    for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let lack = format!("namespaces={kind}");
        wrong.extend(refuses(stage, &lack, "", &["namespaces"]).err());
        let name = if kind == "mnt" { "mount" } else { kind };
        wrong.extend(doctor_refuses(stage, &lack, &format!("{name} namespace")).err());
    }
    all(wrong)
}

pub(super) fn calls(stage: &Stage) -> Result<(), String> {
    // Nobody makes this call: with a filter that refuses it everything is as it was.
    runs(stage, &["call=lookup_dcookie:EPERM"], "", &[])?;
    let of_root = if stage.person.is_root() { CALLS_OF_ROOT } else { &[] };
    let mut wrong = Vec::new();
    for errno in ["ENOSYS", "EPERM"] {
        for (call, words) in CALLS {
            wrong.extend(refuses(stage, &format!("call={call}:{errno}"), "", words).err());
        }
        for call in OTHER_CALLS.iter().chain(of_root) {
            wrong.extend(refuses(stage, &format!("call={call}:{errno}"), "", &["error"]).err());
        }
    }
    for call in DOCTORS {
        wrong.extend(doctor_refuses(stage, &format!("call={call}:ENOSYS"), call).err());
    }
    all(wrong)
}

/// Root refuses, unless told otherwise. A plain user has none to begin with, which every record says.
pub(super) fn cgroups(stage: &Stage) -> Result<(), String> {
    const LACK: &str = "covered=/sys/fs/cgroup";
    runs(stage, &["mounts"], "", &[])?;
    if stage.person.is_root() {
        refuses(stage, LACK, "", &["cgroup"])?;
        refuses(stage, LACK, "--allow-weaker overlay", &["cgroup"])?;
        doctor_refuses(stage, LACK, "cgroup")?;
        return runs(stage, &[LACK], "--allow-weaker cgroup", &["cgroup"]);
    }
    runs(stage, &[LACK], "", &["cgroup", "shared-uid"])
}

pub(super) fn overlays(stage: &Stage) -> Result<(), String> {
    const LACK: &str = "stacked=/usr";
    refuses(stage, LACK, "", &["overlay"])?;
    refuses(stage, LACK, "--allow-weaker cgroup", &["overlay"])?;
    doctor_refuses(stage, LACK, "overlay")?;
    runs(stage, &[LACK], "--allow-weaker overlay", &["overlay"])
}

pub(super) fn proc(stage: &Stage) -> Result<(), String> {
    for covered in ["covered=/proc/sys", "covered=/proc/fs"] {
        refuses(stage, covered, "", &["proc"])?;
        refuses(stage, covered, "--allow-weaker overlay --allow-weaker cgroup", &["proc"])?;
        doctor_refuses(stage, covered, "new /proc")?;
    }
    Ok(())
}

/// A kernel without Landlock, or started without it, makes every sandbox weaker, and every record says so. Where the
/// kernel has it and somebody else forbids it, that is not what an old kernel is excused by.
pub(super) fn landlock(stage: &Stage) -> Result<(), String> {
    let mut wrong = Vec::new();
    for errno in ["ENOSYS", "EOPNOTSUPP"] {
        wrong.extend(
            runs(stage, &[&format!("call=landlock_create_ruleset:{errno}")], "", &["landlock"]).err(),
        );
    }
    wrong.extend(refuses(stage, "call=landlock_create_ruleset:EPERM", "", &["Landlock"]).err());
    all(wrong)
}

/// No record of success, no output, nothing done; a complaint with one of these words.
fn refuses(stage: &Stage, lack: &str, options: &str, words: &[&str]) -> Result<(), String> {
    let (seen, code, touched) = try_it(stage, &[lack], options);
    let text = String::from_utf8_lossy(&seen.stderr).into_owned();
    let message = seen.record.as_ref().and_then(|record| record["error"]["message"].as_str());
    let complaint = message.map_or(text, |message| format!("error: {message}"));
    let wrong = if !REFUSALS.contains(&seen.status.as_str()) || code != 125 {
        format!("status `{}`, exit code {code}", seen.status)
    } else if touched || !seen.stdout.is_empty() {
        "the program ran".into()
    } else if !words.iter().any(|word| complaint.contains(word)) {
        format!("none of {words:?} is in the complaint")
    } else {
        return Ok(());
    };
    Err(format!("without {lack} {options}: {wrong}: {}", complaint.trim()))
}

/// It runs, and the record names exactly what is weaker beside what is anyway.
fn runs(stage: &Stage, lacks: &[&str], options: &str, degraded: &[&str]) -> Result<(), String> {
    let (seen, code, touched) = try_it(stage, lacks, options);
    let isolation = seen.record.as_ref().map(|record| record["isolation"].clone()).unwrap_or_default();
    let entries = isolation["degraded"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<&str> =
        entries.iter().filter_map(|words| words.as_str()?.split_once(':')).map(|(name, _)| name).collect();
    let grade = isolation["grade"].as_u64();
    if !stage.person.is_root() {
        names.retain(|name| !["shared-uid", "cgroup"].contains(name) || degraded.contains(name));
    }
    names.sort_unstable();
    let right_grade = Some(u64::from(entries.is_empty()));
    if (seen.status.as_str(), code) != ("success", 0) || seen.stdout != b"ran\n" {
        let said = String::from_utf8_lossy(&seen.stderr).into_owned();
        return Err(format!("without {lacks:?} {options}: status `{}`: {said}", seen.status));
    }
    if touched || names != degraded || grade != right_grade {
        return Err(format!(
            "without {lacks:?} {options}: grade {grade:?}, degraded {names:?}, host touched {touched}"
        ));
    }
    Ok(())
}

fn doctor_refuses(stage: &Stage, lack: &str, name: &str) -> Result<(), String> {
    let out = stage.person.lacking(stage.folder(), &[lack]).command(["doctor"]).out();
    let last = out.text().lines().last().unwrap_or_default().to_owned();
    // What rests on it may be named as well.
    let missing = last.strip_prefix("native isolator: refuses to run, missing: ").unwrap_or_default();
    if out.code == 1 && missing.split(", ").any(|missing| missing == name) {
        return Ok(());
    }
    Err(format!("without {lack}: the doctor does not miss `{name}`: {last}"))
}

/// What was seen of a program that says it ran, the exit code, and whether it could touch the host.
fn try_it(stage: &Stage, lacks: &[&str], options: &str) -> (Seen, i32, bool) {
    let witness = stage.folder().join("witness");
    let code = format!(
        "print('ran')\ntry: open({:?}, 'w').close()\nexcept OSError: pass",
        witness.display().to_string()
    );
    let run =
        stage.person.lacking(stage.folder(), lacks).run("python", &code).flag("--json").options(options);
    let out = run.out();
    let touched = std::fs::remove_file(&witness).is_ok();
    (stage.notice(&out), out.code, touched)
}

fn all(wrong: Vec<String>) -> Result<(), String> {
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
