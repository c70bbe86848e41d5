//! Watches one step: passes its streams on, and ends it when a limit is reached.
//!
//! One poll over everything that can happen; time-outs only for what will happen by the clock, so that an
//! idle program costs next to nothing.

use crate::control::Control;
use crate::crowd::{Crowd, Forecast, MANY, is_crowd};
use crate::ground::Ground;
use crate::job::{clear, reap};
use crate::meters::{Peak, Reading, Sample, Weight, make_nice, others_than, sample};
use crate::pipes::{Input, Output};
use crate::survey::{Answer, Survey};
use jail::JailError;
use jail::beneath::Tree;
use jail::job::{Program, Stage};
use jail::mutant::{Mutant, lacks};
use protocol::{Ending, FromExecutor, FromHost, Kind, RunLimits, Step, StepKind, Written};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitStatus};
use std::ffi::CString;
use std::time::{Duration, Instant};

/// CPU time for which a program has as much of the processors as anybody. Whoever begins after that is not kept waiting
/// by it, and whoever was kept waiting still has all of it.
const SHORT: Duration = Duration::from_millis(20);
/// When it is first looked what a program should weigh. Looks become rarer.
const WEIGHED_AFTER: Duration = Duration::from_millis(10);
/// But not rarer than this.
const WEIGHED_EVERY: Duration = Duration::from_secs(1);
/// How often processes are looked at where no cgroup counts them.
const SAMPLE_EVERY: Duration = Duration::from_millis(20);
/// How long one look may take.
const LOOK: Duration = Duration::from_millis(10);
/// The same when nothing is left to be watched.
const LAST_LOOK: Duration = Duration::from_millis(200);
/// How long somebody may see less than we do.
const BLIND: Duration = Duration::from_millis(200);
/// How long a paused job sleeps when nobody says anything.
const PAUSED: Duration = Duration::from_secs(3600);
/// Shortest time between two looks at the CPU meter.
const CPU_EVERY: Duration = Duration::from_millis(10);

pub(crate) struct Watch<'a, G: Ground> {
    ground: &'a G,
    limits: &'a RunLimits,
    signals: &'a OwnedFd,
    scratch: &'a Tree,
    before: Reading,
    deadline: Instant,
    /// Since when nothing goes on, while nothing does.
    paused: Option<Instant>,
    next_cpu: Instant,
    next_sample: Option<Instant>,
    /// When to see next what it should weigh, and how long to wait after that.
    next_weighing: Option<(Instant, Duration)>,
    peak: Peak,
    /// Processes at the last look.
    processes: u64,
    /// Who is asked what they have of their own, while that is not known.
    survey: Option<Survey>,
    /// Since when who asks has not seen what we see.
    blind: Option<Instant>,
    /// How many were made nice; whoever they start is so by birth.
    nice: u64,
    /// Where there are so many processes that they take turns.
    crowd: Option<Crowd>,
    /// How often one more was refused.
    refused: u64,
    forecast: Forecast,
    input: Input,
    written: Written,
    sequence: u64,
    buffer: Vec<u8>,
}

impl<'a, G: Ground> Watch<'a, G> {
    pub(crate) fn new(
        ground: &'a G,
        limits: &'a RunLimits,
        signals: &'a OwnedFd,
        scratch: &'a Tree,
        (began, before): (Instant, Reading),
    ) -> Self {
        ground.meters().weigh(Weight::Usual);
        Watch {
            ground,
            limits,
            signals,
            scratch,
            before,
            deadline: began + Duration::from_millis(limits.wall_ms),
            paused: None,
            next_cpu: began,
            next_sample: ground.meters().must_sample().then_some(began),
            next_weighing: ground.meters().has_weight().then_some((began + WEIGHED_AFTER, WEIGHED_AFTER)),
            peak: Peak::default(),
            processes: 0,
            survey: None,
            blind: None,
            nice: 0,
            crowd: None,
            refused: before.pids_refused,
            forecast: Forecast::default(),
            input: Input::default(),
            written: Written::default(),
            sequence: 0,
            buffer: Vec::new(),
        }
    }

    /// The most that was seen at once, where nobody else counts.
    pub(crate) fn sampled(&self) -> Option<Peak> {
        self.next_sample.map(|_| self.peak)
    }

    pub(crate) fn written(&self) -> Written {
        self.written
    }

    /// Runs one step to its end. What it reads follows as frames, if `stdin` says so.
    pub(crate) fn step(&mut self, control: &mut Control, index: usize, step: &Step, stdin: bool) -> Ending {
        self.buffer.reserve(64 << 10);
        let most = self.limits.output_bytes;
        let opened = Output::new(Kind::Stdout, most, self.written.stdout)
            .and_then(|out| Ok((out, Output::new(Kind::Stderr, most, self.written.stderr)?)))
            .and_then(|(out, err)| {
                let wants_input = stdin && step.kind == StepKind::Run;
                let stdin = if wants_input { self.input.connect()? } else { Input::none()? };
                Ok((out, err, stdin))
            });
        let started = opened
            .map_err(|errno| JailError::new(jail::Step::Descriptors, "pipes", errno))
            .and_then(|((out, stdout), (err, stderr), stdin)| {
                let program = program(step, self.limits.cpu_ms)?;
                Ok((out, err, self.ground.start(&program, [stdin, stdout, stderr])?))
            });
        let (mut out, mut err, running) = match started {
            Ok(started) => started,
            Err(error) => {
                clear(self.ground, self.signals);
                return Ending::StartFailed { error };
            }
        };
        control.tell(&FromExecutor::Started { step: index });
        let ending = self.follow(control, running, &mut out, &mut err);
        self.give_way(&ending);
        clear(self.ground, self.signals);
        self.ground.meters().nobody_is_left();
        self.drain(control, &mut out, &mut err);
        self.written = Written { stdout: out.written, stderr: err.written };
        ending
    }

    /// Follows the program that waited. What it writes goes to the engine by itself.
    pub(crate) fn adopt(&mut self, control: &mut Control, running: Pid, ended: Option<WaitStatus>) -> Ending {
        let ending = match ended {
            Some(status) => self.ending(status),
            None => {
                self.ground.dismiss_keeper();
                self.follow(control, running, &mut Output::none(), &mut Output::none())
            }
        };
        self.give_way(&ending);
        clear(self.ground, self.signals);
        crate::launcher::failure().map_or(ending, |error| Ending::StartFailed { error })
    }

    /// Follows a program until it ends or has to be ended.
    fn follow(&mut self, control: &mut Control, running: Pid, out: &mut Output, err: &mut Output) -> Ending {
        loop {
            // Some of what the engine says may have come along with the job.
            if self.hear(control) {
                return Ending::Cancelled;
            }
            let now = Instant::now();
            if let Some(ending) = self.by_the_clock(now) {
                return ending;
            }
            let news = self.wait_for_news(control, out, err, now);
            if news.output {
                for stream in [&mut *out, &mut *err] {
                    if let Some(frame) = stream.pump(&mut self.buffer, &mut self.sequence) {
                        control.send(&frame);
                    }
                }
                let most = self.limits.output_written_bytes;
                if out.written.max(err.written) > most && !lacks(Mutant::OutputLimit) {
                    return Ending::OutputLimit;
                }
            }
            if news.control {
                control.fill();
            }
            self.input.pump();
            if news.out_of_memory && self.ground.meters().ran_out(&self.before) {
                return Ending::OutOfMemory;
            }
            if news.refusal {
                self.weigh();
            }
            if news.child
                && let Some(status) = reap(self.ground, self.signals, Some(running))
            {
                return self.ending(status);
            }
        }
    }

    /// What had to be ended may leave the kernel a lot to clean up, at the cost of whoever left it.
    fn give_way(&self, ending: &Ending) {
        if !matches!(ending, Ending::Exited { .. }) {
            self.ground.meters().weigh(Weight::Hardly);
        }
    }

    /// What takes long gives way to what may be short, and what wants more processes than it may have to everybody.
    fn weigh(&mut self) {
        let meters = self.ground.meters();
        let used = meters.cpu_us().saturating_sub(self.before.cpu_us);
        let refused = meters.pids_refused();
        if refused > self.refused {
            self.refused = refused;
            meters.weigh(Weight::Leftovers);
            // Threads of a few processes are no crowd.
            if self.crowd.is_none() && others_than([self.ground.keeper(), None]).count() as u64 > MANY {
                self.crowd = Some(Crowd::halt(self.ground, Instant::now()));
            }
        } else if self.crowd.is_none() && Duration::from_micros(used) >= SHORT {
            meters.weigh(Weight::Eighth);
        }
    }

    /// Has a crowd do so, and lets it go when it is none any more. Where the kernel counts processes that is when few are left,
    /// or none was refused while everybody had a turn; elsewhere whoever looks decides.
    fn take_turns(&mut self, now: Instant) {
        let Some(crowd) = &mut self.crowd else { return };
        let before = crowd.rounds();
        if crowd.take_turns(self.ground, now) {
            self.survey = None;
        }
        let meters = self.ground.meters();
        if meters.must_sample() || crowd.rounds() == before {
            return;
        }
        let refused = std::mem::replace(&mut self.refused, meters.pids_refused());
        let over = crowd.is_small() || before > 0 && refused == self.refused;
        if let Some(crowd) = self.crowd.take_if(|_| over) {
            crowd.disperse(self.ground);
        }
    }

    /// What the clock decides: time, CPU time and, where they are sampled, memory and processes.
    fn by_the_clock(&mut self, now: Instant) -> Option<Ending> {
        if self.paused.is_some() {
            return None;
        }
        if now >= self.deadline && !lacks(Mutant::WallTime) {
            return Some(Ending::TimedOut);
        }
        if now >= self.next_cpu {
            let used = self.ground.meters().cpu_us().saturating_sub(self.before.cpu_us);
            let budget = self.limits.cpu_ms * 1000;
            if used >= budget && !lacks(Mutant::CpuTime) {
                return Some(Ending::CpuLimit);
            }
            // It cannot be used up faster than the rate allows.
            let rate = match self.next_sample {
                None => u64::from(self.ground.limits().cpu_millis.max(1000)),
                Some(_) => 1000 * std::thread::available_parallelism().map_or(1, usize::from) as u64,
            };
            self.next_cpu =
                now + Duration::from_micros(budget.saturating_sub(used) * 1000 / rate).max(CPU_EVERY);
        }
        if self.crowd.as_ref().is_some_and(|crowd| now >= crowd.until()) {
            self.take_turns(now);
        }
        if let Some((_, wait)) = self.next_weighing.filter(|(at, _)| now >= *at) {
            self.next_weighing = Some((now + wait, (wait * 2).min(WEIGHED_EVERY)));
            self.weigh();
        }
        if self.next_sample.is_some_and(|at| now >= at) {
            self.next_sample = Some(now + SAMPLE_EVERY);
            if self.look(LOOK) {
                return Some(Ending::OutOfMemory);
            }
        }
        None
    }

    fn wait_for_news(&self, control: &mut Control, out: &Output, err: &Output, now: Instant) -> News {
        let mut wake = match self.paused {
            Some(_) => now + PAUSED,
            None => self.deadline.min(self.next_cpu),
        };
        if lacks(Mutant::WallTime) || lacks(Mutant::CpuTime) {
            // What is past must not wake us for ever.
            wake = wake.max(now + CPU_EVERY);
        }
        let sample = self.next_sample.filter(|_| self.paused.is_none());
        let weighing = self.next_weighing.map(|(at, _)| at).filter(|_| self.paused.is_none());
        let turn = self.crowd.as_ref().map(Crowd::until).filter(|_| self.paused.is_none());
        for at in [sample, weighing, turn, out.wake(now), err.wake(now)].into_iter().flatten() {
            wake = wake.min(at);
        }
        let behind = control.is_behind();
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, !self.input.is_full());
        wanted.set(PollFlags::OUT, control.has_waiting());
        let mut fds =
            vec![PollFd::from_borrowed_fd(control.fd(), wanted), PollFd::new(self.signals, PollFlags::IN)];
        let oom_at = fds.len();
        if let Some((fd, flags)) = self.ground.meters().oom() {
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
        let refusals_at = fds.len();
        // Only news since it was first looked, and while nothing is done about it.
        let weighs = self.crowd.is_none() && self.next_weighing.is_some_and(|(_, wait)| wait > WEIGHED_AFTER);
        if let Some(fd) = self.ground.meters().refusals().filter(|_| weighs) {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::PRI));
        }
        let streams_at = fds.len();
        if !behind {
            fds.extend(
                [out, err]
                    .iter()
                    .filter_map(|s| s.fd(now))
                    .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
            );
        }
        let input_at = fds.len();
        if let Some(fd) = self.input.fd() {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::OUT));
        }
        let wait = wake.saturating_duration_since(now);
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        if poll(&mut fds, Some(&wait)).is_err() {
            return News::default();
        }
        let at = |index: usize| fds.get(index).map(PollFd::revents).unwrap_or(PollFlags::empty());
        let news = News {
            control: !(at(0) & !PollFlags::OUT).is_empty(),
            child: !at(1).is_empty(),
            out_of_memory: oom_at < refusals_at && !at(oom_at).is_empty(),
            refusal: refusals_at < streams_at && !at(refusals_at).is_empty(),
            output: (streams_at..input_at).any(|index| !at(index).is_empty()),
        };
        let flush = at(0).contains(PollFlags::OUT);
        drop(fds);
        if flush {
            control.flush();
        }
        news
    }

    /// Hears what the engine has said. Whether the job shall end.
    fn hear(&mut self, control: &mut Control) -> bool {
        while let Some(frame) = control.next() {
            match frame.kind {
                Kind::Stdin => self.input.push(frame.body),
                Kind::Control => match control.message(&frame) {
                    Some(FromHost::Cancel) => return true,
                    Some(FromHost::Pause) => {
                        // It would stop as well, and its time would not.
                        self.survey = None;
                        self.ground.signal_all(Signal::STOP);
                        self.paused.get_or_insert_with(Instant::now);
                    }
                    Some(FromHost::Resume) => {
                        // Neither its time nor what is due by it went on.
                        if let Some(since) = self.paused.take() {
                            self.deadline += since.elapsed();
                        }
                        match &mut self.crowd {
                            Some(crowd) => crowd.stays(Instant::now()),
                            None => self.ground.signal_all(Signal::CONT),
                        }
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        control.hung_up()
    }

    /// Looks at all processes. Whether they use more memory than they may.
    fn look(&mut self, wait: Duration) -> bool {
        let meters = self.ground.meters();
        // One look at the others: whoever of them ends meanwhile must not leave its blame to this one.
        let others = meters.used_by_others();
        let most = self.ground.limits().memory_bytes.saturating_sub(others.together);
        let keeper = self.ground.keeper();
        let surveyor = self.survey.as_ref().map(|survey| survey.surveyor);
        let mut halted = None;
        let seems = sample(self.scratch, [keeper, surveyor], || {
            if self.crowd.is_none() && halted.is_none() && self.forecast.is_bad() {
                halted = Some(Crowd::halt(self.ground, Instant::now()));
            }
        });
        self.processes = seems.processes;
        self.peak.processes = self.peak.processes.max(seems.processes);
        if seems.processes > MANY.max(2 * self.nice) {
            self.nice = seems.processes;
            make_nice([keeper, surveyor]);
        }
        if halted.is_some() {
            // Whoever is asking stands still as well.
            self.survey = None;
        }
        self.crowd =
            match (is_crowd(&seems, u64::from(self.ground.limits().pids)), self.crowd.take().or(halted)) {
                (true, None) => Some(Crowd::halt(self.ground, Instant::now())),
                (true, crowd) => crowd,
                (false, crowd) => {
                    if let Some(crowd) = crowd {
                        crowd.disperse(self.ground);
                    }
                    None
                }
            };
        let known = if seems.memory_bytes() > most {
            self.survey(seems, wait)
        } else {
            self.blind = None;
            Some(seems)
        };
        let Some(known) = known else { return false };
        self.survey = None;
        let own = meters.own(&known);
        self.peak.memory_bytes = self.peak.memory_bytes.max(own);
        // When all use too much together the largest of them ends.
        known.memory_bytes() > most && own >= others.most && !lacks(Mutant::Memory)
    }

    /// What processes have that seem to have this, as soon as that is known.
    fn survey(&mut self, seems: Sample, wait: Duration) -> Option<Sample> {
        if self.survey.is_none() {
            self.survey = Survey::begin(self.ground).ok();
        }
        match self.survey.as_ref().map_or(Answer::Never, |survey| survey.hear(wait)) {
            Answer::Bytes { own, seem } if seem >= seems.anonymous_bytes / 2 => {
                self.blind = None;
                Some(Sample { anonymous_bytes: own, ..seems })
            }
            // Those we saw may be gone meanwhile. When we see them again and again, it is we who are right.
            Answer::Bytes { .. } => {
                self.survey = None;
                let since = *self.blind.get_or_insert_with(Instant::now);
                (since.elapsed() > BLIND).then_some(seems)
            }
            Answer::NotYet => None,
            Answer::Never => Some(seems),
        }
    }

    /// What the kernel says of the program.
    fn ending(&mut self, status: WaitStatus) -> Ending {
        if self.ground.meters().ran_out(&self.before) {
            return Ending::OutOfMemory;
        }
        if self.next_sample.is_some() {
            // What it leaves behind may show what it failed of, and so may its own size: it cannot have become
            // much larger than the limit on its data.
            let over = self.look(LAST_LOOK);
            self.peak.processes = self.peak.processes.max(self.processes + 1);
            let most = self.ground.limits().memory_bytes;
            let largest = self.ground.meters().largest_rss_bytes();
            let large = largest > self.before.largest_rss_bytes && largest >= most / 10 * 9;
            if (over || large) && status.exit_status() != Some(0) {
                return Ending::OutOfMemory;
            }
        }
        let used = self.ground.meters().cpu_us().saturating_sub(self.before.cpu_us);
        if used >= self.limits.cpu_ms * 1000 && !lacks(Mutant::CpuTime) {
            return Ending::CpuLimit;
        }
        match (status.exit_status(), status.terminating_signal()) {
            _ if lacks(Mutant::ExitStatus) => Ending::Exited { code: 0 },
            (Some(code), _) => Ending::Exited { code },
            // Anybody can send it; the kernel does when one process has used all there is.
            (None, Some(signal)) if signal == Signal::XCPU.as_raw() && used >= self.limits.cpu_ms * 900 => {
                Ending::CpuLimit
            }
            (None, signal) => Ending::Signalled { signal: signal.unwrap_or(0) },
        }
    }

    /// Passes on what was written before everything ended. No writer is left, so it ends by itself.
    fn drain(&mut self, control: &mut Control, out: &mut Output, err: &mut Output) {
        for stream in [out, err] {
            while !stream.is_over() && stream.has_more() {
                if let Some(frame) = stream.pump(&mut self.buffer, &mut self.sequence) {
                    control.send(&frame);
                }
                control.drain();
            }
        }
    }
}

/// A step as the kernel wants it.
pub(crate) fn program(step: &Step, cpu_ms: u64) -> Result<Program, JailError> {
    Ok(Program {
        path: text(&step.program)?,
        argv: step.argv.iter().map(|arg| text(arg)).collect::<Result<_, _>>()?,
        env: step.env.iter().map(|var| text(var)).chain(inherited()).collect::<Result<_, _>>()?,
        stage: stage(&step.directory, cpu_ms)?,
    })
}

pub(crate) fn stage(directory: &str, cpu_ms: u64) -> Result<Stage, JailError> {
    Ok(Stage { directory: text(directory)?, cpu_seconds: Some(cpu_ms.div_ceil(1000).max(1)) })
}

fn text(text: &str) -> Result<CString, JailError> {
    CString::new(text)
        .map_err(|_| JailError::new(jail::Step::Exec, "a NUL byte in an argument", Errno::INVAL))
}

/// Variables of our own that a program gets beside those of its job: none.
fn inherited() -> impl Iterator<Item = Result<CString, JailError>> {
    let own = if lacks(Mutant::Environment) { Some(std::env::vars()) } else { None };
    own.into_iter()
        .flatten()
        .filter_map(|(name, value)| Some(Ok(CString::new(format!("{name}={value}")).ok()?)))
}

#[derive(Default)]
struct News {
    control: bool,
    child: bool,
    out_of_memory: bool,
    refusal: bool,
    output: bool,
}
