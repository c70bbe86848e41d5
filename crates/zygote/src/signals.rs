//! How a Python that has just started reacts to signals.
//!
//! The way from the zygote to a child resets every signal, as it is right before executing a program. A bare
//! Python would then install its own reactions; here they are remembered and put back.

/// Handler, flags, restorer and mask of one signal, as the kernel knows them.
type Action = [u64; 4];
const LAST: usize = 64;

/// The reaction to every signal, and which signals wait.
pub(crate) struct Signals {
    actions: [Action; LAST],
    waiting: u64,
}

impl Signals {
    /// As they are now.
    pub(crate) fn remember() -> Signals {
        let mut signals = Signals { actions: [[0; 4]; LAST], waiting: 0 };
        for (index, action) in signals.actions.iter_mut().enumerate() {
            act(index + 1, std::ptr::null(), action);
        }
        mask(std::ptr::null(), &mut signals.waiting);
        signals
    }

    /// Makes them so again.
    pub(crate) fn restore(&self) {
        for (index, action) in self.actions.iter().enumerate() {
            // What does nothing special needs no call: the way here has reset it.
            if *action != [0; 4] {
                act(index + 1, action, std::ptr::null_mut());
            }
        }
        mask(&self.waiting, std::ptr::null_mut());
    }
}

/// By the bare call, because libc keeps two numbers to itself.
fn act(signal: usize, new: *const Action, old: *mut Action) {
    // SAFETY: each pointer is null or points at one action, which is as large as the kernel's. Handlers that are
    // put back are functions of this process. Numbers that allow no action answer EINVAL and change nothing.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, old, size_of::<u64>()) };
}

fn mask(new: *const u64, old: *mut u64) {
    // SAFETY: each pointer is null or points at a set of 64 signals, whose size is given.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, new, old, size_of::<u64>()) };
}
