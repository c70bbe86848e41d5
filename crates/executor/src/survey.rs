//! How much memory processes have of their own, asked where an answer may be long in coming.
//!
//! To tell a process's own pages from those it shares with its forks, the kernel waits until nobody changes its address
//! space. The process can make that last: it only has to change it all the time, and to be given little of the
//! processors. Whoever watches it must not wait for it, so somebody else asks.

use crate::ground::{Ground, everybody_of};
use crate::meters::kib;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::File;
use std::time::{Duration, Instant};

/// How long an answer may take. Who hinders it for longer has what he seems to have.
const PATIENCE: Duration = Duration::from_secs(2);

/// A child of ours that asks.
pub(crate) struct Survey {
    pub(crate) surveyor: Pid,
    handle: OwnedFd,
    answer: OwnedFd,
    began: Instant,
}

/// What there is to know by now.
pub(crate) enum Answer {
    /// Bytes that all of them have, without files and shared memory, each page counted once; and what they seem to have,
    /// where each counts for everybody who has it.
    Bytes {
        own: u64,
        seem: u64,
    },
    NotYet,
    /// There will be none.
    Never,
}

impl Survey {
    /// Has everybody below this process asked.
    pub(crate) fn begin(ground: &impl Ground) -> Result<Survey, Errno> {
        let (answer, question) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A copy of PID 1 may not look at PID 1.
        let children = File::open("/proc/thread-self/children").map_err(|_| Errno::ACCESS)?;
        let Some(surveyor) = ground.copy()? else {
            let told = Survey::tell(ground.keeper(), vec![question, children.into()]);
            jail::sys::exit_now(i32::from(told.is_none()))
        };
        let handle = pidfd_open(surveyor, PidfdFlags::empty())?;
        Ok(Survey { surveyor, handle, answer, began: Instant::now() })
    }

    /// What the copy does.
    fn tell(keeper: Option<Pid>, fds: Vec<OwnedFd>) -> Option<()> {
        jail::fds::exactly(fds, Vec::new()).ok()?;
        let (question, children) = (jail::sys::inherited(0)?, jail::sys::inherited(1)?);
        let children = std::io::read_to_string(File::from(children)).ok()?;
        let ours = [keeper.map(number), Some(std::process::id())];
        let others = everybody_of(&children).into_iter().filter(|pid| !ours.contains(&Some(*pid)));
        let (own, seem) = others.map(bytes_of).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        let words: [[u8; 8]; 2] = [u64::to_ne_bytes(own), u64::to_ne_bytes(seem)];
        rustix::io::write(&question, words.as_flattened()).ok().map(drop)
    }

    /// Waits for the answer, but not longer than this.
    pub(crate) fn hear(&self, wait: Duration) -> Answer {
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut fds = [PollFd::new(&self.answer, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&wait));
        let mut words = [[0; 8]; 2];
        match rustix::io::read(&self.answer, words.as_flattened_mut()) {
            Ok(16) => {
                let [own, seem] = words.map(u64::from_ne_bytes);
                Answer::Bytes { own, seem }
            }
            Err(Errno::AGAIN | Errno::INTR) if self.began.elapsed() < PATIENCE => Answer::NotYet,
            _ => Answer::Never,
        }
    }
}

impl Drop for Survey {
    fn drop(&mut self) {
        // Fails only when it has ended already. Whoever waits for our children waits for it as well.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
    }
}

/// What a process has of its own, and what it seems to have.
fn bytes_of(pid: u32) -> (u64, u64) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
    let seems = read("status").map_or(0, |status| kib(&status, "RssAnon:"));
    // One that cannot be asked, or is gone meanwhile, has what it seems to have.
    let own = read("smaps_rollup").filter(|parts| parts.contains("Pss_Anon:"));
    (own.map_or(seems, |parts| kib(&parts, "Pss_Anon:")), seems)
}

/// A process, as the kernel writes it.
pub(crate) fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get() as u32
}
