//! What a box shall be, as plain data. The engine decides, the spawner obeys.

use crate::seccomp::Profile;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Everything needed to make one box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JailSpec {
    /// Name of the box on this host; also names its cgroup.
    pub id: String,
    /// Host name seen inside.
    pub hostname: String,
    /// Prepared skeleton of `/`.
    pub skeleton: PathBuf,
    /// Directories of the host seen inside.
    pub host_dirs: Vec<HostDir>,
    /// Directories of the box's own writable storage.
    pub scratch: Vec<ScratchDir>,
    /// Device nodes seen inside, by name below `/dev`.
    pub devices: Vec<String>,
    /// Names below `/proc` that are covered by something empty.
    pub proc_masks: Vec<String>,
    /// Names below `/proc` that are made read-only.
    pub proc_read_only: Vec<String>,
    /// Whether `/proc` shows processes only.
    pub proc_pids_only: bool,
    /// What the box may reach.
    pub network: Network,
    /// System call profile of user code.
    pub profile: Profile,
    /// Bounds of the box as a whole.
    pub limits: BoxLimits,
    /// Layers whose absence the operator accepts; everything else missing is a refusal.
    pub allow_weaker: Vec<Layer>,
    /// Its seats, where several jobs shall run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seats: Option<Seats>,
}

/// Seats of a box: at each one job runs at a time, in namespaces that keep its processes apart from everybody else's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seats {
    /// How many.
    pub count: u32,
    /// Directories of scratch storage that each seat has for itself.
    pub own: Vec<PathBuf>,
}

/// Most seats a box can have.
pub const MOST_SEATS: usize = 16;

/// Bounds of a box as a whole. Zero is not "no limit": every bound is real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BoxLimits {
    /// Memory of all processes together, files in scratch storage included.
    pub memory_bytes: u64,
    /// CPU rate in thousandths of a core.
    pub cpu_millis: u32,
    /// Processes and threads of user code.
    pub pids: u32,
    /// Scratch storage.
    pub disk_bytes: u64,
    /// Files and directories in scratch storage.
    pub disk_inodes: u64,
    /// Open descriptors of one process.
    pub open_files: u64,
}

/// A directory of the host seen inside.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HostDir {
    /// Where it is on the host.
    pub source: PathBuf,
    /// Where it is seen inside; must exist in the skeleton.
    pub target: PathBuf,
    /// How it is seen.
    pub mode: HostDirMode,
}

/// How a directory of the host is seen inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostDirMode {
    /// A read-only overlay of the box's own, so that no inode is shared between boxes.
    ReadOnly,
    /// An overlay whose changes go to scratch storage and vanish with the box.
    CopyOnWrite,
    /// The directory itself, writable. Only for programs of our own, never for user code.
    Writable,
}

/// A directory in the box's own writable storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScratchDir {
    /// Where it is seen inside; must exist in the skeleton.
    pub target: PathBuf,
    /// Its permission bits.
    pub mode: u32,
    /// Whether programs may be run from it.
    pub exec: bool,
}

/// What a box may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// A network namespace of its own with loopback only.
    #[default]
    None,
    /// The host's network. Names the danger by itself.
    Host,
}

/// A layer that a host may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Per-box overlays; without them directories of the host are bound read-only and inodes are shared.
    Overlay,
    /// Kernel-enforced limits for a root spawner; without them limits are rlimits and sampling.
    Cgroup,
}

/// What protects a box that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layers {
    /// Outside uid of user code.
    pub host_uid: u32,
    /// Whether that uid belongs to this box alone.
    pub host_uid_unique: bool,
    /// `v1`, `v2` or `none`.
    pub cgroup: CgroupKind,
    /// Whether directories of the host are seen through overlays of the box's own.
    pub overlay: bool,
    /// What the box may reach.
    pub network: Network,
    /// What is weaker than it could be, in words.
    pub degraded: Vec<String>,
    /// How many seats it has; none where one job runs at a time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seats: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Which kind of cgroup bounds a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CgroupKind {
    /// One hierarchy per controller.
    V1,
    /// The unified hierarchy.
    V2,
    /// No cgroup: rlimits and sampling by the executor.
    None,
}

/// What PID 1 has to know of its box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitSpec {
    /// Inside uid and gid of user code.
    pub user: u32,
    /// Whether PID 1 has another uid than user code.
    pub two_ids: bool,
    /// Bounds of the box.
    pub limits: BoxLimits,
    /// Which kind of cgroup bounds it.
    pub cgroup: CgroupKind,
    /// System call profile of user code.
    pub profile: Profile,
    /// How nice user code is to others: as nice as who runs it.
    pub nice: i32,
    /// Directories user code may read.
    pub readable: Vec<PathBuf>,
    /// Directories user code may write below, for Landlock.
    pub writable: Vec<PathBuf>,
}

/// What a box used, as the kernel counted it. `None` where the kernel of this host does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct BoxUsage {
    /// CPU time of all processes.
    pub cpu_micros: Option<u64>,
    /// Highest memory use.
    pub memory_peak_bytes: Option<u64>,
    /// Highest number of processes and threads, PID 1 included.
    pub pids_peak: Option<u64>,
    /// How often a process was killed for lack of memory.
    pub oom_kills: u64,
    /// How often making a process or thread was refused.
    pub pids_refused: u64,
}
