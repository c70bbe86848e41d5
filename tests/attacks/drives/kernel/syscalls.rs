//! KS-12: who answers every system call, compared with a committed table per profile.
//!
//! `UPDATE_GOLDEN=1` rewrites a table. Reasons stay where the answer does; elsewhere the policy's is taken, and a
//! line that has none there is refused until somebody writes one.

use crate::seen::cut;
use crate::stage::Stage;
use crate::support::{PLAIN, am_root, repository};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const NUMBERS: u32 = 1024;
/// Arguments every number is tried with.
const KINDS: [&str; 4] = ["zeros", "ones", "pointers", "descriptor"];
const UNKNOWN: &str = "no such system call when the policy was written";
const NO_REASON: &str = "NO REASON YET";

/// Stands before what is answered where no cgroup bounds the sandbox, if that is something else.
const NO_CGROUP: &str = " / without cgroup ";

/// Answer by number and arguments.
type Answers = BTreeMap<(u32, String), String>;
/// Answer and reason by number and call, in the order of numbers.
type Table = BTreeMap<(u32, String), (String, String)>;

pub(super) fn table(stage: &Stage) -> Result<(), String> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err("the tables are those of x86-64; this machine is another one".into());
    }
    let profile = stage.run.options.last().map_or("default", String::as_str);
    let path = repository().join(format!("tests/attacks/syscalls/{profile}.tsv"));
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let golden = read(&golden).map_err(|why| format!("{}: {why}", path.display()))?;

    let seen = stage.execute();
    stage.judge(&seen)?;
    let mut answers = parse(&seen.stdout)?;
    forgive_what_this_kernel_lacks(&mut answers, &golden)?;
    filters_nothing_without_a_filter()?;
    let bounded = seen.record.as_ref().is_some_and(|record| record["isolation"]["cgroup"] != "none");
    let table = summary(&answers, &golden, bounded)?;
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, written(profile, &table)).map_err(|e| format!("{}: {e}", path.display()))?;
    } else {
        differences(&golden, &table)?;
    }
    agrees_with_the_filter(profile, &answers, |number| !bounded && depends_on_cgroup(&table, number))?;
    match table.iter().find(|(_, (_, reason))| reason == NO_REASON) {
        Some(((number, call), _)) => Err(format!("{profile}.tsv: {number} {call} wants a reason")),
        None => Ok(()),
    }
}

fn parse(stdout: &[u8]) -> Result<Answers, String> {
    let mut answers = Answers::new();
    for line in String::from_utf8_lossy(stdout).lines() {
        match line.split('\t').collect::<Vec<_>>()[..] {
            ["answer", number, arguments, answer] => {
                let number = number.parse().map_err(|_| format!("no number: {line}"))?;
                answers.insert((number, arguments.into()), answer.into());
            }
            _ => return Err(format!("no answer: {}", cut(line))),
        }
    }
    Ok(answers)
}

/// One line per call: a word where all arguments are answered alike, else one for each.
fn summary(answers: &Answers, golden: &Table, bounded: bool) -> Result<Table, String> {
    let names = names()?;
    let reasons = reasons()?;
    let mut table = Table::new();
    let mut insert = |number: u32, call: String, answer: String| {
        let old = golden.get(&(number, call.clone()));
        let answer = with_other_half(old.map_or(answer.as_str(), |(old, _)| old), &answer, bounded);
        // What a call was allowed for is no reason to refuse it.
        let kept = old.filter(|(old, _)| *old == answer).map(|(_, reason)| reason.clone());
        let name = call.split(", ").next().unwrap_or_default();
        let known = || reasons.get(name).cloned().unwrap_or_else(|| NO_REASON.into());
        let reason = kept.unwrap_or_else(|| if name == "-" { UNKNOWN.into() } else { known() });
        table.insert((number, call), (answer, reason));
    };
    for number in 0..NUMBERS {
        let of = |kind: &str| answers.get(&(number, kind.to_owned())).map(String::as_str);
        let all: Option<Vec<&str>> = KINDS.iter().map(|kind| of(kind)).collect();
        let all = all.ok_or_else(|| format!("call {number} was not tried"))?;
        let alike = all.iter().all(|answer| *answer == all[0]);
        let pairs = || KINDS.iter().zip(&all).map(|(kind, answer)| format!("{kind}={answer}"));
        let answer = if alike { all[0].to_owned() } else { pairs().collect::<Vec<_>>().join(" ") };
        insert(number, names.get(&number).cloned().unwrap_or_else(|| "-".into()), answer);
    }
    for ((number, arguments), answer) in
        answers.iter().filter(|((_, kind), _)| !KINDS.contains(&kind.as_str()))
    {
        let name = names.get(number).ok_or_else(|| format!("call {number} has no name"))?;
        insert(*number, format!("{name}, {arguments}"), answer.clone());
    }
    Ok(table)
}

/// What was seen, beside what the table says of sandboxes that have, or have not, a cgroup like this one.
fn with_other_half(old: &str, seen: &str, bounded: bool) -> String {
    let (usual, unbounded) = old.split_once(NO_CGROUP).map_or((old, old), |(usual, other)| (usual, other));
    let (usual, unbounded) = match (bounded, old.contains(NO_CGROUP)) {
        (true, true) => (seen, unbounded),
        (true, false) => (seen, seen),
        (false, _) => (usual, seen),
    };
    if usual == unbounded { usual.to_owned() } else { format!("{usual}{NO_CGROUP}{unbounded}") }
}

fn depends_on_cgroup(table: &Table, number: u32) -> bool {
    table.iter().any(|((of, _), (answer, _))| *of == number && answer.contains(NO_CGROUP))
}

/// A call that the policy lets through may be missing in this kernel, or answer ENOSYS itself to some arguments. Then
/// the same kernel says so without any filter, and the table's word is kept.
fn forgive_what_this_kernel_lacks(answers: &mut Answers, golden: &Table) -> Result<(), String> {
    let wanted =
        |number: u32| golden.iter().find(|((of, _), _)| *of == number).map(|(_, (answer, _))| answer);
    let doubtful: BTreeSet<u32> = answers
        .iter()
        .filter(|((number, _), answer)| *answer == "ENOSYS" && wanted(*number).is_some_and(|a| a == "kernel"))
        .map(|((number, _), _)| *number)
        .collect();
    if doubtful.is_empty() {
        return Ok(());
    }
    let words: Vec<String> = doubtful.iter().map(u32::to_string).collect();
    for (key, answer) in parse(&without_sandbox(&words)?)? {
        if answer == "ENOSYS" && answers.get(&key).is_some_and(|inside| inside == "ENOSYS") {
            answers.insert(key, "kernel".into());
        }
    }
    Ok(())
}

/// What the program meets is what the filter of this profile computes by `policies/golden`.
fn agrees_with_the_filter(
    profile: &str,
    answers: &Answers,
    otherwise: impl Fn(u32) -> bool,
) -> Result<(), String> {
    let said = |verdict: &str| match verdict {
        "allow" => "kernel".to_owned(),
        "zero" => "done".to_owned(),
        "kill" => "killed".to_owned(),
        "enotsup" => "EOPNOTSUPP".to_owned(),
        errno => errno.to_uppercase(),
    };
    for line in policy(&format!("golden/{profile}.txt"))? {
        let mut words = line.split(' ');
        let (Some(numbers), Some(name), Some(verdict)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let (first, last) = numbers.split_once("..").unwrap_or((numbers, numbers));
        let by_arguments = verdict
            .split_once("(zeros=")
            .and_then(|(_, rest)| rest.trim_end_matches(')').split_once(",ones="));
        let (zeros, ones) = by_arguments.unwrap_or((verdict, verdict));
        let numbers = first.parse().unwrap_or(0)..=last.parse().unwrap_or(0);
        for number in numbers.filter(|number| !otherwise(*number)) {
            for (kind, computed) in [("zeros", zeros), ("ones", ones)] {
                let met = answers.get(&(number, kind.to_owned())).map_or("", String::as_str);
                if met != said(computed) {
                    return Err(format!(
                        "{number} {name}: the filter computes {computed} for {kind}, a program meets {met}"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// The control: where there is no filter, the same question must be answered by none. Nothing is really called.
fn filters_nothing_without_a_filter() -> Result<(), String> {
    let answers = parse(&without_sandbox(&["quiet".into()])?)?;
    // `kernel` is said to the two that the kernel keeps from every filter.
    let filtered: Vec<_> =
        answers.iter().filter(|(_, answer)| !["ENOSYS", "kernel"].contains(&answer.as_str())).collect();
    match (answers.len() as u32 > NUMBERS, filtered.first()) {
        (true, None) => Ok(()),
        (_, first) => {
            Err(format!("without a sandbox {} calls are refused, the first {first:?}", filtered.len()))
        }
    }
}

/// What the same program prints when a plain user runs it with no sandbox around it.
fn without_sandbox(words: &[String]) -> Result<Vec<u8>, String> {
    let failed = |e: std::io::Error| format!("the control: {e}");
    let folder = tempfile::tempdir().map_err(failed)?;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).map_err(failed)?;
    let (program, id) = (folder.path().join("program"), PLAIN.to_string());
    let source = repository().join("tests/attacks/programs/ks_12_syscalls.c");
    let built = Command::new("gcc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .status()
        .map_err(failed)?;
    let mut command = Command::new(if am_root() { Path::new("setpriv") } else { &program });
    if am_root() {
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(&program);
    }
    let out = command.args(words).output().map_err(failed)?;
    if built.success() && out.status.success() {
        Ok(out.stdout)
    } else {
        Err(format!("the control: {}", out.status))
    }
}

fn differences(golden: &Table, table: &Table) -> Result<(), String> {
    let keys: BTreeSet<_> = golden.keys().chain(table.keys()).collect();
    let answer = |table: &Table, key| {
        table.get(key).map_or("(no line)".to_owned(), |(answer, _): &(String, _)| answer.clone())
    };
    let changed: Vec<String> = keys
        .into_iter()
        .map(|key| (key, answer(golden, key), answer(table, key)))
        .filter(|(_, old, new)| old != new)
        .map(|((number, call), old, new)| format!("  {number} {call}\n    - {old}\n    + {new}"))
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    let count = changed.len();
    let shown = changed.into_iter().take(40).collect::<Vec<_>>().join("\n");
    Err(format!("{count} lines differ from the table (-), seen (+); UPDATE_GOLDEN=1 accepts them\n{shown}"))
}

/// `NUMBER<TAB>CALL<TAB>ANSWER<TAB>REASON`, where neighbours without a name share a line as `FIRST..LAST`.
fn read(text: &str) -> Result<Table, String> {
    let mut table = Table::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [numbers, call, answer, reason] = fields[..] else {
            return Err(format!("no line of four: {line}"));
        };
        let (first, last) = numbers.split_once("..").unwrap_or((numbers, numbers));
        let range = first.parse::<u32>().ok().zip(last.parse::<u32>().ok());
        let (first, last) = range.ok_or_else(|| format!("no number: {line}"))?;
        if reason.split_whitespace().count() < 2 {
            return Err(format!("no reason: {line}"));
        }
        for number in first..=last {
            table.insert((number, call.into()), (answer.into(), reason.into()));
        }
    }
    Ok(table)
}

fn written(profile: &str, table: &Table) -> String {
    let mut text = format!(
        "# Profile {profile}: number, call, who answers it, and why. README.md beside it says more.\n"
    );
    let mut lines = table.iter().peekable();
    while let Some(((first, call), rest)) = lines.next() {
        let mut last = *first;
        while let Some(((number, _), _)) =
            lines.next_if(|((_, other), line)| call == "-" && other == call && *line == rest)
        {
            last = *number;
        }
        let numbers = if last == *first { first.to_string() } else { format!("{first}..{last}") };
        let _ = writeln!(text, "{numbers}\t{call}\t{}\t{}", rest.0, rest.1);
    }
    text
}

/// Names of the policy by number.
fn names() -> Result<BTreeMap<u32, String>, String> {
    let pair = |line: &str| {
        let (number, name) = line.split_once(' ')?;
        Some((number.parse().ok()?, name.trim().to_owned()))
    };
    Ok(policy("syscalls-x86_64.txt")?.iter().filter_map(|line| pair(line)).collect())
}

/// Reasons of the policy by name.
fn reasons() -> Result<BTreeMap<String, String>, String> {
    let line = |line: &String| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        Some((name, words.skip(3).collect::<Vec<_>>().join(" ")))
    };
    Ok(policy("seccomp.policy")?.iter().filter_map(line).collect())
}

fn policy(name: &str) -> Result<Vec<String>, String> {
    let path = repository().join("policies").join(name);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect())
}
