//! The process that becomes PID 1, from the moment it is forked to the moment it serves the engine.

use super::gate::Gate;
use crate::cgroup::MeterFds;
use crate::error::{At, JailError, Step};
use crate::identity;
use crate::mounts::{Root, Sources};
use crate::mutant::{Mutant, lacks};
use crate::spec::{CgroupKind, HostDirMode, InitSpec, JailSpec, Network};
use crate::{SingleThreaded, caps, fds, keyring, net_ns, sys};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::thread::CapabilitySet;
use std::fs::File;
use std::io::Write;

/// What PID 1 begins with.
#[derive(Debug)]
pub struct Landed {
    /// It has one thread.
    pub proof: SingleThreaded,
    /// What it has to know of its box.
    pub spec: InitSpec,
    /// The stream to the engine.
    pub control: OwnedFd,
    /// Descriptors by which it follows its own box.
    pub meters: MeterFds,
}

/// What it inherits of the spawner; everything else is closed.
pub(super) struct Inherited {
    pub(super) gate: Gate,
    pub(super) report: OwnedFd,
}

pub(super) struct Climber {
    pub(super) proof: SingleThreaded,
    pub(super) two_ids: bool,
    pub(super) kind: CgroupKind,
    pub(super) network: Network,
    /// Where it may run.
    pub(super) processors: Option<rustix::thread::CpuSet>,
    pub(super) init: fn(Landed) -> i32,
}

/// A box whose walls stand: its final specification, the stream to the engine, its meters, and whether its root
/// is overlays of its own.
struct Standing {
    spec: JailSpec,
    control: OwnedFd,
    meters: MeterFds,
    overlay: bool,
}

impl Climber {
    pub(super) fn climb(self, inherited: Inherited) -> ! {
        let Inherited { gate, report } = inherited;
        let standing = match self.rungs(&gate) {
            Ok(standing) => standing,
            Err(error) => {
                // Nobody is left to tell when this fails.
                let _ = File::from(report).write_all(&crate::job::encode(&error));
                sys::exit_now(1)
            }
        };
        let init = self.init;
        let copy = report.try_clone();
        match self.land(report, standing) {
            Ok(landed) => sys::exit_now(init(landed)),
            Err(error) => {
                // Whichever descriptor it broke on, this one was not in the way.
                let _ = copy.map(|report| File::from(report).write_all(&crate::job::encode(&error)));
                sys::exit_now(1)
            }
        }
    }

    /// Everything up to the last descriptor.
    fn rungs(&self, gate: &Gate) -> Result<Standing, JailError> {
        if !lacks(Mutant::Environment) {
            sys::forget_environment(&self.proof);
        }
        rustix::process::setsid().at(Step::Namespaces, "setsid")?;
        if self.network == Network::None && !lacks(Mutant::NetworkNamespace) {
            // Not at the fork: it takes as long as all the rest of it, and the spawner need not wait for it.
            sys::own_network().at(Step::Namespaces, "network")?;
            net_ns::loopback()?;
        }
        // The first specification comes when the id maps are written and the cgroup is made.
        let (draft, fds) = gate.receive()?;
        sys::run_anywhere(&self.processors);
        let mut meters = self.enter_cgroup(fds)?;
        let sources = Sources::open(&draft, &draft.host_dirs)?;
        self.take_ids()?;
        if !lacks(Mutant::KillTree) {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
                .at(Step::Namespaces, "death signal")?;
        }
        if !lacks(Mutant::UtsNamespace) {
            rustix::system::sethostname(draft.hostname.as_bytes()).at(Step::Namespaces, "host name")?;
            rustix::system::setdomainname(b"(none)").at(Step::Namespaces, "domain name")?;
        }
        keyring::fresh()?;
        let mut root = Root::build(&draft, sources, identity::USER)?;

        let (spec, mut fds) = gate.receive()?;
        let control =
            fds.next().ok_or_else(|| JailError::new(Step::Descriptors, "no control stream", Errno::BADF))?;
        let added = spec.host_dirs.get(draft.host_dirs.len()..).unwrap_or_default();
        root.settle(&spec, added, identity::USER)?;
        let overlay = root.enter()?;
        meters.io = Some(self.become_unreadable()?);
        caps::lock_secure_bits()?;
        caps::empty_bounding_set()?;
        caps::only(self.capabilities())?;
        rustix::thread::set_no_new_privs(true).at(Step::NoNewPrivs, "prctl")?;
        rustix::process::umask(Mode::from_raw_mode(0o022));
        Ok(Standing { spec, control, meters, overlay })
    }

    /// What PID 1 keeps.
    fn capabilities(&self) -> CapabilitySet {
        let own = if self.two_ids { caps::OF_INIT } else { CapabilitySet::empty() };
        match self.kind {
            // It looks at processes itself, and sees those only that it could trace; no program may hide. Having
            // more than they have, it is also out of their sight, so without that wall this goes too.
            CgroupKind::None if !lacks(Mutant::Dumpable) => own.union(CapabilitySet::SYS_PTRACE),
            CgroupKind::None | CgroupKind::V1 | CgroupKind::V2 => own,
        }
    }

    /// Enters the cgroup by its doors, where it was not born in it. Meters come first, and there are two of them
    /// wherever there is a cgroup.
    fn enter_cgroup(&self, mut fds: impl Iterator<Item = OwnedFd>) -> Result<MeterFds, JailError> {
        let mut meters = MeterFds::default();
        if self.kind != CgroupKind::None {
            meters.oom = fds.next();
            meters.cpu = fds.next();
        }
        if self.kind == CgroupKind::V1 {
            meters.rate_door = fds.next();
        }
        for door in fds {
            rustix::io::write(&door, b"0").at(Step::Cgroup, "enter")?;
        }
        if !lacks(Mutant::CgroupNamespace) {
            sys::own_cgroup_view().at(Step::Namespaces, "cgroup")?;
        }
        Ok(meters)
    }

    /// Nobody may look at PID 1, least of all user code that shares its uid. Neither may it look at itself
    /// from then on, so what it will want to know is opened before.
    fn become_unreadable(&self) -> Result<OwnedFd, JailError> {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let set = |how| set_dumpable_behavior(how).at(Step::Capabilities, "make PID 1 unreadable");
        set(DumpableBehavior::Dumpable)?;
        let io = rustix::fs::open("/proc/self/io", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        if !lacks(Mutant::Dumpable) {
            set(DumpableBehavior::NotDumpable)?;
        }
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

    /// Lets go of every descriptor of the spawner, and reports that the box stands.
    fn land(self, report: OwnedFd, standing: Standing) -> Result<Landed, JailError> {
        let Standing { spec, control, meters, overlay } = standing;
        let null = || {
            rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
                .at(Step::Descriptors, "/dev/null")
        };
        let has =
            [meters.io.is_some(), meters.oom.is_some(), meters.cpu.is_some(), meters.rate_door.is_some()];
        let meters = [meters.io, meters.oom, meters.cpu, meters.rate_door].into_iter().flatten();
        let held = [report, control].into_iter().chain(meters).collect();
        let mut held = fds::exactly(vec![null()?, null()?, null()?], held)?.into_iter();
        let lost = || JailError::new(Step::Descriptors, "a descriptor got lost", Errno::BADF);
        let mut report = File::from(held.next().ok_or_else(lost)?);
        let control = held.next().ok_or_else(lost)?;
        let [io, oom, cpu, rate_door] = has.map(|has| if has { held.next() } else { None });
        let ready = if overlay { READY } else { READY_WITHOUT_OVERLAY };
        report.write_all(&[ready]).at(Step::Descriptors, "report")?;
        let spec = InitSpec {
            user: identity::USER,
            two_ids: self.two_ids,
            limits: spec.limits,
            cgroup: self.kind,
            profile: spec.profile,
            readable: readable(&spec),
            writable: writable(&spec),
        };
        Ok(Landed { proof: self.proof, spec, control, meters: MeterFds { oom, cpu, rate_door, io } })
    }
}

/// What the box is meant to read: directories of the host, and those of its own that its root has.
fn readable(spec: &JailSpec) -> Vec<std::path::PathBuf> {
    let own = ["/etc", "/dev", "/proc", "/var"].map(std::path::PathBuf::from);
    own.into_iter().chain(spec.host_dirs.iter().map(|dir| dir.target.clone())).collect()
}

fn writable(spec: &JailSpec) -> Vec<std::path::PathBuf> {
    let scratch = spec.scratch.iter().map(|dir| dir.target.clone());
    let changed = spec.host_dirs.iter().filter(|dir| dir.mode != HostDirMode::ReadOnly);
    scratch.chain(changed.map(|dir| dir.target.clone())).collect()
}

const READY: u8 = b'+';
const READY_WITHOUT_OVERLAY: u8 = b'-';

/// One byte says that the box stands, with or without overlays; more is the rung that broke.
pub(super) fn understand(report: &[u8]) -> Result<bool, JailError> {
    match report {
        [] => Err(JailError::new(Step::Namespaces, "PID 1 died before it was ready", Errno::CHILD)),
        [READY] => Ok(true),
        [READY_WITHOUT_OVERLAY] => Ok(false),
        other => Err(crate::job::decode(other)),
    }
}
