//! The process that becomes PID 1, from the moment it is forked to the moment it serves the engine.

use super::Lines;
use super::gate::{Carried, Gate, Load};
use crate::cgroup::{METERS, MeterFds};
use crate::error::{At, JailError, Step};
use crate::identity;
use crate::mounts::{self, Root, Sources};
use crate::mutant::{Mutant, lacks};
use crate::spec::{CgroupKind, HostDirMode, InitSpec, JailSpec, MOST_SEATS, Network, Seats};
use crate::sys::{Forked, Tally};
use crate::{SingleThreaded, caps, fds, keyring, net_ns, sys};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use rustix::thread::CapabilitySet;
use std::fs::File;
use std::io::Write;
use std::time::Duration;

/// What PID 1 begins with.
#[derive(Debug)]
pub struct Landed {
    /// It has one thread.
    pub proof: SingleThreaded,
    /// What it has to know of its box.
    pub spec: InitSpec,
    /// The stream to the engine, and those of the program that shall wait.
    pub lines: Lines,
    /// Descriptors by which it follows its own box.
    pub meters: MeterFds,
    /// The door to the CPU rate, which programs go through and PID 1 does not, where there is one.
    pub rate_door: Option<OwnedFd>,
    /// What it is there for.
    pub post: Post,
}

/// What a process of ours is there for.
#[derive(Debug)]
pub enum Post {
    /// It is PID 1 of a box, and runs jobs.
    Alone,
    /// It is PID 1 of a box with seats. It runs nothing, and the box is over when a seat is.
    Hall,
    /// It is PID 1 of a seat, and runs jobs beside those of other seats.
    Seat(Tally),
}

/// What it inherits of the spawner; everything else is closed.
pub(super) struct Inherited {
    pub(super) gate: Gate,
    pub(super) report: OwnedFd,
}

pub(super) struct Climber {
    pub(super) proof: SingleThreaded,
    pub(super) two_ids: bool,
    pub(super) network: Network,
    /// Whether it has an environment that no program may see.
    pub(super) forgets: bool,
    /// How nice programs are.
    pub(super) nice: i32,
    /// Where it may run.
    pub(super) processors: Option<rustix::thread::CpuSet>,
    pub(super) init: fn(Landed) -> i32,
}

/// A box whose walls stand: its final specification, the lines to the engine, its meters, and whether its root
/// is overlays of its own.
struct Standing {
    spec: JailSpec,
    kind: CgroupKind,
    lines: Lines,
    meters: MeterFds,
    rate_door: Option<OwnedFd>,
    overlay: bool,
    post: Post,
}

impl Climber {
    pub(super) fn climb(self, inherited: Inherited) -> ! {
        let Inherited { gate, mut report } = inherited;
        let standing = match self.rungs(&gate, &mut report) {
            Ok(standing) => standing,
            Err(error) => {
                // Nobody is left to tell when this fails.
                let _ = File::from(report).write_all(&crate::job::encode(&error));
                sys::exit_now(1)
            }
        };
        let init = self.init;
        let copy = sys::duplicate_above(report.as_fd(), OUT_OF_THE_WAY);
        match self.land(report, standing) {
            Ok(landed) => sys::exit_now(init(landed)),
            Err(error) => {
                // Whichever descriptor it broke on, this one was not in the way.
                let _ = copy.map(|report| File::from(report).write_all(&crate::job::encode(&error)));
                sys::exit_now(1)
            }
        }
    }

    /// Everything up to the last descriptor. Who comes back to a report that is another is PID 1 of a seat.
    fn rungs(&self, gate: &Gate, report: &mut OwnedFd) -> Result<Standing, JailError> {
        if self.forgets && !lacks(Mutant::Environment) {
            sys::forget_environment(&self.proof);
        }
        rustix::process::setsid().at(Step::Namespaces, "setsid")?;
        if self.network == Network::None && !lacks(Mutant::NetworkNamespace) {
            // Not at the fork: it takes as long as all the rest of it, and the spawner need not wait for it.
            sys::own_network().at(Step::Namespaces, "network")?;
            net_ns::loopback()?;
        }
        // What no program shall ever have.
        caps::empty_bounding_set()?;
        sys::look_at_signals(&self.proof);
        // The first specification comes when the id maps are written, and the cgroup is made or left for later.
        let (draft, counted, fds) = gate.receive()?;
        sys::run_anywhere(&self.processors);
        let mut rate_door = if counted.is_some() { self.enter_cgroup(fds)? } else { None };
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

        let (spec, kind, fds) = gate.receive()?;
        let kind = kind.ok_or_else(|| JailError::new(Step::Cgroup, "nobody knows of one", Errno::INVAL))?;
        let (mut lines, mut meters, doors) = lines(fds)?;
        if counted.is_none() {
            rate_door = self.enter_cgroup(doors)?;
        }
        let added = spec.host_dirs.get(draft.host_dirs.len()..).unwrap_or_default();
        root.settle(&spec, added, identity::USER)?;
        let post = match &spec.seats {
            Some(seats) => self.take_seats(&spec, seats, &mut lines, report)?,
            None => Post::Alone,
        };
        let overlay = root.enter()?;
        meters.io = Some(self.become_unreadable()?);
        caps::lock_secure_bits()?;
        caps::only(self.capabilities(kind, &post))?;
        rustix::thread::set_no_new_privs(true).at(Step::NoNewPrivs, "prctl")?;
        rustix::process::umask(Mode::from_raw_mode(0o022));
        Ok(Standing { spec, kind, lines, meters, rate_door, overlay, post })
    }

    /// Makes the seats of the box: forks, each PID 1 of namespaces of its own, which climb on as we do. Comes back in
    /// each of them, and in PID 1 of the box when all of them stand.
    ///
    /// While everything may still be done, because neither a pid namespace nor its `/proc` can be made later.
    fn take_seats(
        &self,
        spec: &JailSpec,
        seats: &Seats,
        lines: &mut Lines,
        report: &mut OwnedFd,
    ) -> Result<Post, JailError> {
        let streams = std::mem::take(&mut lines.seats);
        if streams.len() != seats.count as usize || streams.len() > MOST_SEATS {
            return Err(JailError::new(Step::Descriptors, "not a stream for each seat", Errno::BADF));
        }
        let own_ipc = if lacks(Mutant::IpcNamespace) { 0 } else { libc::CLONE_NEWIPC };
        let flags = libc::CLONE_NEWPID | libc::CLONE_NEWNS | own_ipc;
        let tally = Tally::new(&self.proof).at(Step::Namespaces, "tally")?;
        let mut rising = Vec::new();
        for (index, stream) in streams.into_iter().enumerate() {
            let (news, told) = pipe_with(PipeFlags::CLOEXEC).at(Step::Namespaces, "report of a seat")?;
            match sys::fork_into(&self.proof, flags as u64, None).at(Step::Namespaces, "seat")? {
                Forked::Parent(..) => rising.push(news),
                Forked::Child(_) => {
                    (lines.control, *report) = (stream, told);
                    rustix::process::setsid().at(Step::Namespaces, "setsid")?;
                    if !lacks(Mutant::KillTree) {
                        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
                            .at(Step::Namespaces, "death signal")?;
                    }
                    mounts::take_seat(spec, seats, index, identity::USER)?;
                    return Ok(Post::Seat(tally.of(index)));
                }
            }
        }
        rising.iter().try_for_each(|news| super::hear(news).map(drop))?;
        Ok(Post::Hall)
    }

    /// What PID 1 keeps.
    fn capabilities(&self, kind: CgroupKind, post: &Post) -> CapabilitySet {
        let own = if self.two_ids { caps::OF_INIT } else { CapabilitySet::empty() };
        // It looks at processes itself, and sees those only that it could trace; no program may hide. Having
        // more than they have, it is also out of their sight, so without that wall this goes too.
        let looks = kind == CgroupKind::None || matches!(post, Post::Seat(_));
        if looks && !lacks(Mutant::Dumpable) { own.union(CapabilitySet::SYS_PTRACE) } else { own }
    }

    /// Enters the cgroup by its doors, where it was not born in it, and leaves what shall bind programs only once its
    /// view of cgroups begins there: theirs will.
    fn enter_cgroup(&self, carried: Load) -> Result<Option<OwnedFd>, JailError> {
        let enter = |door: &OwnedFd| rustix::io::write(door, b"0").at(Step::Cgroup, "enter").map(drop);
        let (mut rate_door, mut way_back) = (None, None);
        if carried.iter().any(|(what, _)| *what == Carried::WayBack) {
            // The kernel would remember how urgent it was (`job.rs`). It is made so again when it stands.
            let _ = sys::set_scheduling(None, 0, Duration::ZERO);
        }
        for (what, fd) in carried {
            match what {
                Carried::Door => enter(&fd)?,
                Carried::RateDoor => rate_door = Some(fd),
                Carried::WayBack => way_back = Some(fd),
                Carried::Meter(_) | Carried::Control | Carried::Stream | Carried::Seat => {}
            }
        }
        if !lacks(Mutant::CgroupNamespace) {
            sys::own_cgroup_view().at(Step::Namespaces, "cgroup")?;
        }
        if let Some(door) = way_back {
            enter(&door)?;
        }
        Ok(rate_door)
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
        let Standing { spec, kind, lines, meters, rate_door, overlay, post } = standing;
        let null = || {
            rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
                .at(Step::Descriptors, "/dev/null")
        };
        let (meters, waits) = (meters.into_list(), lines.program.is_some());
        let has = meters.each_ref().map(Option::is_some);
        let has_door = rate_door.is_some();
        let held = [report, lines.control].into_iter().chain(lines.program.into_iter().flatten());
        let held = held.chain(rate_door).chain(meters.into_iter().flatten()).collect();
        let mut held = fds::exactly(vec![null()?, null()?, null()?], held)?.into_iter();
        let mut next = || {
            held.next().ok_or_else(|| JailError::new(Step::Descriptors, "a descriptor got lost", Errno::BADF))
        };
        let mut report = File::from(next()?);
        let control = next()?;
        let program = if waits { Some([next()?, next()?, next()?]) } else { None };
        let rate_door = if has_door { Some(next()?) } else { None };
        let mut meters = [const { None }; METERS];
        for (meter, has) in meters.iter_mut().zip(has) {
            *meter = if has { Some(next()?) } else { None };
        }
        let ready = if overlay { READY } else { READY_WITHOUT_OVERLAY };
        report.write_all(&[ready]).at(Step::Descriptors, "report")?;
        let spec = InitSpec {
            user: identity::USER,
            two_ids: self.two_ids,
            limits: spec.limits,
            cgroup: kind,
            profile: spec.profile,
            nice: self.nice,
            readable: readable(&spec),
            writable: writable(&spec),
        };
        let lines = Lines { control, program, seats: Vec::new() };
        let meters = MeterFds::from_list(meters);
        Ok(Landed { proof: self.proof, spec, lines, meters, rate_door, post })
    }
}

/// The lines, the meters, and the doors among what was carried.
fn lines(carried: Load) -> Result<(Lines, MeterFds, Load), JailError> {
    let lost = |what| JailError::new(Step::Descriptors, what, Errno::BADF);
    let (mut control, mut streams, mut seats, mut doors) = (None, Vec::new(), Vec::new(), Vec::new());
    let mut meters: [Option<OwnedFd>; METERS] = Default::default();
    for (what, fd) in carried {
        match what {
            Carried::Control => control = Some(fd),
            Carried::Stream => streams.push(fd),
            Carried::Seat => seats.push(fd),
            Carried::Meter(place) => {
                if let Some(meter) = meters.get_mut(place) {
                    *meter = Some(fd);
                }
            }
            Carried::Door | Carried::RateDoor | Carried::WayBack => doors.push((what, fd)),
        }
    }
    let program = match streams.len() {
        0 => None,
        _ => Some(<[OwnedFd; 3]>::try_from(streams).map_err(|_| lost("not three streams"))?),
    };
    let lines = Lines { control: control.ok_or_else(|| lost("no control stream"))?, program, seats };
    Ok((lines, MeterFds::from_list(meters), doors))
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

/// More descriptors than PID 1 ever keeps.
const OUT_OF_THE_WAY: i32 = 64;

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
