//! `sandboxd run`: a program from the command line into a sandbox, its output live on the terminal.

mod artifacts;
pub(crate) mod ending;
pub(crate) mod request;

use crate::args::{ModeArg, RunArgs};
use crate::{report, settings, show};
use anyhow::Result;
use engine::{Cancel, Engine, Event, Execution, PoolSettings, Request, Status};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// How long a reader may take to read what is left of a run that was cancelled.
const FAREWELL: Duration = Duration::from_millis(300);

/// An engine with a sandbox that was begun before anything else was done.
///
/// It gets ready while we read the command line, and inherits nothing of ours that is worth hiding. Where it
/// cannot be begun, or its executor is named by the environment, the engine makes one when it needs it, and says
/// what is wrong.
pub(crate) fn head_start() -> Option<Engine> {
    if std::env::var_os("SANDBOXD_EXECUTOR").is_some() {
        return None;
    }
    // Until somebody is there to act upon them, and to clean up.
    jail::sys::hold_endings(true);
    let begun = executor::begin_first(jail::SingleThreaded::prove()?);
    match (settings::engine(), begun) {
        (Ok(mut engine), Ok(begun)) => engine.adopt(begun).ok().map(|()| engine),
        (Ok(mut engine), Err(error)) => {
            engine.could_not_begin(error);
            Some(engine)
        }
        // Settings that cannot be read are told later.
        (Err(_), begun) => {
            let _ = begun.map(jail::enter::Blank::discard);
            None
        }
    }
}

pub(crate) fn run(args: RunArgs, engine: Option<Engine>) -> Result<ExitCode> {
    let mut engine = engine.map_or_else(settings::engine, Ok)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if args.warm {
        let _entered = runtime.enter();
        engine.keep_warm(PoolSettings { min: 0, max: 0, ..PoolSettings::default() });
    }
    let request = request::build(&args, engine.catalogue())?;
    let artifacts = args.artifacts.as_deref().map(artifacts::Folder::open).transpose()?;
    if args.unsafe_no_isolation && !args.quiet && !args.json {
        report::warn("NO ISOLATION: this program can do whatever you can");
    }
    let execution = runtime.block_on(execute(&engine, &request, &args))?;
    if let Some(folder) = artifacts {
        let saved = folder.save(&execution.artifacts)?;
        if !args.json && !args.quiet {
            let files = if saved == 1 { "file" } else { "files" };
            eprintln!("saved {saved} {files} to {}", folder.path().display());
        }
    }
    if args.json {
        show::print_json(&execution)?;
    } else {
        if execution.return_value_set {
            print_value(&execution)?;
        }
        if !args.quiet {
            epilogue(&execution, &args);
        }
    }
    let code = ending::exit_code(execution.status, execution.exit_code, execution.signal);
    // At once: there is nothing left to take down but memory, which the kernel does better.
    std::process::exit(i32::from(code))
}

async fn execute(engine: &Engine, request: &Request, args: &RunArgs) -> Result<Execution> {
    // Before anything is begun that an early signal would leave behind.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    jail::sys::hold_endings(false);
    let (events, mut happening) = mpsc::channel(64);
    let cancel = request.cancel.clone();
    let live = !args.json;
    let quiet = args.quiet;
    let printer = async move {
        let mut printer = Printer::new(quiet, cancel);
        while let Some(event) = happening.recv().await {
            if live {
                printer.show(event).await;
            }
        }
        printer.finish().await;
    };
    let cancel = request.cancel.clone();
    let work = async {
        let outcome = engine.execute(request, &events).await;
        drop(events);
        outcome
    };
    let interrupts = async {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            cancel.cancel();
        }
    };
    tokio::select! {
        (outcome, ()) = async { tokio::join!(work, printer) } => Ok(outcome?),
        () = interrupts => unreachable!("interrupts never end"),
    }
}

/// Passes events on to the terminal.
struct Printer {
    quiet: bool,
    bar: Option<indicatif::ProgressBar>,
    cancel: Cancel,
    /// A thread that writes, from the first output on: a reader who does not read must not keep us from hearing
    /// signals.
    writer: Option<(mpsc::Sender<Event>, oneshot::Receiver<()>)>,
    /// Whether nobody read what a cancelled run had written.
    given_up: bool,
}

impl Printer {
    fn new(quiet: bool, cancel: Cancel) -> Printer {
        Printer { quiet, bar: None, cancel, writer: None, given_up: false }
    }

    async fn show(&mut self, event: Event) {
        match event {
            Event::Preparing { language } if self.quiet => drop(language),
            Event::Preparing { language } => self.prepare(&language),
            Event::Started { .. } => self.clear(),
            _ if self.given_up => {}
            output => {
                let cancel = &self.cancel;
                let (writer, _) = self.writer.get_or_insert_with(|| start_writer(cancel.clone()));
                // Fails when nobody reads our output any more, which the writer has told already.
                self.given_up = unless_cancelled(cancel, writer.send(output)).await.is_none();
            }
        }
    }

    fn prepare(&mut self, language: &str) {
        let message = format!("preparing {language}, which is done once and takes a while");
        if std::io::stderr().is_terminal() {
            let bar = indicatif::ProgressBar::new_spinner().with_message(message);
            bar.enable_steady_tick(Duration::from_millis(100));
            self.bar = Some(bar);
        } else {
            eprintln!("{message}");
        }
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Waits until everything is written.
    async fn finish(mut self) {
        self.clear();
        if let Some((writer, done)) = self.writer.take() {
            drop(writer);
            if !self.given_up {
                unless_cancelled(&self.cancel, done).await;
            }
        }
    }
}

/// Waits for something, but once the run is cancelled only for a moment.
async fn unless_cancelled<T>(cancel: &Cancel, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = async {
            cancel.cancelled().await;
            tokio::time::sleep(FAREWELL).await;
        } => None,
    }
}

fn start_writer(cancel: Cancel) -> (mpsc::Sender<Event>, oneshot::Receiver<()>) {
    let (events, mut happening) = mpsc::channel(1);
    let (done, is_done) = oneshot::channel();
    std::thread::spawn(move || {
        while let Some(event) = happening.blocking_recv() {
            let read = match event {
                Event::Stdout { bytes, .. } => pass_on(std::io::stdout(), &bytes),
                Event::Stderr { bytes, .. } => pass_on(std::io::stderr(), &bytes),
                Event::Preparing { .. } | Event::Started { .. } => true,
            };
            if !read {
                // Nobody reads our output any more, so nobody wants the program's.
                cancel.cancel();
                break;
            }
        }
        let _ = done.send(());
    });
    (events, is_done)
}

fn pass_on(mut to: impl Write, bytes: &[u8]) -> bool {
    to.write_all(bytes).and_then(|()| to.flush()).is_ok()
}

/// The value, on a line of its own after what the program has printed.
fn print_value(execution: &Execution) -> std::io::Result<()> {
    if execution.stdout.is_unfinished() {
        show::print("")?;
    }
    show::print_json(&execution.return_value)
}

/// What is worth a line after the program's own output.
fn epilogue(execution: &Execution, args: &RunArgs) {
    // A program that says by its exit code that it failed has said enough; one that was run for a value has not.
    let said = execution.status == Status::Failed && args.mode == ModeArg::Script;
    let worth_it = execution.status != Status::Success && !said;
    if let (true, Some(error)) = (worth_it, &execution.error) {
        report::complain(&error.message, ending::hint(execution.status));
    }
    for (cut, name) in [(execution.stdout_truncated, "stdout"), (execution.stderr_truncated, "stderr")] {
        if cut {
            eprintln!("{name} was cut; `--output` keeps more of it");
        }
    }
    if args.metrics {
        eprintln!("{}", table(execution));
    }
}

fn table(execution: &Execution) -> comfy_table::Table {
    let (metrics, isolation) = (&execution.metrics, &execution.isolation);
    let mut table = show::table(&["RUN", ""]);
    let processes = metrics.processes_peak.map_or("-".into(), |n| n.to_string());
    let degraded =
        if isolation.degraded.is_empty() { "nothing".into() } else { isolation.degraded.join("\n") };
    let seccomp = isolation.seccomp_profile.as_deref().unwrap_or("none");
    for (name, value) in [
        ("status", format!("{:?}", execution.status)),
        ("wall time", show::millis(metrics.duration_ms)),
        ("cpu time", show::millis(metrics.cpu_time_ms)),
        ("memory peak", show::size(metrics.memory_peak_bytes)),
        ("processes peak", processes),
        (
            "storage read, written",
            format!("{}, {}", show::size(metrics.io_read_bytes), show::size(metrics.io_write_bytes)),
        ),
        ("files made", execution.artifacts.len().to_string()),
        ("isolation", format!("{}, grade {}", isolation.backend, isolation.grade)),
        (
            "layers",
            format!(
                "seccomp {seccomp}, landlock {}, cgroup {:?}, root {}",
                isolation.landlock_abi, isolation.cgroup, isolation.rootfs
            )
            .to_lowercase(),
        ),
        ("weaker than it could be", degraded),
    ] {
        table.add_row([name.to_owned(), value]);
    }
    table
}
