//! Memory, CPU and time: what only the host can measure.

use super::Drive;
use crate::stage::Stage;
use crate::support::{Running, host};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) const DRIVES: &[(&str, Drive)] = &[
    ("no_swap_in_its_cgroup", no_swap_in_its_cgroup),
    ("socket_memory_stays_small", socket_memory_stays_small),
];

/// The limit of the case, and what is allowed beyond it.
const SOCKET_MEMORY: u64 = (64 + 64) << 20;

/// What the kernel holds in sockets of the internet grows by no more than the memory limit and a little.
fn socket_memory_stays_small(stage: &Stage) -> Result<(), String> {
    let before = socket_memory()?;
    let (seen, most) = while_measuring(|| socket_memory().unwrap_or(0), || stage.execute());
    stage.judge(&seen)?;
    let grown = most.saturating_sub(before);
    if grown > SOCKET_MEMORY {
        return Err(format!("sockets held {} MB, not {} MB at most", grown >> 20, SOCKET_MEMORY >> 20));
    }
    Ok(())
}

/// Bytes in buffers of TCP and UDP, of all network namespaces together.
fn socket_memory() -> Result<u64, String> {
    let text = std::fs::read_to_string("/proc/net/sockstat").map_err(|e| format!("sockstat: {e}"))?;
    let pages = text.lines().filter(|line| line.starts_with("TCP:") || line.starts_with("UDP:"));
    let pages = pages.filter_map(|line| line.split_once(" mem ")?.1.split(' ').next()?.parse::<u64>().ok());
    Ok(pages.sum::<u64>() * page_size())
}

fn page_size() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
    let line = text.lines().find_map(|line| line.strip_prefix("KernelPageSize:")?.trim().strip_suffix(" kB"));
    line.and_then(|kilobytes| kilobytes.parse::<u64>().ok()).expect("a page size") << 10
}

/// Does something, and returns the highest of what was measured meanwhile.
fn while_measuring<T>(measure: impl Fn() -> u64 + Sync, work: impl FnOnce() -> T) -> (T, u64) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(measure());
                std::thread::sleep(Duration::from_millis(2));
            }
            most
        });
        let outcome = work();
        over.store(true, Ordering::Relaxed);
        (outcome, measuring.join().unwrap_or(u64::MAX))
    })
}

/// The cgroup of a living sandbox leaves no room for swap, whether the host has any or not.
fn no_swap_in_its_cgroup(stage: &Stage) -> Result<(), String> {
    let code = "import time\nprint('ready', flush=True)\ntime.sleep(60)";
    let running = stage.person.run("python", code).options("--memory 64M --quiet").start();
    running.until_it_says("ready");
    let group = memory_cgroup(&running)?;
    let read = |name: &str| std::fs::read_to_string(group.join(name)).map(|text| text.trim().to_owned());
    let limit = (64 << 20).to_string();
    let wrong = match (read("memory.limit_in_bytes"), read("memory.max")) {
        (Ok(memory), _) => match read("memory.memsw.limit_in_bytes") {
            Ok(both) if memory == limit && both == limit => return swapped_nothing(&read("memory.stat")),
            Ok(both) => format!("memory {memory}, memory and swap {both}"),
            // Without that file the kernel does not count swap, which is fine while there is none.
            Err(_) if host_has_no_swap() => return Ok(()),
            Err(e) => format!("the host has swap, and nothing limits it: {e}"),
        },
        (_, Ok(memory)) => match read("memory.swap.max") {
            Ok(swap) if memory == limit && swap == "0" => return swapped_nothing(&read("memory.stat")),
            other => format!("memory {memory}, swap {other:?}"),
        },
        (Err(v1), Err(v2)) => format!("no memory limit: {v1}, {v2}"),
    };
    Err(format!("{}: {wrong}", group.display()))
}

fn swapped_nothing(stat: &std::io::Result<String>) -> Result<(), String> {
    let text = stat.as_ref().map_err(|e| format!("memory.stat: {e}"))?;
    let swapped = |line: &&str| line.contains("swap") && !line.ends_with(" 0");
    match text.lines().find(swapped) {
        Some(line) => Err(format!("it swapped: {line}")),
        None => Ok(()),
    }
}

fn host_has_no_swap() -> bool {
    std::fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() <= 1)
}

/// Where the cgroup is that limits the memory of a sandbox.
fn memory_cgroup(running: &Running) -> Result<PathBuf, String> {
    let inside = host::descendants(running.pid()).into_iter().find(|pid| host::inner_pid(*pid) == Some(1));
    let pid = inside.ok_or("there is no PID 1")?;
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).map_err(|e| e.to_string())?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").map_err(|e| e.to_string())?;
    let of = |wanted: fn(&str) -> bool| {
        let path = groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            wanted(controllers).then_some(path)
        })?;
        let mount = mounts.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut right = right.split(' ');
            let (kind, options) = (right.next()?, right.nth(1)?);
            let controllers = if kind == "cgroup2" { "" } else { options };
            (kind.starts_with("cgroup") && wanted(controllers)).then(|| left.split(' ').nth(4))?
        })?;
        Some(PathBuf::from(mount).join(path.trim_start_matches('/')))
    };
    let v1 = of(|controllers| controllers.split(',').any(|name| name == "memory"));
    v1.or_else(|| of(str::is_empty)).ok_or_else(|| format!("no memory cgroup in {groups}"))
}
