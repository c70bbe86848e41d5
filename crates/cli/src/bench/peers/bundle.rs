//! The bundle of runc and crun: an empty root into which the host's programs are bound.

use super::{ENVIRONMENT, SHOWN};
use anyhow::Result;
use rustix::process::{getegid, geteuid};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::path::Path;

/// Directories and links of the root; all else is mounted.
pub(super) fn lay_out(folder: &Path) -> Result<()> {
    let root = folder.join("rootfs");
    for name in ["usr", "etc", "proc", "dev", "tmp"] {
        std::fs::create_dir_all(root.join(name))?;
    }
    for name in ["bin", "lib", "lib64"] {
        symlink(Path::new("usr").join(name), root.join(name))?;
    }
    Ok(())
}

/// Writes what the container is and runs.
pub(super) fn describe(folder: &Path, words: &[String], shown: Option<&Path>) -> Result<()> {
    Ok(std::fs::write(folder.join("config.json"), config(words, shown).to_string())?)
}

fn config(words: &[String], shown: Option<&Path>) -> Value {
    let env: Vec<String> = ENVIRONMENT.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut mounts = vec![
        json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
        json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"] }),
        json!({ "destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"] }),
        bind(Path::new("/usr"), "/usr"),
        bind(Path::new("/etc"), "/etc"),
    ];
    mounts.extend(shown.map(|path| bind(path, SHOWN)));
    let kinds = ["pid", "network", "ipc", "uts", "mount"];
    let mut namespaces: Vec<Value> = kinds.iter().map(|kind| json!({ "type": kind })).collect();
    let mut linux = json!({});
    if !geteuid().is_root() {
        namespaces.push(json!({ "type": "user" }));
        let map = |id: u32| json!([{ "containerID": 0, "hostID": id, "size": 1 }]);
        linux["uidMappings"] = map(geteuid().as_raw());
        linux["gidMappings"] = map(getegid().as_raw());
    }
    linux["namespaces"] = namespaces.into();
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": { "uid": 0, "gid": 0 },
            "args": words,
            "env": env,
            "cwd": "/",
            "noNewPrivileges": true,
        },
        "root": { "path": "rootfs", "readonly": true },
        "hostname": "sandbox",
        "mounts": mounts,
        "linux": linux,
    })
}

fn bind(source: &Path, destination: &str) -> Value {
    let options = ["rbind", "ro", "nosuid", "nodev"];
    json!({ "destination": destination, "type": "bind", "source": source, "options": options })
}
