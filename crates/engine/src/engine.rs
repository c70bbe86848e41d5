//! The one door: a request in, events while it runs, one record out.

use crate::cache::{BuiltFile, Compiled, Prepared};
use crate::conversation::{self, Cargo, End, Heard};
use crate::execution::{ArtifactRecord, Execution, Failure, Metrics, Receipt, Status, judge, text};
use crate::isolator::native::Native;
use crate::isolator::process::Process;
use crate::isolator::{Isolator, Place, PlaceSpec};
use crate::limits::{Ceiling, Limits, Wanted};
use crate::runtime::plan::{self, Purpose};
use crate::runtime::{Catalogue, Found, Runtime, find};
use crate::{EngineError, Layer, Network, Profile};
use jail::beneath::PlainPath;
use jail::spec::{BoxUsage, HostDir, HostDirMode};
use protocol::{Collect, Job, JobResult, StepKind};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};

/// Most files of a program.
const MOST_FILES: usize = 10_000;
/// Most bytes of all files of a program.
const MOST_FILE_BYTES: u64 = 100 << 20;
/// Most bytes of arguments and environment; the kernel's own bound is higher.
const MOST_WORDS: usize = 1 << 20;

/// Something that happened while a program ran.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A toolchain is being prepared, once, which takes a while.
    Preparing {
        /// Language.
        language: String,
    },
    /// A step began.
    Started {
        /// What it is for.
        step: StepKind,
    },
    /// The program wrote.
    Stdout {
        /// Place in the order of all output.
        sequence: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// The program complained.
    Stderr {
        /// Place in the order of all output.
        sequence: u64,
        /// What.
        bytes: Vec<u8>,
    },
}

/// A file of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path in the workspace.
    pub path: String,
    /// Content.
    pub content: Vec<u8>,
    /// Whether it may be executed.
    pub executable: bool,
}

/// What shall be run, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// Name or alias of the language.
    pub language: String,
    /// The program; without a path it gets the language's usual one.
    pub main: SourceFile,
    /// Files beside it.
    pub files: Vec<SourceFile>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, beside the little every program gets.
    pub env: Vec<(String, String)>,
    /// Its input.
    pub stdin: Option<Vec<u8>>,
    /// Its limits, where they shall differ from the defaults.
    pub limits: Wanted,
    /// What it may reach.
    pub network: Network,
    /// System calls it may make.
    pub profile: Profile,
    /// Run it, or only check it.
    pub purpose: Purpose,
    /// Whether contents of new and changed files are wanted, not only their names.
    pub contents: bool,
    /// Run without any isolation. The name is the warning.
    pub unsafe_no_isolation: bool,
    /// Layers whose absence is accepted.
    pub allow_weaker: Vec<Layer>,
    /// Whose program it is: caches are never shared between owners.
    pub owner: String,
    /// Ends the run when notified.
    pub cancel: Arc<Notify>,
}

impl Request {
    /// A program with nothing special about it.
    pub fn new(language: &str, code: impl Into<Vec<u8>>) -> Request {
        Request {
            language: language.to_owned(),
            main: SourceFile { path: String::new(), content: code.into(), executable: false },
            files: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: None,
            limits: Wanted::default(),
            network: Network::None,
            profile: Profile::Default,
            purpose: Purpose::Run,
            contents: false,
            unsafe_no_isolation: false,
            allow_weaker: Vec::new(),
            owner: format!("uid-{}", rustix::process::getuid().as_raw()),
            cancel: Arc::new(Notify::new()),
        }
    }
}

/// The engine.
pub struct Engine {
    catalogue: Catalogue,
    ceiling: Ceiling,
    native: Native,
    process: Process,
}

impl Engine {
    /// An engine whose sandboxes run this executor, within this ceiling.
    pub fn new(executor: PathBuf, ceiling: Ceiling) -> Result<Engine, EngineError> {
        Ok(Engine {
            catalogue: Catalogue::load()?,
            ceiling,
            native: Native::new(executor.clone()),
            process: Process::new(executor),
        })
    }

    /// The languages.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Runs a program. What happens meanwhile goes to `events`; closing their receiver ends the run.
    pub async fn execute(&self, request: &Request, events: &mpsc::Sender<Event>) -> Result<Execution, EngineError> {
        let runtime = self.catalogue.by_name(&request.language)?;
        let limits = Limits::resolve(request.limits, runtime.limits(), &self.ceiling)?;
        let main = checked(request, runtime)?;
        let found = find::find(runtime)?;
        let host_dirs = match request.unsafe_no_isolation {
            false => self.host_dirs(request, runtime, &found, events).await?,
            true => Vec::new(),
        };
        let isolator: &dyn Isolator = if request.unsafe_no_isolation { &self.process } else { &self.native };
        let spec = PlaceSpec {
            id: uuid::Uuid::now_v7().simple().to_string(),
            limits,
            network: request.network,
            profile: request.profile,
            host_dirs,
            allow_weaker: request.allow_weaker.clone(),
        };
        let started_at = jiff::Timestamp::now();
        let place = isolator.create(&spec).await?;
        let run = Run { request, runtime, found: &found, limits, main };
        let held = run.hold(place, events).await;
        let usage = isolator.destroy(&spec.id).await;
        let (heard, receipt) = held?;
        run.record(&spec.id, heard, receipt, usage?, started_at)
    }

    /// What the language needs of the host beside what every sandbox sees.
    async fn host_dirs(
        &self,
        request: &Request,
        runtime: &Runtime,
        found: &Found<'_>,
        events: &mpsc::Sender<Event>,
    ) -> Result<Vec<HostDir>, EngineError> {
        let mut dirs = Vec::new();
        if let Some((source, target)) = &found.toolchain {
            dirs.push(HostDir { source: source.clone(), target: target.clone(), mode: HostDirMode::ReadOnly });
        }
        if let Some(prepare) = &found.variant.prepare {
            let source = self.prepared(request, runtime, found, &dirs, events).await?;
            let target = PathBuf::from(&prepare.mount);
            dirs.push(HostDir { source, target, mode: HostDirMode::CopyOnWrite });
        }
        Ok(dirs)
    }

    /// The prepared directory of a variant, made in a sandbox of its own if need be.
    async fn prepared(
        &self,
        request: &Request,
        runtime: &Runtime,
        found: &Found<'_>,
        dirs: &[HostDir],
        events: &mpsc::Sender<Event>,
    ) -> Result<PathBuf, EngineError> {
        let Some(prepare) = &found.variant.prepare else {
            return Err(EngineError::Broken("nothing to prepare".into()));
        };
        let words = format!("{} {:?} {:?}", found.fingerprint(), prepare.run, found.variant.env);
        let prepared = Prepared::of(&words)?;
        if let Some(ready) = prepared.ready() {
            return Ok(ready);
        }
        let _ = events.send(Event::Preparing { language: runtime.title.clone() }).await;
        let draft = match prepared.begin()? {
            Some(draft) => draft,
            None => return prepared.ready().ok_or_else(|| EngineError::Broken("it vanished".into())),
        };
        let writable =
            HostDir { source: draft.folder().into(), target: (&prepare.mount).into(), mode: HostDirMode::Writable };
        let wanted = Wanted {
            timeout_ms: Some(600_000.min(self.ceiling.0.timeout_ms)),
            memory_bytes: Some((2 << 30).min(self.ceiling.0.memory_bytes)),
            cpu_millis: Some(self.ceiling.0.cpu_millis),
            pids: Some(512.min(self.ceiling.0.pids)),
            ..Wanted::default()
        };
        let limits = Limits::resolve(wanted, runtime.limits(), &self.ceiling)?;
        let spec = PlaceSpec {
            id: uuid::Uuid::now_v7().simple().to_string(),
            limits,
            network: Network::None,
            profile: Profile::Default,
            host_dirs: dirs.iter().cloned().chain([writable]).collect(),
            allow_weaker: request.allow_weaker.clone(),
        };
        let outcome = self.prepare_in(&spec, runtime, found, request, events).await;
        match outcome {
            Ok(()) => draft.finish(),
            Err(error) => {
                draft.discard();
                Err(error)
            }
        }
    }

    async fn prepare_in(
        &self,
        spec: &PlaceSpec,
        runtime: &Runtime,
        found: &Found<'_>,
        request: &Request,
        events: &mpsc::Sender<Event>,
    ) -> Result<(), EngineError> {
        let place = self.native.create(spec).await?;
        let step = plan::prepare(runtime, found, &spec.limits, &place.places);
        let job = Job {
            files: Vec::new(),
            steps: step.into_iter().collect(),
            limits: spec.limits.of_job(),
            stdin: false,
            collect: Collect { artifacts: false, contents: false, build: false, most_files: 0, most_bytes: 0 },
        };
        let cargo = Cargo { files: Vec::new(), stdin: None };
        // What the toolchain says while it is prepared is not the program's output.
        let (quiet, mut nobody) = mpsc::channel(16);
        let talk = conversation::hold(place.stream, &job, cargo, &quiet, &request.cancel);
        tokio::pin!(talk);
        let heard = loop {
            tokio::select! {
                heard = &mut talk => break heard,
                Some(_) = nobody.recv() => {}
                () = events.closed() => request.cancel.notify_waiters(),
            }
        };
        let usage = self.native.destroy(&spec.id).await?;
        let failed = |why: String| EngineError::Broken(format!("{} could not be prepared: {why}", runtime.title));
        match heard.end {
            End::Finished(result) => match judge(&result, &usage, &spec.limits) {
                (Status::Success, _) => Ok(()),
                (_, why) => {
                    let said = String::from_utf8_lossy(&heard.stderr).trim().to_owned();
                    Err(failed(format!("{}: {said}", why.unwrap_or_default())))
                }
            },
            other => Err(failed(format!("{other:?}"))),
        }
    }
}

/// Checks what only the caller can get wrong. Returns the path of the main file.
fn checked(request: &Request, runtime: &Runtime) -> Result<String, EngineError> {
    let main = if request.main.path.is_empty() { &runtime.source } else { &request.main.path };
    let mut seen = std::collections::HashSet::new();
    let mut bytes = 0;
    let paths = std::iter::once(main).chain(request.files.iter().map(|file| &file.path));
    for path in paths {
        let plain = PlainPath::parse(path).map_err(|e| EngineError::invalid("file", format!("`{path}`: {e}")))?;
        if !seen.insert(plain.as_str().to_owned()) {
            return Err(EngineError::invalid("file", format!("`{path}` is there twice")));
        }
    }
    for file in request.files.iter().chain([&request.main]) {
        bytes += file.content.len() as u64;
    }
    if seen.len() > MOST_FILES {
        return Err(EngineError::invalid("file", format!("{} files are too many", seen.len()))
            .with_hint(format!("at most {MOST_FILES}")));
    }
    if bytes > MOST_FILE_BYTES {
        return Err(EngineError::invalid("file", "the files are too large together")
            .with_hint(format!("at most {}", crate::limits::show_bytes(MOST_FILE_BYTES))));
    }
    for (name, value) in &request.env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(EngineError::invalid("env", format!("`{name}` cannot be a variable"))
                .with_hint("a name is not empty and has no `=`; neither part has a NUL byte"));
        }
    }
    if request.args.iter().any(|arg| arg.contains('\0')) {
        return Err(EngineError::invalid("args", "an argument has a NUL byte in it"));
    }
    let words = request.args.iter().map(String::len).chain(request.env.iter().map(|(n, v)| n.len() + v.len() + 2));
    if words.sum::<usize>() > MOST_WORDS {
        return Err(EngineError::invalid("args", "arguments and environment are too long together")
            .with_hint(format!("at most {}; pass large data as a file or as input", crate::limits::show_bytes(MOST_WORDS as u64))));
    }
    Ok(PlainPath::parse(main).map_err(|e| EngineError::invalid("file", e.to_string()))?.as_str().to_owned())
}

/// One run in the making.
struct Run<'a> {
    request: &'a Request,
    runtime: &'a Runtime,
    found: &'a Found<'a>,
    limits: Limits,
    main: String,
}

impl Run<'_> {
    async fn hold(&self, place: Place, events: &mpsc::Sender<Event>) -> Result<(Heard, Receipt), EngineError> {
        let request = self.request;
        let names: Vec<String> = request.files.iter().map(|file| file.path.clone()).collect();
        let program = plan::Program { main: &self.main, files: &names, args: &request.args, env: &request.env };
        let mut steps =
            plan::steps(self.runtime, self.found, &program, request.purpose, &self.limits, &place.places)?;

        let compiled = self.compiled(&steps, request)?;
        let built = compiled.as_ref().and_then(Compiled::load);
        if built.is_some() {
            steps.retain(|step| step.kind != StepKind::Compile);
        }
        let built = built.unwrap_or_default();
        let main = SourceFile { path: self.main.clone(), ..request.main.clone() };
        let sources = std::iter::once(&main).chain(&request.files);
        let mut files: Vec<protocol::FileIn> = sources
            .clone()
            .map(|f| conversation::file_in(&f.path, protocol::Place::Workspace, &f.content, f.executable))
            .collect();
        files.extend(
            built.iter().map(|f| conversation::file_in(&f.path, protocol::Place::Build, &f.content, f.executable)),
        );
        let contents = sources.map(|f| f.content.as_slice()).chain(built.iter().map(|f| f.content.as_slice()));
        let collect_build = compiled.is_some() && built.is_empty();
        let job = Job {
            files,
            steps,
            limits: self.limits.of_job(),
            stdin: request.stdin.is_some(),
            collect: Collect {
                artifacts: request.purpose == Purpose::Run,
                contents: request.contents,
                build: collect_build,
                most_files: 1000,
                most_bytes: self.limits.disk_bytes,
            },
        };
        let cargo = Cargo { files: contents.collect(), stdin: request.stdin.as_deref() };
        let mut heard = conversation::hold(place.stream, &job, cargo, events, &request.cancel).await;
        if let (true, Some(compiled), End::Finished(result)) = (collect_build, &compiled, &heard.end) {
            keep(compiled, &self.found.variant.output, result, &mut heard.files);
        }
        let mut receipt = place.receipt;
        receipt.complete(heard.seccomp_sha256.clone(), heard.landlock_abi);
        Ok((heard, receipt))
    }

    /// Where the compiled program is kept, for languages that are compiled.
    fn compiled(&self, steps: &[protocol::Step], request: &Request) -> Result<Option<Compiled>, EngineError> {
        let Some(step) = steps.iter().find(|step| step.kind == StepKind::Compile) else { return Ok(None) };
        // Everything the compiler can see: itself, its command, its environment, every file.
        let words = format!("{} {:?} {:?}", self.found.fingerprint(), step.argv, step.env);
        let mut parts: Vec<&[u8]> = vec![words.as_bytes(), self.main.as_bytes(), &request.main.content];
        for file in &request.files {
            parts.extend([file.path.as_bytes(), &file.content]);
        }
        // A place that has no isolation has its own paths in the command, so it never shares with one that has.
        Compiled::of(&request.owner, parts).map(Some)
    }

    fn record(
        &self,
        id: &str,
        heard: Heard,
        isolation: Receipt,
        usage: BoxUsage,
        started_at: jiff::Timestamp,
    ) -> Result<Execution, EngineError> {
        let Heard { stdout, stderr, mut files, end, .. } = heard;
        let (result, (status, message)) = match end {
            End::Finished(result) => {
                let verdict = judge(&result, &usage, &self.limits);
                (Some(*result), verdict)
            }
            end => (None, without_result(end, &usage, &self.limits)),
        };
        let compiling = |result: &JobResult| {
            // A program that was compiled before begins with its run.
            result.step == 0 && !self.found.variant.compile.is_empty() && self.request.purpose == Purpose::Run
        };
        let (exit_code, signal) = match result.as_ref().map(|result| &result.ending) {
            Some(protocol::Ending::Exited { code }) => (Some(*code), None),
            Some(protocol::Ending::Signalled { signal }) => (None, Some(*signal)),
            Some(protocol::Ending::OutOfMemory) => (None, Some(9)),
            _ => (None, None),
        };
        let written = result.as_ref().map(|result| result.written).unwrap_or(protocol::Written {
            stdout: stdout.len() as u64,
            stderr: stderr.len() as u64,
        });
        let cut = (written.stdout > stdout.len() as u64, written.stderr > stderr.len() as u64);
        let (stdout, stdout_base64) = text(stdout, cut.0);
        let (stderr, stderr_base64) = text(stderr, cut.1);
        let step = if result.as_ref().is_some_and(compiling) { "compile" } else { "run" };
        Ok(Execution {
            execution_id: format!("exec_{id}"),
            status,
            exit_code,
            signal,
            stdout,
            stderr,
            stdout_base64,
            stderr_base64,
            stdout_truncated: cut.0,
            stderr_truncated: cut.1,
            return_value: None,
            metrics: metrics(result.as_ref(), &usage, written),
            artifacts: result.as_ref().map(|result| artifacts(result, &mut files)).unwrap_or_default(),
            artifacts_truncated: result.as_ref().is_some_and(|result| result.artifacts_truncated),
            isolation,
            error: message.map(|message| Failure { step, message }),
            language: self.runtime.name.clone(),
            started_at: started_at.to_string(),
            finished_at: jiff::Timestamp::now().to_string(),
        })
    }
}

/// What is known when no result came.
fn without_result(end: End, usage: &BoxUsage, limits: &Limits) -> (Status, Option<String>) {
    let (status, message) = match end {
        End::HungUp if usage.oom_kills > 0 => {
            (Status::OutOfMemory, format!("it used more memory than {}", crate::limits::show_bytes(limits.memory_bytes)))
        }
        End::HungUp => (Status::InfraError, "the executor ended unexpectedly".into()),
        End::Broken(reason) => (Status::InfraError, reason),
        End::Silent => (Status::TimedOut, "it did not end in time and its sandbox was destroyed".into()),
        End::Cancelled => (Status::Cancelled, "it was cancelled".into()),
        End::Finished(_) => (Status::InfraError, String::new()),
    };
    (status, Some(message))
}

/// The kernel's count of the box where there is one, else what the executor saw.
fn metrics(result: Option<&JobResult>, usage: &BoxUsage, written: protocol::Written) -> Metrics {
    let seen = result.map(|result| result.usage).unwrap_or_default();
    let millis = |micros: u64| micros as f64 / 1000.0;
    Metrics {
        duration_ms: millis(seen.wall_us),
        cpu_time_ms: millis(usage.cpu_micros.unwrap_or(seen.cpu_us)),
        memory_peak_bytes: usage
            .memory_peak_bytes
            .unwrap_or(seen.largest_rss_bytes.max(seen.sampled_memory_bytes.unwrap_or(0))),
        io_read_bytes: seen.read_bytes,
        io_write_bytes: seen.write_bytes,
        // PID 1 of the box is ours.
        processes_peak: usage.pids_peak.map(|peak| peak.saturating_sub(1)).or(seen.sampled_processes),
        stdout_bytes: written.stdout,
        stderr_bytes: written.stderr,
    }
}

fn artifacts(result: &JobResult, files: &mut std::collections::BTreeMap<u32, Vec<u8>>) -> Vec<ArtifactRecord> {
    let records = result.artifacts.iter().enumerate().filter_map(|(index, artifact)| {
        // The executor is close to user code: what it calls a path is checked again.
        let path = PlainPath::parse(&artifact.path).ok()?.as_str().to_owned();
        let mime = mime_guess::from_path(&path).first_or_octet_stream().to_string();
        let (size, sha256) = (artifact.size, artifact.sha256.clone());
        Some(ArtifactRecord { path, size, sha256, mime, content: files.remove(&(index as u32)) })
    });
    records.collect()
}

/// Keeps what the compile step made of the files the language says it makes.
fn keep(
    compiled: &Compiled,
    output: &[String],
    result: &JobResult,
    files: &mut std::collections::BTreeMap<u32, Vec<u8>>,
) {
    let wanted = |path: &str| output.iter().any(|name| path == name || path.starts_with(&format!("{name}/")));
    let mut built = Vec::new();
    for (index, artifact) in result.build.iter().enumerate() {
        let content = files.remove(&conversation::build_stream(index)).unwrap_or_default();
        let whole = content.len() as u64 == artifact.size && PlainPath::parse(&artifact.path).is_ok();
        if whole && wanted(&artifact.path) {
            built.push(BuiltFile { path: artifact.path.clone(), content, executable: artifact.executable });
        }
    }
    if !built.is_empty() {
        compiled.store(&built);
    }
}
