//! What no run may change: our programs, files of the host and settings of its kernel.

use std::path::{Path, PathBuf};

const FILES: [&str; 10] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/shadow",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/usr/bin/env",
    "/usr/bin/python3",
    "/bin/sh",
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
];

const SETTINGS: [&str; 20] = [
    "fs/protected_hardlinks",
    "fs/protected_symlinks",
    "fs/suid_dumpable",
    "kernel/core_pattern",
    "kernel/core_uses_pid",
    "kernel/dmesg_restrict",
    "kernel/domainname",
    "kernel/hostname",
    "kernel/kptr_restrict",
    "kernel/modprobe",
    "kernel/panic",
    "kernel/perf_event_paranoid",
    "kernel/pid_max",
    "kernel/printk",
    "kernel/randomize_va_space",
    "kernel/sysrq",
    "kernel/threads-max",
    "kernel/unprivileged_bpf_disabled",
    "user/max_user_namespaces",
    "vm/overcommit_memory",
];

/// The whole content of each, kept to compare with: cheaper than a hash, and nothing slips through.
pub(crate) struct Guarded {
    contents: Vec<(PathBuf, Option<Vec<u8>>)>,
}

impl Guarded {
    /// These files, beside those of the host.
    pub(crate) fn now(ours: &[PathBuf]) -> Guarded {
        let settings = SETTINGS.iter().map(|name| Path::new("/proc/sys").join(name));
        let files = FILES.iter().map(PathBuf::from);
        let paths = ours.iter().cloned().chain(files).chain(settings);
        let contents = paths.map(|path| {
            let content = std::fs::read(&path).ok();
            (path, content)
        });
        Guarded { contents: contents.collect() }
    }

    pub(crate) fn changed(&self) -> Vec<String> {
        let changed = |(path, then): &&(PathBuf, Option<Vec<u8>>)| std::fs::read(path).ok() != *then;
        let shown = |(path, _): &(PathBuf, Option<Vec<u8>>)| format!("`{}` was changed", path.display());
        self.contents.iter().filter(changed).map(shown).collect()
    }

    /// Puts back what a control, or a program under another isolator, has changed.
    pub(crate) fn restore(&self) {
        for (path, content) in &self.contents {
            if let Some(then) = content.as_ref().filter(|_| std::fs::read(path).ok() != *content) {
                let _ = std::fs::write(path, then);
            }
        }
    }
}
