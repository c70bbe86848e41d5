//! What a job is, and what comes back of it.

use jail::JailError;
use jail::beneath::Mark;
use jail::spec::BoxUsage;
use serde::{Deserialize, Serialize};

/// From the engine to the executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromHost {
    /// The first word.
    Hello {
        /// Newest generation the engine speaks.
        generation: u32,
    },
    /// Start a program that waits to be told what to do, on the streams the box was made with.
    Park(Parked),
    /// The program that waits is ready: what is used from here on, its errand uses.
    Settle,
    /// Leave the program that waits alone, even when it ends, until [`FromHost::Attend`] or another order: who says this
    /// looks for its end.
    Doze,
    /// Follow the program that waits, which is told what to do at the same time.
    Follow(Errand),
    /// Look into the letterbox, where such an order lies.
    Attend,
    /// Do all of this. Contents of its files follow as frames.
    Run(Job),
    /// End the running job now.
    Cancel,
    /// Do something with the files of the workspace, whether a job runs or not. What [`FileOp::Write`] writes follows as
    /// one frame whose stream number is [`ASIDE`] and this number.
    File {
        /// Whose answer it will be.
        id: u32,
        /// What.
        op: FileOp,
    },
    /// Stop every process of the job, and its clock.
    Pause,
    /// Let them go on.
    Resume,
}

/// Most descriptors that come along with [`FromExecutor::Parked`].
pub const PARKED_FDS: usize = 5 + jail::cgroup::COUNTS;

/// From the executor to the engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromExecutor {
    /// The answer to the first word.
    Hello {
        /// Newest generation the executor speaks.
        generation: u32,
        /// SHA-256 of the system call filter; none without isolation.
        seccomp_sha256: Option<String>,
        /// Landlock interface in force; 0 for none.
        landlock_abi: u32,
    },
    /// The program that waits was started. Descriptors come along, [`PARKED_FDS`] at most: of the workspace, of the build
    /// directory, and of the letterbox, a pipe into which a letter, an [`Errand`], may be put in place of
    /// [`FromHost::Follow`]. It is looked into when the program has ended, or on [`FromHost::Attend`]: until there is
    /// something to do, it wakes nobody. Where the kernel counts what the box uses, there are more, by which its end can be
    /// looked for ([`FromHost::Doze`]): of the program, of PID 1's list of children, and [`jail::cgroup::Counts`].
    Parked,
    /// A step has been executed by the kernel; output that follows is its.
    Started {
        /// Which step of the job.
        step: usize,
    },
    /// The job is over and every process of it is gone.
    Finished(Box<JobResult>),
    /// What came of [`FromHost::File`]. What was read came before it, as frames whose stream number is [`ASIDE`] and this
    /// number.
    File {
        /// Whose answer it is.
        id: u32,
        /// What came of it.
        outcome: FileOutcome,
    },
    /// The executor could not do its work.
    Broken {
        /// What happened.
        reason: String,
    },
}

/// The whole of what shall happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Files to make in the workspace before the first step.
    pub files: Vec<FileIn>,
    /// Programs to run, one after the other; a failing one ends the job.
    pub steps: Vec<Step>,
    /// Bounds.
    pub limits: RunLimits,
    /// Whether input follows as frames; else programs read from an empty file.
    pub stdin: bool,
    /// What to bring back.
    pub collect: Collect,
}

/// What a program does that waited. It has been told by others, its streams are the engine's, and its files are there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Errand {
    /// When it began, by the clock that only goes forward.
    pub began_ns: u64,
    /// Bounds.
    pub limits: RunLimits,
    /// What to bring back.
    pub collect: Collect,
    /// Files that are there.
    pub files: Vec<Present>,
}

impl Errand {
    /// As it is put into a letterbox.
    pub fn letter(&self) -> Vec<u8> {
        // Plain data with string keys, which always has a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// What was found there.
    pub fn open(letter: &[u8]) -> Option<Errand> {
        serde_json::from_slice(letter).ok()
    }
}

/// A program that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parked {
    /// What it is; none for a copy of the interpreter that PID 1 itself is a copy of, or of PID 1, which becomes the
    /// program it is told.
    pub step: Option<Step>,
    /// Its main file, in the workspace, where one is expected: there from the beginning, empty, and rewritten in place.
    pub source: Option<String>,
    /// Bounds of what it will do.
    pub cpu_ms: u64,
    /// Whether somebody waits for it already.
    #[serde(default)]
    pub hurry: bool,
    /// Whether the program of the step leaves somebody behind who keeps its memory. A copy always does.
    #[serde(default)]
    pub keeper: bool,
}

/// A file that is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Present {
    /// Path in the workspace.
    pub path: String,
    /// How it looked before the program began.
    pub mark: Mark,
}

/// A file going in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileIn {
    /// Path in its place.
    pub path: String,
    /// Which directory it goes to.
    pub place: Place,
    /// How many bytes follow for it.
    pub size: u64,
    /// Whether it may be executed.
    #[serde(default)]
    pub executable: bool,
    /// Whether it goes away with the job.
    #[serde(default)]
    pub temporary: bool,
}

/// A directory the executor knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Where the user's files are.
    Workspace,
    /// Where compilers leave their output.
    Build,
}

/// What a step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Makes a program.
    Compile,
    /// Is the program.
    Run,
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What it is for.
    pub kind: StepKind,
    /// Absolute path of the file to execute.
    pub program: String,
    /// Arguments, name first.
    pub argv: Vec<String>,
    /// The whole environment, as `NAME=value`.
    pub env: Vec<String>,
    /// Where it starts.
    pub directory: String,
}

/// Bounds of a job. Those of the box hold besides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Wall time of all steps together.
    pub wall_ms: u64,
    /// CPU time of all processes together.
    pub cpu_ms: u64,
    /// Bytes of each output stream that are passed on.
    pub output_bytes: u64,
    /// Bytes of each output stream that may be written before the job is ended.
    pub output_written_bytes: u64,
}

/// What to bring back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Collect {
    /// List files of the workspace that are new or changed.
    pub artifacts: bool,
    /// Send their contents as well.
    pub contents: bool,
    /// Send what the compile step left in the build directory.
    pub build: bool,
    /// At most so many files.
    pub most_files: u32,
    /// At most so many bytes are read and sent.
    pub most_bytes: u64,
    /// At most so many bytes of the value that the program leaves at [`VALUE`]; none where no value is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_value_bytes: Option<u64>,
}

/// Where a program leaves its value, in the build directory.
pub const VALUE: &str = "call/value.json";

/// Stream number of the value of a program.
pub const VALUE_STREAM: u32 = 1 << 29;

/// What became of the value of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "value", rename_all = "snake_case")]
pub enum Returned {
    /// It left none.
    None,
    /// It went before this message, as frames whose stream number is [`VALUE_STREAM`].
    Sent,
    /// It is larger than may be sent.
    TooLarge,
    /// What lies in its place cannot be read.
    Unreadable {
        /// The kernel's number.
        errno: i32,
    },
}

/// How a program ended. The word of the kernel, or of the limit that ended it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// By itself.
    Exited {
        /// Its code.
        code: i32,
    },
    /// By a signal nobody of ours sent.
    Signalled {
        /// Its number.
        signal: i32,
    },
    /// Its wall time was up.
    TimedOut,
    /// Its CPU time was up.
    CpuLimit,
    /// The box ran out of memory.
    OutOfMemory,
    /// It wrote more than may be written.
    OutputLimit,
    /// The engine asked for it, or hung up.
    Cancelled,
    /// It was never executed.
    StartFailed {
        /// Which rung broke.
        error: JailError,
    },
}

/// The job as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// The last step that was begun, and how it ended.
    pub step: usize,
    /// How it ended.
    pub ending: Ending,
    /// What was used.
    pub usage: Usage,
    /// What the kernel counted, where it does.
    #[serde(default)]
    pub counted: Option<BoxUsage>,
    /// Bytes written to each stream, passed on or not.
    pub written: Written,
    /// Whether scratch storage was full at the end.
    pub disk_full: bool,
    /// Files to bring back; their contents, where asked for, went before this message.
    pub artifacts: Vec<Artifact>,
    /// Whether there were more files, or larger ones, than are listed.
    pub artifacts_truncated: bool,
    /// What the compile step left behind, taken before the next step began; contents went before this
    /// message, their stream numbers following [`BUILD_STREAM`].
    #[serde(default)]
    pub build: Vec<Artifact>,
    /// What became of its value, where one was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Returned>,
}

/// First stream number of what goes on beside jobs.
pub const ASIDE: u32 = 1 << 30;

/// Most bytes that are read or written by one [`FileOp`].
pub const LONGEST_PIECE: usize = 512 << 10;

/// Most entries of a directory that are listed by one [`FileOp`].
pub const MOST_ENTRIES: u32 = 1000;

/// Something to do with the files of the workspace. Paths are beneath it; the empty one is itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum FileOp {
    /// Say what there is below a directory, in the order of their paths.
    List {
        /// Which directory.
        path: String,
        /// Whether what is below its directories counts.
        recursive: bool,
        /// Only what comes after this path.
        after: Option<String>,
        /// At most so many.
        most: u32,
    },
    /// Say what something is.
    Stat {
        /// What.
        path: String,
    },
    /// Read a piece of a file.
    Read {
        /// Which.
        path: String,
        /// From here on.
        offset: u64,
        /// At most so many bytes.
        length: u32,
    },
    /// Write a piece of a file, which is made where it is not there, and directories above it.
    Write {
        /// Which.
        path: String,
        /// From here on. The first piece empties the file.
        offset: u64,
        /// Its mode, if it is made.
        mode: u32,
    },
    /// Make a directory, and those above it.
    Mkdir {
        /// Which.
        path: String,
    },
    /// Give something another name, in place of a file that may have it.
    Move {
        /// What.
        from: String,
        /// Its new name.
        to: String,
        /// Whether a file that has that name is replaced.
        replace: bool,
    },
    /// Remove a file, or a directory.
    Remove {
        /// What.
        path: String,
        /// Whether a directory goes with all that is in it.
        recursive: bool,
    },
}

/// What came of a [`FileOp`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum FileOutcome {
    /// It is done.
    Done,
    /// What something is.
    Found {
        /// It.
        entry: FileEntry,
    },
    /// What there is.
    Listed {
        /// In the order of their paths.
        entries: Vec<FileEntry>,
        /// Whether there is more.
        more: bool,
    },
    /// It could not be done.
    Failed {
        /// The kernel's number.
        errno: i32,
    },
}

/// Something in the workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Path beneath the workspace.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// Its size.
    pub size: u64,
    /// Its permissions.
    pub mode: u32,
    /// When it was changed, in milliseconds since 1970.
    pub modified_ms: i64,
}

/// What something in the workspace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// Anything else: a link, a pipe, a socket. It is shown and can be removed; it is never opened.
    Other,
}

/// First stream number of contents of the build directory.
pub const BUILD_STREAM: u32 = 1 << 31;

/// Bytes written to each stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// To standard output.
    pub stdout: u64,
    /// To standard error.
    pub stderr: u64,
}

/// What a job used, by the executor's reading of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Wall time of all steps.
    pub wall_us: u64,
    /// CPU time of all processes that were waited for.
    pub cpu_us: u64,
    /// Resident memory of the largest process.
    pub largest_rss_bytes: u64,
    /// Highest memory of all processes together, where the executor had to sample it.
    pub sampled_memory_bytes: Option<u64>,
    /// Highest number of processes seen, where the executor had to sample it.
    pub sampled_processes: Option<u64>,
    /// Bytes fetched from storage.
    pub read_bytes: u64,
    /// Bytes sent to storage.
    pub write_bytes: u64,
}

/// A file that came to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// Path in its place.
    pub path: String,
    /// Size.
    pub size: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// Whether it may be executed.
    pub executable: bool,
}

#[cfg(test)]
mod tests;
