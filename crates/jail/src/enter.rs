//! The ladder into a box: one call per rung, in the order that makes it safe.
//!
//! The spawner's side ([`Workshop::make`]) and the side of the process that becomes PID 1 (`climb`) meet at two
//! pipes: a gate, opened when the id maps are written, and a report, which says that the box stands or which
//! rung broke. PID 1 is a fork of the spawner and runs no other program: the spawner holds nothing but
//! specifications of boxes, and starting a program would cost more than all the rest.
//!
//! All of it happens ahead of a request: nothing here depends on what will run. [`crate::job`] is the rest.

use crate::cgroup::{Cgroup, Layout, MeterFds, Mounted};
use crate::error::{At, JailError, Step};
use crate::identity::{self, Identity};
use crate::mounts::Sources;
use crate::spec::{BoxUsage, CgroupKind, InitSpec, JailSpec, Layer, Layers, Network};
use crate::sys::{self, Forked};
use crate::{SingleThreaded, caps, fds, keyring, mounts, net_ns};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use rustix::thread::CapabilitySet;
use std::fs::File;
use std::io::{Read, Write};

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

/// What the spawner has at hand for every box.
#[derive(Debug)]
pub struct Workshop {
    proof: SingleThreaded,
    layout: Layout,
    serial: u64,
    init: fn(Landed) -> i32,
}

/// What PID 1 begins with.
#[derive(Debug)]
pub struct Landed {
    /// What it has to know of its box.
    pub spec: InitSpec,
    /// The stream to the engine.
    pub control: OwnedFd,
    /// Descriptors by which it follows its own cgroup. They are read-only and never reach user code.
    pub meters: MeterFds,
}

impl Workshop {
    /// Opens the workshop. PID 1 of every box calls `init` and ends with what it returns.
    pub fn open(proof: SingleThreaded, init: fn(Landed) -> i32) -> Result<Workshop, JailError> {
        if rustix::process::geteuid().is_root() {
            // Boxes may not change their groups, so they must not inherit any.
            rustix::thread::set_thread_groups(&[]).at(Step::Identity, "drop supplementary groups")?;
        }
        let layout = Layout::detect();
        Ok(Workshop { proof, layout, serial: 0, init })
    }

    /// Removes what spawners left behind that were killed.
    pub fn sweep(&self) {
        crate::cgroup::sweep(&self.layout);
    }

    /// Makes a box whose PID 1 talks on `control`.
    pub fn make(&mut self, spec: &JailSpec, control: OwnedFd) -> Result<JailBox, JailError> {
        self.serial += 1;
        let identity = Identity::reserve()?;
        let cgroup = self.cgroup(spec, &identity)?;
        let made = cgroup
            .meters()
            .and_then(|meters| Ok((meters, cgroup.doors()?)))
            .and_then(|(meters, doors)| self.fork(spec, control, &identity, &cgroup, meters, doors));
        match made {
            Ok((pid, pidfd, overlay)) => {
                let layers = layers(spec, &identity, cgroup.kind(), &self.layout, overlay);
                Ok(JailBox { pid, pidfd, layers, cgroup, identity })
            }
            Err(error) => {
                cgroup.remove()?;
                Err(error)
            }
        }
    }

    fn cgroup(&self, spec: &JailSpec, identity: &Identity) -> Result<Cgroup, JailError> {
        if let (Mounted::None(why), true) = (&self.layout.mounted, identity.two_ids()) {
            // Root with no cgroup is a misconfigured host, not a plain user's fate.
            if !spec.allow_weaker.contains(&Layer::Cgroup) {
                return Err(JailError::new(Step::Cgroup, why.clone(), Errno::ACCESS));
            }
        }
        Cgroup::create(&self.layout, self.serial, &spec.limits)
    }

    fn fork(
        &self,
        spec: &JailSpec,
        control: OwnedFd,
        identity: &Identity,
        cgroup: &Cgroup,
        meters: MeterFds,
        doors: Vec<File>,
    ) -> Result<(Pid, OwnedFd, bool), JailError> {
        let (gate_out, gate_in) = pipe_with(PipeFlags::CLOEXEC).at(Step::Namespaces, "gate")?;
        let (report_out, report_in) = pipe_with(PipeFlags::CLOEXEC).at(Step::Namespaces, "report")?;
        let mut flags = libc::CLONE_NEWUSER
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS;
        if spec.network == Network::None {
            flags |= libc::CLONE_NEWNET;
        }
        let forked = sys::fork_into(&self.proof, flags as u64, cgroup.clone_target())
            .at(Step::Namespaces, "clone3")?;
        let (pid, pidfd) = match forked {
            Forked::Parent(pid, pidfd) => (pid, pidfd),
            Forked::Child => {
                drop((gate_in, report_out));
                let climber =
                    Climber { spec, two_ids: identity.two_ids(), kind: cgroup.kind(), init: self.init };
                climber.climb(Inherited { gate: gate_out, report: report_in, control, meters, doors })
            }
        };
        drop((gate_out, report_in, control, meters, doors));
        let admitted = admit(pid, identity, gate_in);
        let mut report = Vec::new();
        let read = File::from(report_out).read_to_end(&mut report).at(Step::Namespaces, "report");
        match admitted.and(read).and_then(|_| understand(&report)) {
            Ok(overlay) => Ok((pid, pidfd, overlay)),
            Err(error) => {
                let _ = pidfd_send_signal(&pidfd, Signal::KILL);
                let _ = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
                Err(error)
            }
        }
    }
}

/// The spawner's part while the new process waits at the gate.
fn admit(pid: Pid, identity: &Identity, gate: OwnedFd) -> Result<(), JailError> {
    // Should the host run out of memory, boxes go first. A plain user may not always say so.
    let _ = std::fs::write(format!("/proc/{}/oom_score_adj", pid.as_raw_nonzero()), "500");
    identity.write_maps(pid)?;
    File::from(gate).write_all(b"!").at(Step::Namespaces, "gate")
}

/// One byte says that the box stands, with or without overlays; more is the rung that broke.
fn understand(report: &[u8]) -> Result<bool, JailError> {
    match report {
        [] => Err(JailError::new(Step::Exec, "PID 1 died before it was ready", Errno::CHILD)),
        [READY] => Ok(true),
        [READY_WITHOUT_OVERLAY] => Ok(false),
        other => Err(crate::job::decode(other)),
    }
}

const READY: u8 = b'+';
const READY_WITHOUT_OVERLAY: u8 = b'-';

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

/// What the process that becomes PID 1 inherits.
struct Inherited {
    gate: OwnedFd,
    report: OwnedFd,
    control: OwnedFd,
    meters: MeterFds,
    doors: Vec<File>,
}

/// The process that becomes PID 1.
struct Climber<'a> {
    spec: &'a JailSpec,
    two_ids: bool,
    kind: CgroupKind,
    init: fn(Landed) -> i32,
}

impl Climber<'_> {
    fn climb(&self, inherited: Inherited) -> ! {
        let Inherited { gate, report, control, meters, doors } = inherited;
        let (overlay, io) = match self.rungs(gate, doors) {
            Ok(stands) => stands,
            Err(error) => {
                // Nobody is left to tell when this fails.
                let _ = File::from(report).write_all(&crate::job::encode(&error));
                sys::exit_now(1)
            }
        };
        match self.land(report, control, MeterFds { io: Some(io), ..meters }, overlay) {
            Ok(landed) => sys::exit_now((self.init)(landed)),
            Err(_) => sys::exit_now(1),
        }
    }

    /// Lets go of every descriptor of the spawner, and reports that the box stands.
    fn land(
        &self,
        report: OwnedFd,
        control: OwnedFd,
        meters: MeterFds,
        overlay: bool,
    ) -> Result<Landed, JailError> {
        let null = || {
            rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
                .at(Step::Descriptors, "/dev/null")
        };
        let has = [&meters.oom, &meters.cpu, &meters.io].map(Option::is_some);
        let held =
            [report, control].into_iter().chain(meters.oom).chain(meters.cpu).chain(meters.io).collect();
        let mut held = fds::exactly(vec![null()?, null()?, null()?], held)?.into_iter();
        let lost = || JailError::new(Step::Descriptors, "a descriptor got lost", Errno::BADF);
        let mut report = File::from(held.next().ok_or_else(lost)?);
        let control = held.next().ok_or_else(lost)?;
        let [oom, cpu, io] = has.map(|has| if has { held.next() } else { None });
        let ready = if overlay { READY } else { READY_WITHOUT_OVERLAY };
        report.write_all(&[ready]).at(Step::Descriptors, "report")?;
        let spec = InitSpec {
            user: identity::USER,
            two_ids: self.two_ids,
            limits: self.spec.limits,
            cgroup: self.kind,
            profile: self.spec.profile,
            writable: self.writable(),
        };
        Ok(Landed { spec, control, meters: MeterFds { oom, cpu, io } })
    }

    /// Everything up to the last descriptor. Says whether the root is overlays of the box's own, and hands
    /// over the one meter that only PID 1 itself can open.
    fn rungs(&self, gate: OwnedFd, doors: Vec<File>) -> Result<(bool, OwnedFd), JailError> {
        for mut door in doors {
            door.write_all(b"0").at(Step::Cgroup, "enter")?;
        }
        wait_at(gate)?;
        rustix::process::setsid().at(Step::Namespaces, "setsid")?;
        sys::own_cgroup_view().at(Step::Namespaces, "cgroup")?;
        let sources = Sources::open(self.spec)?;
        self.take_ids()?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .at(Step::Namespaces, "death signal")?;
        let overlay = mounts::build(self.spec, sources, identity::USER)?;
        rustix::system::sethostname(self.spec.hostname.as_bytes()).at(Step::Namespaces, "host name")?;
        if self.spec.network == Network::None {
            net_ns::loopback()?;
        }
        keyring::fresh()?;
        let io = self.become_unreadable()?;
        caps::bound_to(CapabilitySet::SETPCAP)?;
        caps::lock_secure_bits()?;
        caps::bound_to(CapabilitySet::empty())?;
        caps::only(if self.two_ids { caps::OF_INIT } else { CapabilitySet::empty() })?;
        rustix::thread::set_no_new_privs(true).at(Step::NoNewPrivs, "prctl")?;
        rustix::process::umask(Mode::from_raw_mode(0o022));
        Ok((overlay, io))
    }

    /// Nobody may look at PID 1, least of all user code that shares its uid. Neither may it look at itself
    /// from then on, so what it will want to know is opened before.
    fn become_unreadable(&self) -> Result<OwnedFd, JailError> {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let set = |how| set_dumpable_behavior(how).at(Step::Capabilities, "make PID 1 unreadable");
        set(DumpableBehavior::Dumpable)?;
        let io = rustix::fs::open("/proc/self/io", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        set(DumpableBehavior::NotDumpable)?;
        io.at(Step::Mounts, "/proc/self/io")
    }

    /// Until here the outside uid is still the spawner's, which only [`Sources::open`] needs.
    fn take_ids(&self) -> Result<(), JailError> {
        if !self.two_ids {
            return Ok(());
        }
        let (uid, gid) = (rustix::process::Uid::ROOT, rustix::process::Gid::ROOT);
        rustix::thread::set_thread_res_gid(gid, gid, gid).at(Step::Ids, "gid")?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).at(Step::Ids, "uid")
    }

    fn writable(&self) -> Vec<std::path::PathBuf> {
        let scratch = self.spec.scratch.iter().map(|dir| dir.target.clone());
        let changed = self.spec.host_dirs.iter().filter(|dir| dir.mode != crate::spec::HostDirMode::ReadOnly);
        scratch.chain(changed.map(|dir| dir.target.clone())).collect()
    }
}

fn wait_at(gate: OwnedFd) -> Result<(), JailError> {
    let mut byte = [0];
    File::from(gate).read_exact(&mut byte).at(Step::Namespaces, "the spawner gave up")
}
