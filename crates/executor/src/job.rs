//! Runs jobs: one at a time, step by step, each step watched until its last process is gone.
//!
//! The ending of a step is the kernel's word on its first process, unless a limit ended it first. Whatever
//! else it started dies with it, at once; output written until then is kept.

use crate::artifacts::{self, Known};
use crate::control::Control;
use crate::ground::Ground;
use crate::meters::Reading;
use crate::watch::{Watch, program, stage};
use jail::beneath::{Mark, PlainPath, Tree};
use jail::mutant::{Mutant, lacks};
use jail::sys;
use protocol::{
    BUILD_STREAM, Collect, Ending, Frame, FromExecutor, FromHost, GENERATION, Job, JobResult, Kind, Parked,
    Place, RunLimits, StepKind, Usage, Written,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};
use std::io::Write;
use std::time::Instant;

/// The program that waits.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) pid: Option<Pid>,
    /// How it ended, if it did before anybody asked.
    pub(crate) ended: Option<WaitStatus>,
}

/// Serves the engine until it hangs up.
pub(crate) fn serve(mut control: Control, ground: &impl Ground) -> Result<(), String> {
    let signals = sys::child_signals().map_err(|e| e.to_string())?;
    let mut waiting = Waiting::default();
    while !control.hung_up() {
        match next_frame(&mut control, &signals, &mut waiting) {
            Some(frame) if frame.kind == Kind::Control => match control.message(&frame) {
                // Goes out with what comes next, or when there is nothing left to do.
                Some(FromHost::Hello { generation }) => control.note(&FromExecutor::Hello {
                    generation: generation.min(GENERATION),
                    seccomp_sha256: ground.seccomp_sha256(),
                    landlock_abi: ground.landlock_abi(),
                }),
                Some(FromHost::Park(parked)) => {
                    match park(ground, &parked) {
                        Ok((pid, workspace)) => {
                            waiting.pid = Some(pid);
                            rehearse(&mut control, ground, &workspace);
                            control.hand_over(&FromExecutor::Parked, workspace.root());
                        }
                        Err(reason) => control.tell(&FromExecutor::Broken { reason }),
                    }
                    control.drain();
                }
                Some(FromHost::Run(job)) => {
                    match run(&mut control, ground, &signals, &job, &mut waiting) {
                        Ok(result) => control.tell(&FromExecutor::Finished(Box::new(result))),
                        Err(reason) => control.tell(&FromExecutor::Broken { reason }),
                    }
                    control.drain();
                }
                // Nothing runs, or the engine speaks of what we do not know.
                Some(FromHost::Cancel) | None => {}
            },
            // Input that arrives after its program has ended.
            _ => {}
        }
    }
    Ok(())
}

/// Waits for a frame, reaping meanwhile.
fn next_frame(control: &mut Control, signals: &OwnedFd, waiting: &mut Waiting) -> Option<protocol::Frame> {
    loop {
        if let Some(frame) = control.next() {
            return Some(frame);
        }
        if control.hung_up() {
            return None;
        }
        let wanted = if control.has_waiting() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = [PollFd::from_borrowed_fd(control.fd(), wanted), PollFd::new(signals, PollFlags::IN)];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        let (news, child) = (fds[0].revents(), !fds[1].revents().is_empty());
        if news.contains(PollFlags::OUT) {
            control.flush();
        }
        if !(news & !PollFlags::OUT).is_empty() {
            control.fill();
        }
        if child && let Some(status) = reap(signals, waiting.pid) {
            waiting.ended = Some(status);
        }
    }
}

/// Starts the program that waits, in a workspace that has its main file.
fn park(ground: &impl Ground, parked: &Parked) -> Result<(Pid, Tree), String> {
    let workspace = Tree::open(ground.workspace()).map_err(|e| format!("workspace: {e}"))?;
    if let Some(source) = &parked.source {
        let path = PlainPath::parse(source).map_err(|e| e.to_string())?;
        workspace.create(&path, 0o644).map_err(|e| format!("file `{source}`: {e}"))?;
    }
    let stage = stage(&ground.workspace().display().to_string(), parked.cpu_ms).map_err(|e| e.to_string())?;
    let program = parked.step.as_ref().map(|step| program(step, parked.cpu_ms)).transpose();
    let started = program.and_then(|program| ground.park(program.as_ref(), &stage));
    Ok((started.map_err(|e| e.to_string())?, workspace))
}

/// Waits for every process that has ended, and forgets all of them but the one that is `wanted`.
pub(crate) fn reap(signals: &OwnedFd, wanted: Option<Pid>) -> Option<WaitStatus> {
    let mut buffer = [0; 1024];
    let _ = rustix::io::read(signals, &mut buffer);
    let mut found = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        // Where tracing is allowed, a stop can look like an end.
        if Some(pid) == wanted && (status.exited() || status.signaled()) {
            found = Some(status);
        }
    }
    found
}

fn run(
    control: &mut Control,
    ground: &impl Ground,
    signals: &OwnedFd,
    job: &Job,
    waiting: &mut Waiting,
) -> Result<JobResult, String> {
    let began = Instant::now();
    let workspace = Tree::open(ground.workspace()).map_err(|e| format!("workspace: {e}"))?;
    let build = Tree::open(ground.build()).map_err(|e| format!("build directory: {e}"))?;
    let mut known = receive_files(control, signals, job, &workspace, &build)?;
    known.extend(job.parked.iter().flatten().map(|file| (file.path.clone(), file.mark)));

    let before = ground.meters().read();
    let mut watch = Watch::new(ground, job, signals, &workspace, before);
    let mut built = Vec::new();
    let mut last = (0, Ending::Cancelled);
    for (index, step) in job.steps.iter().enumerate() {
        let ending = match &job.parked {
            None => watch.step(control, index, step),
            Some(_) => watch.adopt(control, std::mem::take(waiting))?,
        };
        let success = ending == Ending::Exited { code: 0 };
        last = (index, ending);
        if !success {
            break;
        }
        if step.kind == StepKind::Compile && job.collect.build {
            // Before the next step, which may write there.
            let send = Some((&mut *control, BUILD_STREAM));
            let none = Known::new();
            built = artifacts::collect(&build, &none, &job.collect, send).0;
        }
    }

    let bring = Bring { ground, job, workspace: &workspace, known: &known, before: &before };
    let sampled = watch.sampled();
    Ok(JobResult {
        usage: Usage {
            sampled_memory_bytes: sampled.map(|most| most.memory_bytes),
            sampled_processes: sampled.map(|most| most.processes),
            ..bring.usage(began)
        },
        written: watch.written(),
        build: built,
        ..bring.home(control, last)
    })
}

/// Does once what will be done when a program has ended, while nobody waits for it: the first time takes several times
/// as long.
fn rehearse(control: &mut Control, ground: &impl Ground, workspace: &Tree) {
    let collect = Collect { artifacts: true, contents: false, build: false, most_files: 1, most_bytes: 1 };
    let limits = RunLimits { wall_ms: 0, cpu_ms: 0, output_bytes: 0, output_written_bytes: 0 };
    let job =
        Job { files: Vec::new(), steps: Vec::new(), limits, stdin: false, collect, parked: Some(Vec::new()) };
    let heard: Option<Job> =
        serde_json::to_vec(&job).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let (known, before) = (Known::new(), ground.meters().read());
    let bring =
        Bring { ground, job: heard.as_ref().unwrap_or(&job), workspace, known: &known, before: &before };
    let usage = bring.usage(Instant::now());
    let told = JobResult { usage, ..bring.home(control, (0, Ending::Exited { code: 0 })) };
    drop(Frame::control(&FromExecutor::Finished(Box::new(told))));
}

/// What is told of a job when it is over.
struct Bring<'a, G: Ground> {
    ground: &'a G,
    job: &'a Job,
    workspace: &'a Tree,
    known: &'a Known,
    before: &'a Reading,
}

impl<G: Ground> Bring<'_, G> {
    fn usage(&self, began: Instant) -> Usage {
        let (before, after) = (self.before, self.ground.meters().read());
        Usage {
            wall_us: micros(began),
            cpu_us: after.waited_cpu_us.saturating_sub(before.waited_cpu_us),
            largest_rss_bytes: sys::usage_of_children().largest_rss_bytes,
            read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
            write_bytes: after.write_bytes.saturating_sub(before.write_bytes),
            ..Usage::default()
        }
    }

    /// Everything but what it used and what it wrote.
    fn home(&self, control: &mut Control, (step, ending): (usize, Ending)) -> JobResult {
        let job = self.job;
        let (artifacts, artifacts_truncated) = if job.collect.artifacts {
            let send = job.collect.contents.then_some((control, 0));
            artifacts::collect(self.workspace, self.known, &job.collect, send)
        } else {
            (Vec::new(), false)
        };
        let (free_bytes, free_inodes) = self.workspace.free().unwrap_or((u64::MAX, u64::MAX));
        JobResult {
            step,
            ending,
            usage: Usage::default(),
            counted: self.ground.meters().counted(self.before),
            written: Written::default(),
            disk_full: free_bytes < 4096 || free_inodes == 0,
            artifacts,
            artifacts_truncated,
            build: Vec::new(),
        }
    }
}

/// Makes the files of a job from the frames that follow it. Returns how those of the workspace look.
fn receive_files(
    control: &mut Control,
    signals: &OwnedFd,
    job: &Job,
    workspace: &Tree,
    build: &Tree,
) -> Result<Known, String> {
    let mut known = Known::new();
    for (index, spec) in job.files.iter().enumerate() {
        let failed = |e: &dyn std::fmt::Display| format!("file `{}`: {e}", spec.path);
        let path = PlainPath::parse(&spec.path).map_err(|e| failed(&e))?;
        let tree = if spec.place == Place::Workspace { workspace } else { build };
        let mode = if spec.executable { 0o755 } else { 0o644 };
        let mut file = tree.create(&path, mode).map_err(|e| failed(&e))?;
        let mut left = spec.size;
        let mut broken = None;
        while left > 0 {
            let frame = next_frame(control, signals, &mut Waiting::default()).ok_or("the engine hung up")?;
            if frame.kind != Kind::FileIn || frame.stream != index as u32 || frame.body.len() as u64 > left {
                return Err("the engine sent something else than the file it announced".into());
            }
            left -= frame.body.len() as u64;
            // Even when the disk is full, what was announced must be taken off the stream.
            if broken.is_none() {
                broken = file.write_all(&frame.body).err();
            }
        }
        if let Some(error) = broken {
            return Err(failed(&error));
        }
        let stat = rustix::fs::fstat(&file).map_err(|e| failed(&e))?;
        if spec.place == Place::Workspace {
            known.insert(path.as_str().to_owned(), Mark::of(&stat));
        }
    }
    Ok(known)
}

/// Ends every process of the job and waits until the kernel has none left.
pub(crate) fn clear(ground: &impl Ground, signals: &OwnedFd) {
    if lacks(Mutant::KillTree) {
        return;
    }
    ground.kill_all();
    let patience = Instant::now() + std::time::Duration::from_secs(2);
    while Instant::now() < patience {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Err(_) => break,
            Ok(None) => {
                ground.kill_all();
                let mut fds = [PollFd::new(signals, PollFlags::IN)];
                let _ = poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 2_000_000 }));
            }
        }
    }
    let mut buffer = [0; 1024];
    let _ = rustix::io::read(signals, &mut buffer);
}

pub(crate) fn micros(since: Instant) -> u64 {
    since.elapsed().as_micros() as u64
}
