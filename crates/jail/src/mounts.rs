//! The file system of a box.
//!
//! Built in a mount namespace of its own on a small tmpfs, then entered by `pivot_root`; nothing of the host
//! stays reachable but what was put there on purpose:
//!
//! * `/` a read-only overlay over the prepared skeleton, so that no inode is shared between boxes;
//! * directories of the host, each a read-only overlay of its own;
//! * scratch storage, one tmpfs bounded in bytes and inodes, bound to the places that are writable;
//! * five device nodes; a new `/proc` with dangerous parts covered; no `/sys`.
//!
//! In parts: sources may lie where only the spawner's uid can look, so [`Sources::open`] runs before the ids
//! change and [`Root::build`] after; and most of it can be built before it is known what will run, so what
//! depends on that is left to [`Root::settle`].

use crate::error::{At, JailError, Step};
use crate::mutant::{Mutant, lacks};
use crate::spec::{HostDir, HostDirMode, JailSpec, Layer, ScratchDir, Seats};
use crate::sys;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind,
    mount_bind_recursive, mount_change, mount_remount, move_mount, open_tree, unmount,
};
use std::ffi::CString;
use std::path::Path;

/// Where the box is put together. Exists on every host; what it held is covered, in our namespace only.
const BASE: &str = "/tmp";
const ROOT: &str = "/tmp/root";
const SCRATCH: &str = "/tmp/scratch";
const EMPTY: &str = "/tmp/empty";
const MASK_FILE: &str = "/tmp/file";
const MASK_DIR: &str = "/tmp/dir";
const MEMINFO: &str = "/tmp/meminfo";

const RDONLY: u64 = libc::MOUNT_ATTR_RDONLY;
const NOSUID: u64 = libc::MOUNT_ATTR_NOSUID;
const NODEV: u64 = libc::MOUNT_ATTR_NODEV;
const NOEXEC: u64 = libc::MOUNT_ATTR_NOEXEC;

/// Detached mounts of everything of the host that the box will see.
#[derive(Debug)]
pub struct Sources {
    skeleton: OwnedFd,
    devices: Vec<OwnedFd>,
    host_dirs: Vec<OwnedFd>,
}

impl Sources {
    /// Takes hold of them in this mount namespace, which must be the box's own.
    pub fn open(spec: &JailSpec, host_dirs: &[HostDir]) -> Result<Sources, JailError> {
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
            .at(Step::Mounts, "make private")?;
        Ok(Sources {
            skeleton: detach(&spec.skeleton, false)?,
            devices: spec
                .devices
                .iter()
                .map(|name| detach(&Path::new("/dev").join(name), false))
                .collect::<Result<_, _>>()?,
            host_dirs: open_dirs(spec, host_dirs)?,
        })
    }
}

fn open_dirs(spec: &JailSpec, dirs: &[HostDir]) -> Result<Vec<OwnedFd>, JailError> {
    let recursive = spec.allow_weaker.contains(&Layer::Overlay);
    dirs.iter().map(|dir| detach(&dir.source, recursive)).collect()
}

/// A root that is not entered yet.
#[derive(Debug)]
pub struct Root {
    /// How many directories of the host it has.
    host_dirs: usize,
    /// Whether all of it is overlays of the box's own.
    overlay: bool,
}

impl Root {
    /// Builds what does not depend on limits.
    pub fn build(spec: &JailSpec, sources: Sources, user: u32) -> Result<Root, JailError> {
        new_tmpfs(BASE, "size=4m,nr_inodes=1024,mode=755")?;
        for dir in [ROOT, SCRATCH, EMPTY, MASK_DIR, "/tmp/skeleton"] {
            make_dir(dir, 0o755)?;
        }
        std::fs::write(MASK_FILE, "").at(Step::Mounts, "mask")?;
        // Of the box's own: what covers something names where it comes from.
        for mask in [MASK_FILE, MASK_DIR] {
            attach(&detach(Path::new(mask), false)?, mask, RDONLY | NOSUID | NODEV | NOEXEC)?;
        }
        new_tmpfs(SCRATCH, &scratch_options(spec))?;

        attach(&sources.skeleton, "/tmp/skeleton", RDONLY | NOSUID | NODEV)?;
        let overlay = read_only(spec, "/tmp/skeleton", ROOT)?;
        let mut root = Root { host_dirs: 0, overlay };
        root.add(spec, &spec.host_dirs, &sources.host_dirs, user)?;
        for (index, dir) in spec.scratch.iter().enumerate() {
            scratch_dir(&index.to_string(), dir, user)?;
        }
        if lacks(Mutant::Devices) {
            mount_bind_recursive("/dev", inside("/dev")).at(Step::Mounts, "/dev")?;
        }
        let devices = spec.devices.iter().zip(&sources.devices).filter(|_| !lacks(Mutant::Devices));
        for (name, source) in devices {
            attach(source, &inside(Path::new("/dev").join(name)), RDONLY | NOSUID | NOEXEC)?;
        }
        proc(spec)?;
        Ok(root)
    }

    /// Settles what depends on limits, and adds directories of the host.
    pub fn settle(&mut self, spec: &JailSpec, added: &[HostDir], user: u32) -> Result<(), JailError> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        let options = options(&scratch_options(spec), SCRATCH)?;
        mount_remount(SCRATCH, flags, options.as_c_str()).at(Step::Mounts, "scratch")?;
        if !spec.proc_pids_only {
            std::fs::write(MEMINFO, meminfo(spec.limits.memory_bytes)).at(Step::Mounts, "meminfo")?;
            show_meminfo()?;
        }
        self.add(spec, added, &open_dirs(spec, added)?, user)
    }

    /// Makes it the root, leaving nothing of the old one. Returns whether it is overlays of the box's own.
    pub fn enter(self) -> Result<bool, JailError> {
        rustix::process::chdir(ROOT).at(Step::Mounts, "enter the root")?;
        if lacks(Mutant::OldRoot) {
            rustix::process::pivot_root(".", "root").at(Step::Mounts, "pivot_root")?;
        } else {
            rustix::process::pivot_root(".", ".").at(Step::Mounts, "pivot_root")?;
            unmount(".", UnmountFlags::DETACH).at(Step::Mounts, "detach the old root")?;
        }
        rustix::process::chdir("/").at(Step::Mounts, "/")?;
        Ok(self.overlay)
    }

    fn add(
        &mut self,
        spec: &JailSpec,
        dirs: &[HostDir],
        sources: &[OwnedFd],
        user: u32,
    ) -> Result<(), JailError> {
        for (dir, source) in dirs.iter().zip(sources) {
            self.overlay &= host_dir(spec, self.host_dirs, dir, source, user)?;
            self.host_dirs += 1;
        }
        Ok(())
    }
}

/// Gives a seat a `/proc` of its own processes, and the directories that each seat has for itself. For PID 1 of the seat,
/// in a mount namespace of its own, before the root is entered.
pub fn take_seat(spec: &JailSpec, seats: &Seats, seat: usize, user: u32) -> Result<(), JailError> {
    unmount(inside("/proc"), UnmountFlags::DETACH).at(Step::Mounts, "/proc of the box")?;
    proc(spec)?;
    if !spec.proc_pids_only {
        show_meminfo()?;
    }
    let own = spec.scratch.iter().enumerate().filter(|(_, dir)| seats.own.contains(&dir.target));
    own.map(|(index, dir)| (format!("{index}-{seat}"), dir))
        .try_for_each(|(name, dir)| scratch_dir(&name, dir, user))
}

fn scratch_options(spec: &JailSpec) -> String {
    let bytes = if lacks(Mutant::Disk) { 0 } else { spec.limits.disk_bytes };
    let inodes = if lacks(Mutant::Inodes) { 0 } else { spec.limits.disk_inodes };
    format!("size={bytes},nr_inodes={inodes},mode=755")
}

fn host_dir(
    spec: &JailSpec,
    index: usize,
    dir: &HostDir,
    source: &OwnedFd,
    user: u32,
) -> Result<bool, JailError> {
    let target = inside(&dir.target);
    if dir.mode == HostDirMode::Writable {
        attach(source, &target, NOSUID | NODEV)?;
        return Ok(true);
    }
    let lower = format!("{BASE}/lower{index}");
    make_dir(&lower, 0o755)?;
    attach(source, &lower, RDONLY | NOSUID | NODEV)?;
    if dir.mode == HostDirMode::ReadOnly && !lacks(Mutant::ReadOnly) {
        return read_only(spec, &lower, &target);
    }
    let changes = format!("{SCRATCH}/changes{index}");
    let (upper, work) = (format!("{changes}/upper"), format!("{changes}/work"));
    for path in [&changes, &upper, &work] {
        make_dir(path, 0o755)?;
    }
    rustix::fs::chown(upper.as_str(), Some(uid(user)), Some(gid(user))).at(Step::Mounts, "changes")?;
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work},userxattr");
    mount_fs("overlay", &target, MountFlags::NOSUID | MountFlags::NODEV, &options)?;
    Ok(true)
}

/// Shows `lower` at `target`, through an overlay where the kernel can or, where the operator accepts it, by
/// a bind.
fn read_only(spec: &JailSpec, lower: &str, target: &str) -> Result<bool, JailError> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    // Without an upper directory the kernel wants two lower ones.
    match mount_fs("overlay", target, flags, &format!("lowerdir={lower}:{EMPTY},userxattr")) {
        Ok(()) => Ok(true),
        Err(error) if !spec.allow_weaker.contains(&Layer::Overlay) => Err(error),
        Err(_) => {
            attach(&detach(Path::new(lower), true)?, target, RDONLY | NOSUID | NODEV)?;
            Ok(false)
        }
    }
}

fn scratch_dir(name: &str, dir: &ScratchDir, user: u32) -> Result<(), JailError> {
    let own = format!("{SCRATCH}/{name}");
    make_dir(&own, 0o755)?;
    rustix::fs::chmod(own.as_str(), Mode::from_raw_mode(dir.mode)).at(Step::Mounts, "scratch")?;
    rustix::fs::chown(own.as_str(), Some(uid(user)), Some(gid(user))).at(Step::Mounts, "scratch")?;
    let noexec = if dir.exec { 0 } else { NOEXEC };
    attach(&detach(Path::new(&own), false)?, &inside(&dir.target), NOSUID | NODEV | noexec)
}

fn proc(spec: &JailSpec) -> Result<(), JailError> {
    let proc = inside("/proc");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // 4 = only processes one could trace are seen, so PID 1 is not.
    let hidden = if lacks(Mutant::HidePid) { "hidepid=0" } else { "hidepid=4" };
    mount_fs("proc", &proc, flags, hidden)?;
    // The second lock after the system call filter: no user namespace can be made inside.
    if !lacks(Mutant::UserNamespace) {
        std::fs::write(format!("{proc}/sys/user/max_user_namespaces"), "0")
            .at(Step::Mounts, "max_user_namespaces")?;
    }
    if spec.proc_pids_only {
        unmount(proc.as_str(), UnmountFlags::empty()).at(Step::Mounts, "/proc")?;
        return mount_fs("proc", &proc, flags, "hidepid=4,subset=pid");
    }
    for name in spec.proc_read_only.iter().filter(|_| !lacks(Mutant::ProcReadOnly)) {
        let path = format!("{proc}/{name}");
        if Path::new(&path).exists() {
            attach(&detach(Path::new(&path), true)?, &path, RDONLY | NOSUID | NODEV | NOEXEC)?;
        }
    }
    for name in spec.proc_masks.iter().filter(|_| !lacks(Mutant::ProcMasks)) {
        cover(&format!("{proc}/{name}"))?;
    }
    Ok(())
}

/// Covers what is at `path`, if anything is: a directory, if that ends in a slash. A bind takes over the flags of the
/// mask's own mount. One of the wrong kind is refused, and costs as much as ten of the right one.
fn cover(path: &str) -> Result<(), JailError> {
    let (path, usual, other) = match path.strip_suffix('/') {
        Some(path) => (path, MASK_DIR, MASK_FILE),
        None => (path, MASK_FILE, MASK_DIR),
    };
    match mount_bind(usual, path) {
        Err(Errno::NOTDIR) => mount_bind(other, path).at(Step::Mounts, path),
        Err(Errno::NOENT) => Ok(()),
        done => done.at(Step::Mounts, path),
    }
}

fn show_meminfo() -> Result<(), JailError> {
    let flags = RDONLY | NOSUID | NODEV | NOEXEC;
    attach(&detach(Path::new(MEMINFO), false)?, &inside("/proc/meminfo"), flags)
}

/// What a machine with just this much memory would say, so that runtimes size themselves by the limit.
fn meminfo(bytes: u64) -> String {
    let kib = bytes / 1024;
    let zero =
        ["Buffers", "Cached", "SwapCached", "Active", "Inactive", "SwapTotal", "SwapFree", "Shmem", "Slab"];
    let mut text = format!("MemTotal: {kib:>15} kB\nMemFree: {kib:>16} kB\nMemAvailable: {kib:>11} kB\n");
    for name in zero {
        text += &format!("{name}:{:>width$} kB\n", 0, width = 24 - name.len());
    }
    text
}

/// A detached mount of what is at `path`.
fn detach(path: &Path, recursive: bool) -> Result<OwnedFd, JailError> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    open_tree(CWD, path, flags).at(Step::Mounts, path.display().to_string())
}

/// Puts a detached mount at `target`, with `flags`.
fn attach(mount: &OwnedFd, target: &str, flags: u64) -> Result<(), JailError> {
    sys::set_mount_flags(mount.as_fd(), flags).at(Step::Mounts, target)?;
    move_mount(mount, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).at(Step::Mounts, target)
}

fn new_tmpfs(target: &str, options: &str) -> Result<(), JailError> {
    mount_fs("tmpfs", target, MountFlags::NOSUID | MountFlags::NODEV, options)
}

fn mount_fs(kind: &str, target: &str, flags: MountFlags, options: &str) -> Result<(), JailError> {
    let options = self::options(options, target)?;
    mount(kind, target, kind, flags, Some(options.as_c_str())).at(Step::Mounts, format!("{kind} at {target}"))
}

fn options(text: &str, target: &str) -> Result<CString, JailError> {
    CString::new(text).map_err(|_| JailError::new(Step::Mounts, target, Errno::INVAL))
}

fn make_dir(path: &str, mode: u32) -> Result<(), JailError> {
    rustix::fs::mkdir(path, Mode::from_raw_mode(mode)).at(Step::Mounts, path)
}

/// Where a path of the box is while it is being built.
fn inside(path: impl AsRef<Path>) -> String {
    format!("{ROOT}{}", path.as_ref().display())
}

fn uid(raw: u32) -> rustix::fs::Uid {
    rustix::fs::Uid::from_raw(raw)
}

fn gid(raw: u32) -> rustix::fs::Gid {
    rustix::fs::Gid::from_raw(raw)
}
