//! The ladder into a box: one call per rung, in the order that makes it safe.
//!
//! The spawner's side ([`make`]) and the side of the process that becomes PID 1 (`climb`) meet at two pipes:
//! a gate, opened when the id maps are written and the cgroup is joined, and a report, which ends silently
//! when the executor has been started and else carries the rung that broke.
//!
//! All of it happens ahead of a request: nothing here depends on what will run. [`crate::job`] is the rest.

use crate::cgroup::{Cgroup, Layout, MeterFds, Mounted};
use crate::error::{At, JailError, Step};
use crate::identity::{self, Identity};
use crate::mounts::Sources;
use crate::spec::{BoxUsage, CgroupKind, InitSpec, JailSpec, Layer, Layers, Meters, Network};
use crate::sys::{self, Forked};
use crate::{SingleThreaded, caps, fds, keyring, mounts, net_ns};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use rustix::thread::CapabilitySet;
use std::ffi::CString;
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
    pub fn kill(&self) {
        // Fails only when it is dead already.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Ends it, waits until the kernel has no process of it any more, and frees what it held. Says what it
    /// had used in the end.
    pub fn destroy(self) -> Result<BoxUsage, JailError> {
        self.kill();
        while let Err(Errno::INTR) = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {}
        let usage = self.cgroup.usage();
        self.cgroup.remove()?;
        Ok(usage)
    }
}

/// What the spawner has at hand for every box.
#[derive(Debug)]
pub struct Workshop {
    proof: SingleThreaded,
    layout: Layout,
    executor: OwnedFd,
    serial: u64,
}

impl Workshop {
    /// Opens the workshop. `executor` is the program that becomes PID 1 of every box.
    pub fn open(proof: SingleThreaded, executor: OwnedFd) -> Result<Workshop, JailError> {
        if rustix::process::geteuid().is_root() {
            // Boxes may not change their groups, so they must not inherit any.
            rustix::thread::set_thread_groups(&[]).at(Step::Identity, "drop supplementary groups")?;
        }
        let layout = Layout::detect();
        crate::cgroup::sweep(&layout);
        Ok(Workshop { proof, layout, executor, serial: 0 })
    }

    /// Makes a box whose PID 1 talks on `control`.
    pub fn make(&mut self, spec: &JailSpec, control: OwnedFd) -> Result<JailBox, JailError> {
        self.serial += 1;
        let identity = Identity::reserve()?;
        let cgroup = self.cgroup(spec, &identity)?;
        let meters = match cgroup.meters() {
            Ok(meters) => meters,
            Err(error) => {
                cgroup.remove()?;
                return Err(error);
            }
        };
        match self.fork(spec, control, &identity, &cgroup, meters) {
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
        let forked =
            sys::fork_into(&self.proof, flags as u64, cgroup.clone_target()).at(Step::Namespaces, "clone3")?;
        let (pid, pidfd) = match forked {
            Forked::Parent(pid, pidfd) => (pid, pidfd),
            Forked::Child => {
                drop((gate_in, report_out));
                let climber = Climber {
                    spec,
                    two_ids: identity.two_ids(),
                    kind: cgroup.kind(),
                    executor: self.executor.as_fd(),
                };
                climber.climb(gate_out, report_in, control, meters)
            }
        };
        drop((gate_out, report_in, control, meters));
        let admitted = admit(pid, identity, cgroup, gate_in);
        let mut report = Vec::new();
        let read = std::fs::File::from(report_out).read_to_end(&mut report).at(Step::Namespaces, "report");
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
fn admit(pid: Pid, identity: &Identity, cgroup: &Cgroup, gate: OwnedFd) -> Result<(), JailError> {
    cgroup.attach(pid)?;
    // Should the host run out of memory, boxes go first. A plain user may not always say so.
    let _ = std::fs::write(format!("/proc/{}/oom_score_adj", pid.as_raw_nonzero()), "500");
    identity.write_maps(pid)?;
    std::fs::File::from(gate).write_all(b"!").at(Step::Namespaces, "gate")
}

/// An empty report means that the executor runs; one byte that it does without overlays.
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

fn layers(spec: &JailSpec, identity: &Identity, cgroup: CgroupKind, layout: &Layout, overlay: bool) -> Layers {
    let mut degraded = Vec::new();
    if !identity.two_ids() {
        degraded.push("shared-uid: sandboxes run as the calling user, because only root can map other ids".into());
    }
    if let (CgroupKind::None, Mounted::None(why)) = (cgroup, &layout.mounted) {
        degraded.push(format!("cgroup: limits are rlimits and sampling, because {why}"));
    }
    if !overlay {
        degraded.push("overlay: directories of the host are bound read-only and their inodes are shared".into());
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

/// The process that becomes PID 1.
struct Climber<'a> {
    spec: &'a JailSpec,
    two_ids: bool,
    kind: CgroupKind,
    executor: BorrowedFd<'a>,
}

impl Climber<'_> {
    fn climb(&self, gate: OwnedFd, report: OwnedFd, control: OwnedFd, meters: MeterFds) -> ! {
        let mut spare = std::fs::File::from(match report.try_clone() {
            Ok(fd) => fd,
            Err(_) => sys::exit_now(1),
        });
        let Err(error) = self.rungs(gate, report, control, meters);
        // Nobody is left to tell when this fails.
        let _ = spare.write_all(&crate::job::encode(&error));
        sys::exit_now(1)
    }

    fn rungs(
        &self,
        gate: OwnedFd,
        report: OwnedFd,
        control: OwnedFd,
        meters: MeterFds,
    ) -> Result<std::convert::Infallible, JailError> {
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
        if self.two_ids {
            caps::bound_to(caps::OF_INIT)?;
        } else {
            // PID 1 shares the user's uid and needs no capability; exec takes away the ones it has.
            caps::bound_to(CapabilitySet::SETPCAP)?;
            caps::lock_secure_bits()?;
            caps::bound_to(CapabilitySet::empty())?;
        }
        rustix::thread::set_no_new_privs(true).at(Step::NoNewPrivs, "prctl")?;
        rustix::process::umask(Mode::from_raw_mode(0o022));
        self.become_executor(report, control, meters, overlay)
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

    fn become_executor(
        &self,
        report: OwnedFd,
        control: OwnedFd,
        meters: MeterFds,
        overlay: bool,
    ) -> Result<std::convert::Infallible, JailError> {
        let null = || {
            rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
                .at(Step::Descriptors, "/dev/null")
        };
        let mut keep = vec![control, null()?, null()?];
        let mut place = |fd: Option<OwnedFd>| {
            fd.map(|fd| {
                keep.push(fd);
                keep.len() as i32 - 1
            })
        };
        let meters = Meters { kind: self.kind, oom: place(meters.oom), cpu: place(meters.cpu) };
        let init = InitSpec {
            user: identity::USER,
            two_ids: self.two_ids,
            limits: self.spec.limits,
            profile: self.spec.profile,
            meters,
            writable: self.writable(),
            network: self.spec.network,
        };
        let argv = [c"sandbox-init".to_owned(), crate::job::init_argument(&init)?];
        let executor = sys::duplicate_above(self.executor, 3).at(Step::Descriptors, "executor")?;
        let open = fds::exactly(keep, vec![executor, report])?;
        let [executor, report] = <[OwnedFd; 2]>::try_from(open)
            .map_err(|_| JailError::new(Step::Descriptors, "executor", Errno::BADF))?;
        let ready = if overlay { READY } else { READY_WITHOUT_OVERLAY };
        let mut report = std::fs::File::from(report);
        report.write_all(&[ready]).at(Step::Exec, "report")?;
        let env: [CString; 0] = [];
        let errno = sys::exec_fd(executor.as_fd(), &argv, &env);
        // The caller's copy of the report was closed with everything else.
        let _ = report.write_all(&crate::job::encode(&JailError::new(Step::Exec, "executor", errno)));
        sys::exit_now(1)
    }

    fn writable(&self) -> Vec<std::path::PathBuf> {
        let scratch = self.spec.scratch.iter().map(|dir| dir.target.clone());
        let changed = self.spec.host_dirs.iter().filter(|dir| dir.mode != crate::spec::HostDirMode::ReadOnly);
        scratch.chain(changed.map(|dir| dir.target.clone())).collect()
    }
}

fn wait_at(gate: OwnedFd) -> Result<(), JailError> {
    let mut byte = [0];
    std::fs::File::from(gate).read_exact(&mut byte).at(Step::Namespaces, "the spawner gave up")
}
