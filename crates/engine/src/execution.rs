//! The one record of a run. Every door renders this and nothing else.

use crate::limits::Limits;
use crate::output::{Exact, Text};
use jail::spec::{BoxUsage, CgroupKind, Layers, Network};
use protocol::{Ending, JobResult};
use serde::{Deserialize, Serialize};

/// How a run ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Exit code 0, by itself.
    Success,
    /// Another exit code, by itself.
    Failed,
    /// A signal nobody of ours sent.
    Signalled,
    /// Wall time was up.
    TimedOut,
    /// CPU time was up.
    CpuLimit,
    /// Memory was used up.
    OutOfMemory,
    /// More output than may be written.
    OutputLimit,
    /// It failed while making processes was refused.
    ProcessLimit,
    /// It failed while its storage was full.
    DiskLimit,
    /// It made system calls of another architecture.
    BadArch,
    /// The caller ended it.
    Cancelled,
    /// The program never ran.
    StartFailed,
    /// Our platform broke; nothing is known of the program.
    InfraError,
}

/// Where the program found its interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// It was started for it, in a sandbox made for it.
    Cold,
    /// It was started for it, in a sandbox that waited in the pool.
    Ready,
    /// None waited in the pool, so one was made to wait, and told at once.
    Miss,
    /// It waited in the pool.
    Hit,
}

/// What was run and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Execution {
    /// Unique and sortable by time.
    pub execution_id: String,
    /// How it ended.
    pub status: Status,
    /// Where it found its interpreter.
    pub start: Start,
    /// Of the program, if it ended by itself.
    pub exit_code: Option<i32>,
    /// That ended it, if one did.
    pub signal: Option<i32>,
    /// Output as text; bytes that are no text are replaced.
    pub stdout: Text,
    /// Diagnostics, likewise.
    pub stderr: Text,
    /// Exact output, only where it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<Exact>,
    /// Exact diagnostics, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<Exact>,
    /// Whether the program wrote more than was kept.
    pub stdout_truncated: bool,
    /// Likewise.
    pub stderr_truncated: bool,
    /// Value of a handler, or of the last expression. `null` is a value; so this alone does not tell whether there is
    /// one.
    pub return_value: Option<serde_json::Value>,
    /// Whether there is one. Scripts have none, and neither has what failed.
    pub return_value_set: bool,
    /// What it cost.
    pub metrics: Metrics,
    /// Files new or changed in the workspace.
    pub artifacts: Vec<ArtifactRecord>,
    /// Whether there were more than are listed.
    pub artifacts_truncated: bool,
    /// What protected the host.
    pub isolation: Receipt,
    /// Why it is no success, in words.
    pub error: Option<Failure>,
    /// Language, as the catalogue names it.
    pub language: String,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// When it was over, likewise.
    pub finished_at: String,
}

/// What a run cost, as the kernel counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Wall time of the job.
    pub duration_ms: f64,
    /// CPU time of all processes.
    pub cpu_time_ms: f64,
    /// Highest memory.
    pub memory_peak_bytes: u64,
    /// Fetched from storage.
    pub io_read_bytes: u64,
    /// Sent to storage.
    pub io_write_bytes: u64,
    /// Highest number of processes and threads; `null` where this kernel does not count them.
    pub processes_peak: Option<u64>,
    /// Written to standard output, kept or not.
    pub stdout_bytes: u64,
    /// Written to standard error, kept or not.
    pub stderr_bytes: u64,
}

/// A file that came to be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArtifactRecord {
    /// Path in the workspace.
    pub path: String,
    /// Size.
    pub size: u64,
    /// Hash of its content.
    pub sha256: String,
    /// Type guessed from its name.
    pub mime: String,
    /// Content, where it was asked for.
    #[serde(skip)]
    pub content: Option<Vec<u8>>,
    /// Whether it may be executed.
    #[serde(skip)]
    pub executable: bool,
}

/// Which layers were active.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Receipt {
    /// Isolator that made the sandbox.
    pub backend: &'static str,
    /// 1: one tenant's untrusted code; 0: a layer is missing or weaker, or there is none.
    pub grade: u8,
    /// Whether it had a user namespace of its own.
    pub userns: bool,
    /// Outside uid of user code.
    pub host_uid: Option<u32>,
    /// Whether that uid was this sandbox's alone.
    pub host_uid_unique: bool,
    /// System call profile.
    pub seccomp_profile: Option<String>,
    /// Hash of the installed filter.
    pub seccomp_profile_sha256: Option<String>,
    /// Landlock interface in force; 0 for none.
    pub landlock_abi: u32,
    /// Which kind of cgroup bounded it.
    pub cgroup: CgroupKind,
    /// What it could reach.
    pub net_mode: Network,
    /// `overlay`, `bind` or `host`.
    pub rootfs: &'static str,
    /// What was weaker than it could be.
    pub degraded: Vec<String>,
}

impl Receipt {
    /// The receipt of a box.
    pub fn native(layers: &Layers, profile: &str) -> Receipt {
        Receipt {
            backend: "native",
            grade: u8::from(layers.degraded.is_empty()),
            userns: true,
            host_uid: Some(layers.host_uid),
            host_uid_unique: layers.host_uid_unique,
            seccomp_profile: Some(profile.to_owned()),
            seccomp_profile_sha256: None,
            landlock_abi: 0,
            cgroup: layers.cgroup,
            net_mode: layers.network,
            rootfs: if layers.overlay { "overlay" } else { "bind" },
            degraded: layers.degraded.clone(),
        }
    }

    /// The receipt of no isolation.
    pub fn none() -> Receipt {
        Receipt {
            backend: "process",
            grade: 0,
            userns: false,
            host_uid: None,
            host_uid_unique: false,
            seccomp_profile: None,
            seccomp_profile_sha256: None,
            landlock_abi: 0,
            cgroup: CgroupKind::None,
            net_mode: Network::Host,
            rootfs: "host",
            degraded: vec![
                "process: no isolation at all; the program could do whatever the caller can".into(),
            ],
        }
    }

    /// Adds what PID 1 reported of the walls it puts around programs.
    pub fn complete(&mut self, seccomp_sha256: Option<String>, landlock_abi: u32) {
        self.seccomp_profile_sha256 = seccomp_sha256;
        self.landlock_abi = landlock_abi;
        if self.userns && landlock_abi == 0 {
            self.degraded.push("landlock: this kernel has none, so mounts alone guard files".into());
            self.grade = 0;
        }
    }
}

/// Why a run is no success.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// Step of the job that failed: `compile` or `run`.
    pub step: &'static str,
    /// In words.
    pub message: String,
}

/// What the pieces say together: the kernel's word on the program, the meters of its box, the limits.
pub(crate) fn judge(result: &JobResult, usage: &BoxUsage, limits: &Limits) -> (Status, Option<String>) {
    use crate::limits::{show_bytes, show_millis};
    let refused =
        usage.pids_refused > 0 || result.usage.sampled_processes.is_some_and(|seen| seen >= limits.pids);
    let pids = format!("the limit of {} processes was reached", limits.pids);
    let killed_by_kernel = matches!(result.ending, Ending::Signalled { signal: 9 }) && usage.oom_kills > 0;
    let (status, message) = match &result.ending {
        Ending::Exited { code: 0 } => return (Status::Success, None),
        _ if killed_by_kernel => (Status::OutOfMemory, out_of_memory(limits)),
        Ending::OutOfMemory => (Status::OutOfMemory, out_of_memory(limits)),
        Ending::TimedOut => {
            (Status::TimedOut, format!("it ran longer than {}", show_millis(limits.timeout_ms)))
        }
        Ending::CpuLimit => {
            (Status::CpuLimit, format!("it used more CPU time than {}", show_millis(limits.cpu_time_ms)))
        }
        Ending::OutputLimit => (
            Status::OutputLimit,
            format!("it wrote more than {} of output", show_bytes(limits.of_job().output_written_bytes)),
        ),
        Ending::Cancelled => (Status::Cancelled, "it was cancelled".into()),
        Ending::StartFailed { error } => (Status::StartFailed, error.to_string()),
        Ending::Signalled { signal: 31 } => {
            (Status::BadArch, "it made system calls of another architecture".into())
        }
        Ending::Signalled { signal: 25 } => (Status::DiskLimit, disk_full(limits)),
        Ending::Exited { .. } | Ending::Signalled { .. } if refused => {
            return (Status::ProcessLimit, Some(pids));
        }
        Ending::Exited { .. } | Ending::Signalled { .. } if result.disk_full => {
            (Status::DiskLimit, disk_full(limits))
        }
        Ending::Exited { code } => (Status::Failed, format!("exit code {code}")),
        Ending::Signalled { signal } => (Status::Signalled, format!("ended by signal {signal}")),
    };
    (status, Some(if refused { format!("{message}; {pids}") } else { message }))
}

fn out_of_memory(limits: &Limits) -> String {
    format!("it used more memory than {}", crate::limits::show_bytes(limits.memory_bytes))
}

fn disk_full(limits: &Limits) -> String {
    let (size, files) = (crate::limits::show_bytes(limits.disk_bytes), limits.disk_inodes);
    format!("its storage of {size} and {files} files was full")
}
