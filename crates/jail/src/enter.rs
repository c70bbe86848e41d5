//! The ladder into a box: one call per rung, in the order that makes it safe.
//!
//! Three steps, so that most of it can be done ahead of a request:
//!
//! 1. [`Workshop::begin`]: ids, cgroup and namespaces. Nothing is known yet of what the box shall be.
//! 2. [`Blank::furnish`]: its file system, by a specification whose limits are not final.
//! 3. [`Blank::finish`]: the final limits, the stream to the engine, and everything that is given up.
//!
//! The spawner's side is here; the side of the process that becomes PID 1 is in [`climb`]. They meet at a gate,
//! through which specifications go in, and a report, which says that the box stands or which rung broke.
//! PID 1 is a fork of the spawner and runs no other program: the spawner holds nothing but specifications,
//! and starting a program would cost more than all the rest. [`crate::job`] is what happens at a request.

mod climb;
mod gate;
mod janitor;

pub use climb::{Landed, Post};
pub use janitor::Janitor;

use crate::SingleThreaded;
use crate::cgroup::{Cgroup, Layout, Mounted};
use crate::error::{At, JailError, Step};
use crate::identity::Identity;
use crate::mutant::{Mutant, lacks};
use crate::spec::{BoxUsage, CgroupKind, JailSpec, Layer, Layers, Network};
use crate::sys::{self, Forked};
use climb::{Climber, Inherited, understand};
use gate::{Carried, Gate, Load};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use std::cell::OnceCell;
use std::time::Duration;

/// A box that stands: PID 1 is the executor, waiting on its control stream.
#[derive(Debug)]
pub struct JailBox {
    /// PID 1, seen from outside.
    pub pid: Pid,
    /// Refers to PID 1 and never to anything else.
    pub pidfd: OwnedFd,
    /// What protects it.
    pub layers: Layers,
    /// Bounds and counts it.
    pub cgroup: Cgroup,
    /// Its outside ids, reserved while it lives.
    pub identity: Identity,
}

impl JailBox {
    /// Ends everything in it. The kernel kills a pid namespace with its PID 1, whatever its processes do.
    /// Says what it had used.
    pub fn kill(&self) -> BoxUsage {
        if !lacks(Mutant::KillTree) {
            // Fails only when it is dead already.
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        }
        self.cgroup.usage()
    }

    /// Waits until the kernel has no process of it any more, and frees what it held.
    ///
    /// Taking namespaces down can take the kernel some milliseconds; the descriptor of PID 1 becomes
    /// readable when it is done.
    pub fn bury(self) -> Result<(), JailError> {
        wait_for(&self.pidfd);
        self.cgroup.remove()
    }
}

fn wait_for(pidfd: &OwnedFd) {
    while let Err(Errno::INTR) = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED) {}
}

/// The lines by which a box is reached.
#[derive(Debug)]
pub struct Lines {
    /// The stream to the engine.
    pub control: OwnedFd,
    /// Standard input, output and error of a program that shall wait in the box for what it has to do.
    pub program: Option<[OwnedFd; 3]>,
    /// The streams to its seats.
    pub seats: Vec<OwnedFd>,
}

impl From<OwnedFd> for Lines {
    fn from(control: OwnedFd) -> Lines {
        Lines { control, program: None, seats: Vec::new() }
    }
}

/// A box in the making: its processes wait at the gate.
#[derive(Debug)]
pub struct Blank {
    pid: Pid,
    pidfd: OwnedFd,
    gate: Gate,
    report: OwnedFd,
    cgroup: Cgroup,
    /// What its cgroup will be called, and who may be moved out of its way, where that is left for later.
    unplanned: Option<(u64, Vec<Pid>)>,
    /// Why nothing counts it, where nothing does.
    uncounted: Option<String>,
    identity: Identity,
    network: Network,
    furnished: Option<JailSpec>,
}

impl Blank {
    /// Whether it can become what `spec` wants.
    pub fn suits(&self, spec: &JailSpec) -> bool {
        let Some(furnished) = &self.furnished else { return self.network == spec.network };
        // Limits, profile, name, seats and further directories are settled at the end.
        let settled = JailSpec {
            id: spec.id.clone(),
            limits: spec.limits,
            profile: spec.profile,
            host_dirs: spec.host_dirs.clone(),
            seats: spec.seats.clone(),
            ..furnished.clone()
        };
        settled == *spec && spec.host_dirs.starts_with(&furnished.host_dirs)
    }

    /// Ends it and frees what it held.
    pub fn discard(self) -> Result<(), JailError> {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        wait_for(&self.pidfd);
        self.cgroup.remove()
    }

    /// Lets it build its file system. Does not wait for it.
    pub fn furnish(&mut self, spec: &JailSpec) -> Result<(), JailError> {
        match self.unplanned {
            Some(_) => self.gate.send(spec, None, &[])?,
            None => self.gate.send(spec, Some(self.cgroup.kind()), &self.doors(spec)?)?,
        }
        self.furnished = Some(spec.clone());
        Ok(())
    }

    /// What it enters its cgroup by.
    fn doors(&self, spec: &JailSpec) -> Result<Load, JailError> {
        if let (Some(why), true) = (&self.uncounted, self.identity.two_ids()) {
            // Root with no cgroup is a misconfigured host, not a plain user's fate.
            if !spec.allow_weaker.contains(&Layer::Cgroup) {
                return Err(JailError::new(Step::Cgroup, why.clone(), Errno::ACCESS));
            }
        }
        let mut doors: Vec<_> = self.cgroup.doors()?.into_iter().map(|fd| (Carried::Door, fd)).collect();
        if let Some((into, out_of)) = self.cgroup.rate_doors()? {
            doors.extend([(Carried::RateDoor, into), (Carried::WayBack, out_of)]);
        }
        Ok(doors)
    }

    /// Makes the cgroup that was left for later. What it is entered by.
    fn plan(&mut self, spec: &JailSpec) -> Result<Load, JailError> {
        let Some((serial, movable)) = self.unplanned.take() else { return Ok(Vec::new()) };
        let layout = Layout::detect(&movable);
        self.uncounted = layout.trouble();
        self.cgroup = Cgroup::plan(&layout, serial)?;
        self.cgroup.make()?;
        // Where it looked as if there were no unified hierarchy.
        self.cgroup.admit(self.pid)?;
        self.doors(spec)
    }

    /// Makes it the box that `spec` wants, with a PID 1 that talks on these lines. Does not wait for it.
    pub fn finish(mut self, spec: &JailSpec, lines: Lines) -> Result<Rising, JailError> {
        match self.settle(spec, lines) {
            Ok(()) => Ok(Rising { blank: self, spec: spec.clone() }),
            Err(error) => {
                // Nobody took the specification: what the box says of its end tells more than that.
                let gone = error.errno() == Errno::PIPE;
                let error = gone.then(|| self.hear().err()).flatten().unwrap_or(error);
                self.discard()?;
                Err(error)
            }
        }
    }

    fn settle(&mut self, spec: &JailSpec, lines: Lines) -> Result<(), JailError> {
        if self.furnished.is_none() {
            self.furnish(spec)?;
        }
        let mut carried = self.plan(spec)?;
        self.cgroup.limit(&spec.limits)?;
        carried.push((Carried::Control, lines.control));
        carried.extend(lines.program.into_iter().flatten().map(|fd| (Carried::Stream, fd)));
        carried.extend(lines.seats.into_iter().map(|fd| (Carried::Seat, fd)));
        for (place, meter) in self.cgroup.meters()?.into_list().into_iter().enumerate() {
            carried.extend(meter.map(|fd| (Carried::Meter(place), fd)));
        }
        self.gate.send(spec, Some(self.cgroup.kind()), &carried)
    }

    /// What it reports: that it stands, with or without overlays, or what broke.
    fn hear(&self) -> Result<bool, JailError> {
        hear(&self.report)
    }
}

/// Waits for a report, and understands it.
fn hear(from: &OwnedFd) -> Result<bool, JailError> {
    let mut report = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        match rustix::io::read(from, &mut buffer) {
            Ok(0) => return understand(&report),
            Ok(length) => report.extend_from_slice(&buffer[..length]),
            // Somebody else who waits for it has made it so.
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(from, PollFlags::IN)], None);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(JailError::new(Step::Namespaces, "report", errno)),
        }
    }
}

/// A box that has been told everything and is about to stand.
#[derive(Debug)]
pub struct Rising {
    blank: Blank,
    spec: JailSpec,
}

impl Rising {
    /// Readable when there is news of it.
    pub fn report(&self) -> BorrowedFd<'_> {
        self.blank.report.as_fd()
    }

    /// Forks somebody who takes it down when we are gone.
    pub fn janitor(&self, proof: &SingleThreaded) -> Result<Janitor, JailError> {
        Janitor::fork(proof, &self.blank)
    }

    /// Waits until it stands.
    pub fn stand(self) -> Result<JailBox, JailError> {
        match self.blank.hear() {
            Ok(overlay) => {
                let layers = layers(&self.spec, &self.blank, overlay);
                if self.blank.cgroup.kind() == CgroupKind::V1 {
                    hurry(self.blank.pid, 0);
                }
                let Blank { pid, pidfd, cgroup, identity, .. } = self.blank;
                Ok(JailBox { pid, pidfd, layers, cgroup, identity })
            }
            Err(error) => {
                self.blank.discard()?;
                Err(error)
            }
        }
    }
}

/// PID 1 must be heard among all it has to end. Only root may say how urgent it is. Programs do not inherit it.
fn hurry(pid: Pid, nice: i32) {
    let _ =
        sys::set_scheduling(Some(pid), URGENT, TURN).or_else(|_| sys::set_scheduling(Some(pid), nice, TURN));
}

/// How nice PID 1 is to others.
const URGENT: i32 = -10;
/// How long it goes on before others have their turn; the least there is.
const TURN: Duration = Duration::from_micros(100);

/// What the spawner has at hand for every box.
#[derive(Debug)]
pub struct Workshop {
    proof: SingleThreaded,
    /// Who may be moved where he is in the way.
    movable: Vec<Pid>,
    layout: OnceCell<Layout>,
    serial: u64,
    forgets: bool,
    hurries: bool,
    nice: i32,
    init: fn(Landed) -> i32,
}

impl Workshop {
    /// Opens the workshop. PID 1 of every box calls `init` and ends with what it returns. Where we ourselves are in
    /// the way of the cgroups of boxes, we and `company` are moved.
    pub fn open(proof: SingleThreaded, company: Option<Pid>, init: fn(Landed) -> i32) -> Workshop {
        let movable: Vec<Pid> = [rustix::process::getpid()].into_iter().chain(company).collect();
        let nice = rustix::process::getpriority_process(None).unwrap_or(0);
        let layout = OnceCell::new();
        Workshop { proof, movable, layout, serial: 0, forgets: false, hurries: false, nice, init }
    }

    /// Begins boxes with as little as possible: what it takes to count one is found out when it is finished.
    pub fn in_a_hurry(self) -> Workshop {
        Workshop { hurries: true, ..self }
    }

    /// Keeps our environment from boxes, for somebody who has one that they must not see.
    pub fn with_secrets(self) -> Workshop {
        Workshop { forgets: true, ..self }
    }

    /// Forks somebody who is no box but goes on as we do. `None` in the new process, which holds all that we hold and
    /// has to let go of it. What has to be settled about where we are is settled before.
    pub fn fork_plain(&self) -> Result<Option<(Pid, OwnedFd)>, JailError> {
        self.layout();
        match sys::fork(&self.proof).at(Step::Namespaces, "fork")? {
            None => Ok(None),
            // It cannot be anybody else's id before we have waited for it.
            Some(pid) => {
                let pidfd = pidfd_open(pid, PidfdFlags::empty()).at(Step::Namespaces, "pidfd")?;
                Ok(Some((pid, pidfd)))
            }
        }
    }

    /// Removes what spawners left behind that were killed.
    pub fn sweep(&self) {
        crate::cgroup::sweep(self.layout());
    }

    /// Looked at when it is needed, which takes a while.
    fn layout(&self) -> &Layout {
        self.layout.get_or_init(|| Layout::detect(&self.movable))
    }

    /// Begins a box: everything that does not depend on what it shall be.
    pub fn begin(&mut self, network: Network) -> Result<Blank, JailError> {
        let blank = self.fork(network)?;
        // Should the host run out of memory, boxes go first. A plain user may not always say so.
        let _ = std::fs::write(format!("/proc/{}/oom_score_adj", blank.pid.as_raw_nonzero()), "500");
        hurry(blank.pid, self.nice);
        match blank.identity.write_maps(blank.pid).and_then(|()| blank.cgroup.make()) {
            Ok(()) => Ok(blank),
            Err(error) => {
                blank.discard()?;
                Err(error)
            }
        }
    }

    fn fork(&mut self, network: Network) -> Result<Blank, JailError> {
        self.serial += 1;
        let identity = Identity::reserve()?;
        if identity.two_ids() {
            // Boxes may not change their groups, so they must not inherit any.
            rustix::thread::set_thread_groups(&[]).at(Step::Identity, "drop supplementary groups")?;
        }
        let (gate, theirs) = Gate::pair()?;
        let (report_out, report_in) = pipe_with(PipeFlags::CLOEXEC).at(Step::Namespaces, "report")?;
        // Only in the unified hierarchy there has to be a cgroup before the process. Elsewhere there is time for it
        // while the process starts.
        let before = match self.layout.get().is_none() && Layout::looks_divided() {
            true => None,
            false => Some(Cgroup::plan(self.layout(), self.serial)?),
        };
        let flags = libc::CLONE_NEWUSER
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS;
        let left_out = [
            (Mutant::UserNamespace, libc::CLONE_NEWUSER),
            (Mutant::IpcNamespace, libc::CLONE_NEWIPC),
            (Mutant::UtsNamespace, libc::CLONE_NEWUTS),
        ];
        let flags =
            left_out.iter().filter(|(layer, _)| lacks(*layer)).fold(flags, |flags, (_, flag)| flags & !flag);
        let processors = rustix::thread::sched_getaffinity(None).ok();
        let (pid, pidfd) =
            match sys::fork_into(&self.proof, flags as u64, before.as_ref().and_then(Cgroup::clone_target)) {
                Ok(Forked::Parent(pid, pidfd)) => (pid, pidfd),
                Ok(Forked::Child(proof)) => {
                    drop((gate, report_out));
                    let climber = Climber {
                        proof,
                        two_ids: identity.two_ids(),
                        network,
                        forgets: self.forgets,
                        nice: self.nice,
                        processors,
                        init: self.init,
                    };
                    climber.climb(Inherited { gate: theirs, report: report_in })
                }
                Err(errno) => {
                    before.map_or(Ok(()), |cgroup| cgroup.remove())?;
                    return Err(JailError::new(Step::Namespaces, "clone3", errno));
                }
            };
        if let Some(processors) = processors {
            sys::run_elsewhere(pid, processors);
        }
        let (cgroup, unplanned) = match before {
            Some(cgroup) => (cgroup, None),
            None if self.hurries => (Cgroup::None, Some((self.serial, self.movable.clone()))),
            None => match self.layout().mounted {
                Mounted::V1(_) | Mounted::None(_) => (Cgroup::plan(self.layout(), self.serial)?, None),
                // It did not look like that. Now we know, so the next one is born into its cgroup.
                Mounted::V2(_) => {
                    let _ = pidfd_send_signal(&pidfd, Signal::KILL);
                    wait_for(&pidfd);
                    return self.fork(network);
                }
            },
        };
        let uncounted = self.layout.get().and_then(Layout::trouble);
        Ok(Blank {
            pid,
            pidfd,
            gate,
            report: report_out,
            cgroup,
            unplanned,
            uncounted,
            identity,
            network,
            furnished: None,
        })
    }
}

fn layers(spec: &JailSpec, blank: &Blank, overlay: bool) -> Layers {
    let identity = &blank.identity;
    let mut degraded = Vec::new();
    if !identity.two_ids() {
        degraded.push(
            "shared-uid: sandboxes run as the calling user, because only root can map other ids".into(),
        );
    }
    if let Some(why) = &blank.uncounted {
        degraded.push(format!("cgroup: limits are rlimits and sampling, because {why}"));
    }
    if !overlay {
        degraded
            .push("overlay: directories of the host are bound read-only and their inodes are shared".into());
    }
    if spec.network == Network::Host {
        degraded.push("network: the sandbox uses the network of the host".into());
    }
    Layers {
        host_uid: identity.host_uid(),
        host_uid_unique: identity.two_ids(),
        cgroup: blank.cgroup.kind(),
        overlay,
        network: spec.network,
        degraded,
        seats: spec.seats.as_ref().map_or(0, |seats| seats.count),
    }
}
