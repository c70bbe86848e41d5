//! Settings from the environment, all of them in one place.

use anyhow::{Result, anyhow};
use engine::Engine;
use engine::limits::{Ceiling, bytes, cores, duration};
use std::path::PathBuf;

/// Every variable that is looked at, with what it means. The manual page lists them.
pub(crate) const VARIABLES: [(&str, &str); 14] = [
    ("SANDBOXD_EXECUTOR", "program that runs inside sandboxes, instead of the one beside `sandboxd`"),
    (
        "SANDBOXD_CACHE_DIR",
        "where prepared roots and compiled programs are kept, instead of ~/.cache/sandboxd",
    ),
    ("SANDBOXD_CONFIG", "file with the settings of the server; `sandboxd config` says which there are"),
    ("SANDBOXD_SERVER", "server that `session`, `template`, `key` and `top` talk to, as `--server`"),
    ("SANDBOXD_TOKEN", "token they show it, as `--token`, where nobody sees it in the list of processes"),
    ("SANDBOXD_MAX_TIMEOUT", "longest wall time a run may ask for, instead of 1h"),
    ("SANDBOXD_MAX_MEMORY", "most memory a run may ask for, instead of the host's"),
    ("SANDBOXD_MAX_CPUS", "most cores a run may ask for, instead of the host's"),
    ("SANDBOXD_MAX_PIDS", "most processes a run may ask for, instead of 16384"),
    ("SANDBOXD_MAX_DISK", "most storage a run may ask for, instead of the host's memory"),
    ("SANDBOXD_MAX_CPU_TIME", "most CPU time a run may ask for, instead of 1h for each core"),
    ("SANDBOXD_MAX_INODES", "most files a run may ask for, instead of 1000000"),
    ("SANDBOXD_MAX_OPEN_FILES", "most open files a run may ask for, instead of 65536"),
    ("SANDBOXD_MAX_OUTPUT", "most output a run may ask to be kept, instead of 64M"),
];

/// The engine as the environment wants it.
pub(crate) fn engine() -> Result<Engine> {
    Ok(Engine::new(executor()?, ceiling()?))
}

pub(crate) fn executor() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("SANDBOXD_EXECUTOR").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let own = std::env::current_exe()?;
    let folder = own.parent().unwrap_or(&own);
    let places = [folder.join("sandbox-executor"), folder.join("../lib/sandboxd/sandbox-executor")];
    places.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        anyhow!(engine::EngineError::Unavailable {
            what: format!("`sandbox-executor` is not beside `{}`", own.display()),
            hint: Some("`make build` leaves both in target/release".into()),
        })
    })
}

fn ceiling() -> Result<Ceiling> {
    let mut ceiling = Ceiling::default();
    let most = &mut ceiling.0;
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number"));
    lower(&mut most.timeout_ms, "SANDBOXD_MAX_TIMEOUT", duration)?;
    lower(&mut most.memory_bytes, "SANDBOXD_MAX_MEMORY", bytes)?;
    lower(&mut most.cpu_millis, "SANDBOXD_MAX_CPUS", cores)?;
    lower(&mut most.pids, "SANDBOXD_MAX_PIDS", number)?;
    lower(&mut most.disk_bytes, "SANDBOXD_MAX_DISK", bytes)?;
    lower(&mut most.cpu_time_ms, "SANDBOXD_MAX_CPU_TIME", duration)?;
    lower(&mut most.disk_inodes, "SANDBOXD_MAX_INODES", number)?;
    lower(&mut most.open_files, "SANDBOXD_MAX_OPEN_FILES", number)?;
    lower(&mut most.output_bytes, "SANDBOXD_MAX_OUTPUT", bytes)?;
    Ok(ceiling)
}

/// An operator's ceiling that cannot be read is an error, never "no ceiling".
fn lower(field: &mut u64, name: &str, read: impl Fn(&str) -> Result<u64, String>) -> Result<()> {
    let Some(text) = std::env::var_os(name) else { return Ok(()) };
    let text = text.to_string_lossy();
    let value = read(&text)
        .map_err(|e| engine::EngineError::invalid(name, e).with_hint("correct the variable, or unset it"))?;
    *field = value.min(*field);
    Ok(())
}
