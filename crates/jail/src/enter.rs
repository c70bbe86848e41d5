//! The ladder into a box: one call per rung, in the order that makes it safe.
//!
//! Three steps, so that most of it can be done ahead of a request:
//!
//! 1. [`Workshop::begin`]: ids, cgroup and namespaces. Nothing is known yet of what the box shall be.
//! 2. [`Workshop::furnish`]: its file system, by a specification whose limits are not final.
//! 3. [`Workshop::finish`]: the final limits, the stream to the engine, and everything that is given up.
//!
//! The spawner's side is here; the side of the process that becomes PID 1 is in [`climb`]. They meet at a gate,
//! through which specifications go in, and a report, which says that the box stands or which rung broke.
//! PID 1 is a fork of the spawner and runs no other program: the spawner holds nothing but specifications,
//! and starting a program would cost more than all the rest. [`crate::job`] is what happens at a request.

mod climb;
mod gate;

pub use climb::Landed;

use crate::SingleThreaded;
use crate::cgroup::{Cgroup, Layout, Mounted};
use crate::error::{At, JailError, Step};
use crate::identity::Identity;
use crate::spec::{BoxUsage, CgroupKind, JailSpec, Layer, Layers, Network};
use crate::sys::{self, Forked};
use climb::{Climber, Inherited, understand};
use gate::Gate;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use std::fs::File;
use std::io::Read;

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
        // Fails only when it is dead already.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        self.cgroup.usage()
    }

    /// Waits until the kernel has no process of it any more, and frees what it held.
    ///
    /// Taking namespaces down can take the kernel some milliseconds; the descriptor of PID 1 becomes
    /// readable when it is done.
    pub fn bury(self) -> Result<(), JailError> {
        while let Err(Errno::INTR) = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {}
        self.cgroup.remove()
    }
}

/// A box in the making: its processes wait at the gate.
#[derive(Debug)]
pub struct Blank {
    pid: Pid,
    pidfd: OwnedFd,
    gate: Gate,
    report: File,
    cgroup: Cgroup,
    identity: Identity,
    network: Network,
    furnished: Option<JailSpec>,
}

impl Blank {
    /// Whether it can become what `spec` wants.
    pub fn suits(&self, spec: &JailSpec) -> bool {
        let Some(furnished) = &self.furnished else { return self.network == spec.network };
        // Limits, profile, name and further directories are settled at the end.
        let settled = JailSpec {
            id: spec.id.clone(),
            limits: spec.limits,
            profile: spec.profile,
            host_dirs: spec.host_dirs.clone(),
            ..furnished.clone()
        };
        settled == *spec && spec.host_dirs.starts_with(&furnished.host_dirs)
    }

    /// Ends it and frees what it held.
    pub fn discard(self) -> Result<(), JailError> {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        while let Err(Errno::INTR) = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {}
        self.cgroup.remove()
    }
}

/// What the spawner has at hand for every box.
#[derive(Debug)]
pub struct Workshop {
    proof: SingleThreaded,
    layout: Layout,
    serial: u64,
    init: fn(Landed) -> i32,
}

impl Workshop {
    /// Opens the workshop. PID 1 of every box calls `init` and ends with what it returns.
    pub fn open(proof: SingleThreaded, init: fn(Landed) -> i32) -> Workshop {
        Workshop { proof, layout: Layout::detect(), serial: 0, init }
    }

    /// Removes what spawners left behind that were killed.
    pub fn sweep(&self) {
        crate::cgroup::sweep(&self.layout);
    }

    /// Begins a box: everything that does not depend on what it shall be.
    pub fn begin(&mut self, network: Network) -> Result<Blank, JailError> {
        self.serial += 1;
        let identity = Identity::reserve()?;
        if identity.two_ids() {
            // Boxes may not change their groups, so they must not inherit any.
            rustix::thread::set_thread_groups(&[]).at(Step::Identity, "drop supplementary groups")?;
        }
        let cgroup = Cgroup::create(&self.layout, self.serial)?;
        match self.fork(network, &identity, &cgroup) {
            Ok((pid, pidfd, gate, report)) => {
                Ok(Blank { pid, pidfd, gate, report, cgroup, identity, network, furnished: None })
            }
            Err(error) => {
                cgroup.remove()?;
                Err(error)
            }
        }
    }

    /// Lets a box build its file system. Does not wait for it.
    pub fn furnish(&self, blank: &mut Blank, spec: &JailSpec) -> Result<(), JailError> {
        if let (Mounted::None(why), true) = (&self.layout.mounted, blank.identity.two_ids()) {
            // Root with no cgroup is a misconfigured host, not a plain user's fate.
            if !spec.allow_weaker.contains(&Layer::Cgroup) {
                return Err(JailError::new(Step::Cgroup, why.clone(), Errno::ACCESS));
            }
        }
        blank.furnished = Some(spec.clone());
        blank.gate.send(spec, None)
    }

    /// Makes a blank the box that `spec` wants, with a PID 1 that talks on `control`.
    pub fn finish(&self, mut blank: Blank, spec: &JailSpec, control: OwnedFd) -> Result<JailBox, JailError> {
        let overlay = match self.settle(&mut blank, spec, control) {
            Ok(overlay) => overlay,
            Err(error) => {
                blank.discard()?;
                return Err(error);
            }
        };
        let Blank { pid, pidfd, cgroup, identity, .. } = blank;
        let layers = layers(spec, &identity, cgroup.kind(), &self.layout, overlay);
        Ok(JailBox { pid, pidfd, layers, cgroup, identity })
    }

    fn settle(&self, blank: &mut Blank, spec: &JailSpec, control: OwnedFd) -> Result<bool, JailError> {
        if blank.furnished.is_none() {
            self.furnish(blank, spec)?;
        }
        blank.cgroup.limit(&spec.limits)?;
        let sent = blank.gate.send(spec, Some(control.as_fd()));
        drop(control);
        let mut report = Vec::new();
        blank.report.read_to_end(&mut report).at(Step::Namespaces, "report")?;
        // What the box says of its failure tells more than that nobody took the specification.
        understand(&report).and_then(|overlay| sent.map(|()| overlay))
    }

    fn fork(
        &self,
        network: Network,
        identity: &Identity,
        cgroup: &Cgroup,
    ) -> Result<(Pid, OwnedFd, Gate, File), JailError> {
        let (meters, doors) = (cgroup.meters()?, cgroup.doors()?);
        let (gate, theirs) = Gate::pair()?;
        let (report_out, report_in) = pipe_with(PipeFlags::CLOEXEC).at(Step::Namespaces, "report")?;
        let mut flags = libc::CLONE_NEWUSER
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS;
        if network == Network::None {
            flags |= libc::CLONE_NEWNET;
        }
        let forked = sys::fork_into(&self.proof, flags as u64, cgroup.clone_target())
            .at(Step::Namespaces, "clone3")?;
        let (pid, pidfd) = match forked {
            Forked::Parent(pid, pidfd) => (pid, pidfd),
            Forked::Child(proof) => {
                drop((gate, report_out));
                let climber =
                    Climber { proof, two_ids: identity.two_ids(), kind: cgroup.kind(), init: self.init };
                climber.climb(Inherited { gate: theirs, report: report_in, meters, doors })
            }
        };
        drop((theirs, report_in, meters, doors));
        // Should the host run out of memory, boxes go first. A plain user may not always say so.
        let _ = std::fs::write(format!("/proc/{}/oom_score_adj", pid.as_raw_nonzero()), "500");
        match identity.write_maps(pid) {
            Ok(()) => Ok((pid, pidfd, gate, File::from(report_out))),
            Err(error) => {
                let _ = pidfd_send_signal(&pidfd, Signal::KILL);
                let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
                Err(error)
            }
        }
    }
}

fn layers(
    spec: &JailSpec,
    identity: &Identity,
    cgroup: CgroupKind,
    layout: &Layout,
    overlay: bool,
) -> Layers {
    let mut degraded = Vec::new();
    if !identity.two_ids() {
        degraded.push(
            "shared-uid: sandboxes run as the calling user, because only root can map other ids".into(),
        );
    }
    if let (CgroupKind::None, Mounted::None(why)) = (cgroup, &layout.mounted) {
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
        cgroup,
        overlay,
        network: spec.network,
        degraded,
    }
}
