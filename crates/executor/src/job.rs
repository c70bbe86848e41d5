//! Runs jobs: one at a time, step by step, each step watched until its last process is gone.
//!
//! The ending of a step is the kernel's word on its first process, unless a limit ended it first. Whatever
//! else it started dies with it, at once; output written until then is kept.

use crate::artifacts::{self, Known};
use crate::control::Control;
use crate::files::Files;
use crate::ground::Ground;
use crate::meters::{Peak, Reading};
use crate::value;
use crate::waiting::Waiting;
use crate::watch::Watch;
use jail::beneath::{Mark, PlainPath, Tree};
use jail::mutant::{Mutant, lacks};
use jail::sys;
use protocol::{
    BUILD_STREAM, Collect, Ending, Errand, Frame, FromExecutor, FromHost, GENERATION, Job, JobResult, Kind,
    Place, RunLimits, StepKind, Usage, Written,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitOptions, WaitStatus, pidfd_open, wait, waitpid};
use std::io::Write;
use std::time::{Duration, Instant};

/// Most files that lie in a workspace of which is remembered how they look.
const MOST_KNOWN: usize = 100_000;

/// Serves the engine until it hangs up.
pub(crate) fn serve(mut control: Control, ground: &impl Ground) -> Result<(), String> {
    let signals = sys::child_signals().map_err(|e| e.to_string())?;
    let mut waiting = Waiting::default();
    // What lies at a seat is everybody's from the beginning.
    let mut used = ground.meters().are_of_seat();
    let workspace = Tree::open(ground.workspace()).map_err(|e| format!("workspace: {e}"))?;
    control.show(Files::of(workspace));
    while !control.hung_up() {
        let told = match next_frame(&mut control, ground, &signals, &mut waiting) {
            Some(frame) if frame.kind == Kind::Control => control.message(&frame),
            // Input that arrives after its program has ended.
            Some(_) => None,
            // The program that waited has ended: somebody may want to know.
            None => Some(FromHost::Attend),
        };
        match told {
            Some(FromHost::Hello { generation }) => greet(&mut control, ground, generation),
            Some(FromHost::Park(parked)) => match Waiting::park(ground, &parked) {
                Ok((begun, [workspace, build], letterbox)) => {
                    waiting = begun;
                    if !parked.hurry {
                        rehearse(&mut control, ground, &workspace);
                    }
                    let program = waiting.pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
                    let mut fds = vec![workspace.root(), build.root(), letterbox.as_fd()];
                    if let (Some(program), Some(children), Some(counts)) =
                        (&program, ground.children(), ground.meters().share())
                    {
                        fds.extend([program.as_fd(), children]);
                        fds.extend(counts);
                    }
                    control.hand_over(&FromExecutor::Parked, &fds);
                    control.drain();
                }
                Err(reason) => report(&mut control, Err(reason)),
            },
            Some(FromHost::Settle) => waiting.settle(ground),
            Some(FromHost::Doze) => waiting.unwatched = true,
            Some(FromHost::Follow(errand)) => {
                let followed = follow(&mut control, ground, &signals, &errand, &mut waiting);
                report(&mut control, followed);
            }
            Some(FromHost::Attend) => {
                if std::mem::take(&mut waiting.unwatched) {
                    waiting.ended = reap(ground, &signals, waiting.pid);
                }
                if let Some(errand) = waiting.letter() {
                    let followed = follow(&mut control, ground, &signals, &errand, &mut waiting);
                    report(&mut control, followed);
                }
            }
            Some(FromHost::Run(job)) => {
                if std::mem::take(&mut waiting).pid.is_some() {
                    // It is not what is wanted.
                    clear(ground, &signals);
                }
                let ran = run(&mut control, ground, &signals, &job, &mut used);
                report(&mut control, ran);
            }
            // Nothing runs, or the engine speaks of what we do not know. Files are seen to on the way here.
            Some(FromHost::Cancel | FromHost::Pause | FromHost::Resume | FromHost::File { .. }) | None => {}
        }
    }
    Ok(())
}

/// Answers the first word. Goes out with what comes next, or when there is nothing left to do.
pub(crate) fn greet(control: &mut Control, ground: &impl Ground, generation: u32) {
    control.note(&FromExecutor::Hello {
        generation: generation.min(GENERATION),
        seccomp_sha256: ground.seccomp_sha256(),
        landlock_abi: ground.landlock_abi(),
    });
}

fn report(control: &mut Control, done: Result<JobResult, String>) {
    control.tell(&match done {
        Ok(result) => FromExecutor::Finished(Box::new(result)),
        Err(reason) => FromExecutor::Broken { reason },
    });
    control.drain();
}

/// Waits for a frame, reaping meanwhile. None when the engine has hung up, or the program that waits has ended.
fn next_frame(
    control: &mut Control,
    ground: &impl Ground,
    signals: &OwnedFd,
    waiting: &mut Waiting,
) -> Option<Frame> {
    loop {
        if let Some(frame) = control.next() {
            return Some(frame);
        }
        if control.hung_up() {
            return None;
        }
        if control.wait(signals, !waiting.unwatched)
            && let Some(status) = reap(ground, signals, waiting.pid)
        {
            waiting.ended = Some(status);
            if waiting.settled.is_none() {
                // Before it waited, and whoever waits for it to wait hears nothing else.
                ground.let_go_of_output();
            }
            return None;
        }
    }
}

/// Waits for every process that has ended, and forgets all of them but the one that is `wanted`.
pub(crate) fn reap(ground: &impl Ground, signals: &OwnedFd, wanted: Option<Pid>) -> Option<WaitStatus> {
    let mut buffer = [0; 1024];
    let _ = rustix::io::read(signals, &mut buffer);
    let mut found = None;
    while let Ok(Some((pid, status))) = next_ended(ground) {
        // Where tracing is allowed, a stop can look like an end.
        if !(status.exited() || status.signaled()) {
            continue;
        }
        ground.bury(pid);
        if Some(pid) == wanted {
            found = Some(status);
        }
    }
    found
}

/// Waits for a process that has ended, if one has.
fn next_ended(ground: &impl Ground) -> Result<Option<(Pid, WaitStatus)>, Errno> {
    if !ground.meters().are_of_seat() {
        return wait(WaitOptions::NOHANG);
    }
    let Some((pid, largest)) = sys::ended_child() else { return wait(WaitOptions::NOHANG) };
    ground.meters().note_ended(largest);
    waitpid(Some(pid), WaitOptions::NOHANG)
}

/// Runs a job, in a place that was `used` before or was not.
fn run(
    control: &mut Control,
    ground: &impl Ground,
    signals: &OwnedFd,
    job: &Job,
    used: &mut bool,
) -> Result<JobResult, String> {
    let began = Instant::now();
    let workspace = Tree::open(ground.workspace()).map_err(|e| format!("workspace: {e}"))?;
    let build = Tree::open(ground.build()).map_err(|e| format!("build directory: {e}"))?;
    let mut known = Known::new();
    let again = std::mem::replace(used, true);
    if again || control.has_shown_files() {
        // What an earlier job built is nothing of this one's, and what lies in the workspace is not new.
        build.clear().map_err(|e| format!("build directory: {e}"))?;
        workspace.walk(&mut |entry| {
            known.insert(entry.path.as_str().to_owned(), Mark::of(&entry.stat));
            known.len() < MOST_KNOWN
        });
    }
    if let Err(reason) = receive_files(control, ground, signals, job, (&workspace, &build), &mut known) {
        remove_temporary(job, &workspace);
        return Err(reason);
    }

    let before = if again { ground.meters().read_anew() } else { ground.meters().read() };
    let mut watch = Watch::new(ground, &job.limits, signals, &workspace, (Instant::now(), before));
    let mut built = Vec::new();
    let mut last = (0, Ending::Cancelled);
    for (index, step) in job.steps.iter().enumerate() {
        let ending = watch.step(control, index, step, job.stdin);
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
    let written = watch.written();
    remove_temporary(job, &workspace);
    let bring =
        Bring { ground, collect: &job.collect, workspace: &workspace, known: &known, before: &before };
    let home = bring.home(control, last, began, watch.sampled());
    if ground.meters().are_of_seat() {
        // Storage is everybody's. What cannot be removed now is before the next job.
        let _ = build.clear();
    }
    Ok(JobResult { written, build: built, ..home })
}

/// Removes what goes away with a job.
fn remove_temporary(job: &Job, workspace: &Tree) {
    for file in job.files.iter().filter(|file| file.temporary && file.place == Place::Workspace) {
        if let Ok(path) = PlainPath::parse(&file.path) {
            // The program may have removed it.
            let _ = workspace.remove(&path);
        }
    }
}

/// Follows the program that waited.
fn follow(
    control: &mut Control,
    ground: &impl Ground,
    signals: &OwnedFd,
    errand: &Errand,
    waiting: &mut Waiting,
) -> Result<JobResult, String> {
    let began = since(errand.began_ns);
    waiting.settle(ground);
    let Waiting { pid: Some(pid), ended, settled: Some((workspace, before)), .. } = std::mem::take(waiting)
    else {
        return Err("no program waits here".into());
    };
    let known = errand.files.iter().map(|file| (file.path.clone(), file.mark)).collect();
    let mut watch = Watch::new(ground, &errand.limits, signals, &workspace, (began, before));
    let ending = watch.adopt(control, pid, ended);
    let bring =
        Bring { ground, collect: &errand.collect, workspace: &workspace, known: &known, before: &before };
    Ok(bring.home(control, (0, ending), began, watch.sampled()))
}

/// A moment of the clock that only goes forward, which is the same for everybody on this host.
fn since(ns: u64) -> Instant {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let now_ns = clock.tv_sec as u64 * 1_000_000_000 + clock.tv_nsec as u64;
    let now = Instant::now();
    now.checked_sub(Duration::from_nanos(now_ns.saturating_sub(ns))).unwrap_or(now)
}

/// Does once what will be done when a program has ended, while nobody waits for it: the first time takes several times
/// as long.
fn rehearse(control: &mut Control, ground: &impl Ground, workspace: &Tree) {
    let collect = Collect {
        artifacts: true,
        contents: false,
        build: false,
        most_files: 1,
        most_bytes: 1,
        most_value_bytes: None,
    };
    let limits = RunLimits { wall_ms: 0, cpu_ms: 0, output_bytes: 0, output_written_bytes: 0 };
    drop(Errand::open(&Errand { began_ns: 0, limits, collect, files: Vec::new() }.letter()));
    let (known, before, now) = (Known::new(), ground.meters().read(), Instant::now());
    let bring = Bring { ground, collect: &collect, workspace, known: &known, before: &before };
    let told = bring.home(control, (0, Ending::Exited { code: 0 }), now, None);
    drop(Frame::control(&FromExecutor::Finished(Box::new(told))));
}

/// What is told of a job when it is over.
struct Bring<'a, G: Ground> {
    ground: &'a G,
    collect: &'a Collect,
    workspace: &'a Tree,
    known: &'a Known,
    before: &'a Reading,
}

impl<G: Ground> Bring<'_, G> {
    /// Everything but what it wrote.
    fn home(
        &self,
        control: &mut Control,
        (step, ending): (usize, Ending),
        began: Instant,
        sampled: Option<Peak>,
    ) -> JobResult {
        let (before, after) = (self.before, self.ground.meters().read());
        let usage = Usage {
            wall_us: began.elapsed().as_micros() as u64,
            cpu_us: after.waited_cpu_us.saturating_sub(before.waited_cpu_us),
            // That of an earlier job is not this one's; a smaller one of this job cannot be told from it.
            largest_rss_bytes: after.largest_rss_bytes
                * u64::from(after.largest_rss_bytes > before.largest_rss_bytes),
            read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
            write_bytes: after.write_bytes.saturating_sub(before.write_bytes),
            sampled_memory_bytes: sampled.map(|peak| peak.memory_bytes),
            sampled_processes: sampled.map(|peak| peak.processes),
        };
        let returned = match (self.collect.most_value_bytes, &ending) {
            (Some(most), Ending::Exited { .. }) => Some(value::send(self.ground.build(), most, control)),
            _ => None,
        };
        let (artifacts, artifacts_truncated) = if self.collect.artifacts {
            let send = self.collect.contents.then_some((control, 0));
            artifacts::collect(self.workspace, self.known, self.collect, send)
        } else {
            (Vec::new(), false)
        };
        let (free_bytes, free_inodes) = self.workspace.free().unwrap_or((u64::MAX, u64::MAX));
        JobResult {
            step,
            ending,
            usage,
            counted: self.ground.meters().counted(before, &after),
            written: Written::default(),
            disk_full: free_bytes < 4096 || free_inodes == 0,
            artifacts,
            artifacts_truncated,
            build: Vec::new(),
            returned,
        }
    }
}

/// Makes the files of a job from the frames that follow it, and notes how those of the workspace look.
fn receive_files(
    control: &mut Control,
    ground: &impl Ground,
    signals: &OwnedFd,
    job: &Job,
    (workspace, build): (&Tree, &Tree),
    known: &mut Known,
) -> Result<(), String> {
    for (index, spec) in job.files.iter().enumerate() {
        let failed = |e: &dyn std::fmt::Display| format!("file `{}`: {e}", spec.path);
        let path = PlainPath::parse(&spec.path).map_err(|e| failed(&e))?;
        let tree = if spec.place == Place::Workspace { workspace } else { build };
        let mode = if spec.executable { 0o755 } else { 0o644 };
        let mut file = tree.replace(&path, mode).map_err(|e| failed(&e))?;
        let mut left = spec.size;
        let mut broken = None;
        while left > 0 {
            let frame =
                next_frame(control, ground, signals, &mut Waiting::default()).ok_or("the engine hung up")?;
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
    Ok(())
}

/// Ends every process of the job and waits until the kernel has none left.
pub(crate) fn clear(ground: &impl Ground, signals: &OwnedFd) {
    if lacks(Mutant::KillTree) || ground.is_clear() {
        return;
    }
    ground.kill_all();
    let patience = Instant::now() + Duration::from_secs(2);
    while Instant::now() < patience {
        match next_ended(ground) {
            Ok(Some((pid, _))) => ground.bury(pid),
            Err(Errno::INTR) => {}
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
