//! What has to hold between settings.

use super::catalogue::Settings;
use super::kind::Wrong;
use super::load::Loading;
use engine::Network;
use engine::limits::{Ceiling, show_bytes};
use std::net::IpAddr;

/// Memory of a run where nobody says anything.
const MEMORY: u64 = 512 << 20;

/// Looks at settings together. One that is wrong by itself is not looked at again.
pub(super) fn together(settings: &Settings, loading: &mut Loading<'_>) {
    door(settings, loading);
    storage(settings, loading);
    limits(settings, loading);
    running(settings, loading);
}

/// Notes what is wrong with the first of these settings, unless one of them is wrong already.
fn refuse(loading: &mut Loading<'_>, paths: &[&str], message: String, hint: impl Into<String>) {
    let [first, ..] = paths else { return };
    if !paths.iter().any(|path| loading.broken.contains(*path)) {
        let origin = loading.values.origin(first);
        loading.refuse(first, origin, Wrong::new(message).hint(hint));
    }
}

fn door(settings: &Settings, loading: &mut Loading<'_>) {
    let server = &settings.server;
    if server.unix_socket.is_some() || is_loopback(&server.host) {
        return;
    }
    let host = &server.host;
    if !server.allow_remote {
        let message = format!("others can reach `{host}`");
        let hint = "set `server.allow_remote` (`--allow-remote`) and `server.token` (`--token-file`) if they shall, or listen on `127.0.0.1`";
        refuse(loading, &["server.host", "server.allow_remote"], message, hint);
    } else if server.token.is_none() {
        let message = format!("others can reach `{host}`, and the token is left to chance");
        let hint = "set `server.token`, for instance to `file:/etc/sandboxd/token` (`--token-file`)";
        refuse(loading, &["server.host", "server.token"], message, hint);
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn storage(settings: &Settings, loading: &mut Loading<'_>) {
    let storage = &settings.storage;
    let (id, key) = (storage.s3_access_key_id.is_some(), storage.s3_secret_access_key.is_some());
    let paths = ["storage.s3_access_key_id", "storage.s3_secret_access_key"];
    if id != key {
        let (given, missing) = if id { (paths[0], paths[1]) } else { (paths[1], paths[0]) };
        let message = format!("`{missing}` is missing beside it");
        refuse(loading, &[given, missing], message, "give both of them or none");
    }
    if storage.bucket().is_none() && (id || key || storage.s3_endpoint.is_some()) {
        let note = "`storage.objects` is a directory, so what is said about an object store is not used";
        loading.notes.push(note.into());
    }
}

fn limits(settings: &Settings, loading: &mut Loading<'_>) {
    let limits = &settings.limits;
    let (wanted, most) = (limits.wanted(), limits.ceiling().0);
    let pairs = [
        ("limits.timeout", "limits.max_timeout", wanted.timeout_ms, most.timeout_ms),
        ("limits.cpu_time", "limits.max_cpu_time", wanted.cpu_time_ms, most.cpu_time_ms),
        ("limits.memory", "limits.max_memory", wanted.memory_bytes, most.memory_bytes),
        ("limits.cpus", "limits.max_cpus", wanted.cpu_millis, most.cpu_millis),
        ("limits.pids", "limits.max_pids", wanted.pids, most.pids),
        ("limits.disk", "limits.max_disk", wanted.disk_bytes, most.disk_bytes),
        ("limits.inodes", "limits.max_inodes", wanted.disk_inodes, most.disk_inodes),
        ("limits.open_files", "limits.max_open_files", wanted.open_files, most.open_files),
        ("limits.output", "limits.max_output", wanted.output_bytes, most.output_bytes),
    ];
    for (path, max, value, most) in pairs {
        if value.is_some_and(|value| value > most) {
            let message = format!("is more than a run may ask for by `{max}`, or than this host has");
            refuse(loading, &[path, max], message, "lower the one or raise the other");
        }
    }
    let memory = wanted.memory_bytes.unwrap_or(MEMORY);
    if let Some(disk) = wanted.disk_bytes.filter(|disk| *disk > memory) {
        let message =
            format!("{} is more than the memory, which is {}", show_bytes(disk), show_bytes(memory));
        let hint = format!("files live in memory; set `limits.memory` to {} or so", show_bytes(2 * disk));
        refuse(loading, &["limits.disk", "limits.memory"], message, hint);
    }
    let Ceiling(host) = Ceiling::default();
    let scarce = [
        ("limits.max_memory", limits.max_memory, host.memory_bytes),
        ("limits.max_cpus", limits.max_cpus, host.cpu_millis),
        ("limits.max_disk", limits.max_disk, host.disk_bytes),
    ];
    for (path, value, host) in scarce {
        if value > host {
            loading.notes.push(format!("`{path}` is more than this host has, which is what counts"));
        }
    }
}

fn running(settings: &Settings, loading: &mut Loading<'_>) {
    let (pool, executions) = (&settings.pool, &settings.executions);
    if pool.min > pool.max {
        let message = format!("{} is more than `pool.max`, which is {}", pool.min, pool.max);
        refuse(loading, &["pool.min", "pool.max"], message, "lower the one or raise the other");
    }
    if executions.retry_base > executions.retry_max {
        let message = "is longer than `executions.retry_max`".into();
        refuse(loading, &["executions.retry_base", "executions.retry_max"], message, "shorten it");
    }
    if settings.isolation.network == Network::Host && !settings.isolation.allow_host_network {
        let message = "the network of this host reaches this host too".into();
        let hint = "set `isolation.allow_host_network` if programs shall use it, or choose `none`";
        refuse(loading, &["isolation.network", "isolation.allow_host_network"], message, hint);
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::{Sources, load};

    /// Where settings do not go together, the one that is named.
    fn named(flags: &[(&str, &str)]) -> Vec<String> {
        let problems =
            load(&Sources::nowhere().flags(flags)).map_or_else(|problems| problems.0, |_| Vec::new());
        problems.into_iter().filter_map(|problem| problem.key).collect()
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let cases: [(&[(&str, &str)], &str); 12] = [
            (&[("server.host", "0.0.0.0")], "server.host"),
            (&[("server.host", "example.org"), ("server.token", "t")], "server.host"),
            (&[("server.host", "::"), ("server.allow_remote", "true")], "server.host"),
            (&[("pool.min", "9")], "pool.min"),
            (&[("executions.retry_base", "11s")], "executions.retry_base"),
            (&[("isolation.network", "host")], "isolation.network"),
            (&[("storage.s3_access_key_id", "x")], "storage.s3_access_key_id"),
            (&[("storage.s3_secret_access_key", "x")], "storage.s3_secret_access_key"),
            (&[("limits.timeout", "61m")], "limits.timeout"),
            (&[("limits.pids", "10"), ("limits.max_pids", "9")], "limits.pids"),
            (&[("limits.disk", "65M"), ("limits.memory", "64M")], "limits.disk"),
            (&[("limits.output", "65M")], "limits.output"),
        ];
        for (flags, key) in cases {
            assert_eq!(named(flags), [key], "{flags:?}");
        }
    }

    #[test]
    fn a_host_is_no_host_and_port() {
        let told = load(&Sources::nowhere().flags(&[("server.host", "127.0.0.1:9000")])).unwrap_err();
        assert!(told.0[0].message.contains("server.port"), "{told}");
    }

    #[test]
    fn what_goes_together_is_not() {
        let cases: [&[(&str, &str)]; 6] = [
            &[("server.host", "::1")],
            &[("server.host", "[::1]")],
            &[("server.host", "0.0.0.0"), ("server.unix_socket", "/run/x.sock")],
            &[("server.host", "0.0.0.0"), ("server.allow_remote", "true"), ("server.token", "t")],
            &[("isolation.network", "host"), ("isolation.allow_host_network", "true")],
            &[("limits.timeout", "61m"), ("limits.max_timeout", "2h")],
        ];
        for flags in cases {
            assert_eq!(named(flags), [""; 0], "{flags:?}");
        }
    }

    #[test]
    fn a_setting_that_is_wrong_by_itself_is_told_once() {
        assert_eq!(named(&[("pool.min", "9"), ("pool.max", "many")]), ["pool.max"]);
    }
}
