//! One run: what the executor is told, and what is made of what it answers.

use super::hall::Names;
use super::{Request, SourceFile};
use crate::EngineError;
use crate::cache::{BuiltFile, Compiled};
use crate::call::{self, Judged, Mode};
use crate::conversation::{self, End, Heard};
use crate::execution::{ArtifactRecord, Execution, Failure, Metrics, Receipt, Start, Status, judge};
use crate::limits::Limits;
use crate::output::text;
use crate::runtime::plan::{self, Purpose};
use crate::runtime::{Found, Host, Runtime};
use crate::warm::{Placed, Task, fits};
use jail::beneath::PlainPath;
use jail::spec::BoxUsage;
use protocol::{BUILD_STREAM, Collect, FileIn, Job, JobResult, Place, Step, StepKind};
use std::collections::BTreeMap;

/// One run in the making.
pub(super) struct Run<'a> {
    pub(super) request: &'a Request,
    pub(super) runtime: &'a Runtime,
    pub(super) limits: Limits,
    pub(super) main: String,
    /// Whether the workspace has a life before and after it: its main file goes away with it, and nothing that lies there
    /// is known here.
    pub(super) visits: bool,
    /// Names of main files of others that run beside it.
    pub(super) names: Option<&'a Names>,
}

impl Run<'_> {
    /// Everything that shall be done.
    pub(super) fn order(&self, found: &Found<'_>, places: &plan::Places) -> Result<JobOrder, EngineError> {
        let request = self.request;
        let names: Vec<String> = request.files.iter().map(|file| file.path.clone()).collect();
        let host = self.host(found)?;
        let program =
            plan::Program { main: &self.main, files: &names, args: &request.args, env: &request.env, host };
        let mut steps = plan::steps(self.runtime, found, &program, request.purpose, &self.limits, places)?;

        let compiled = if self.visits { None } else { self.compiled(found, &steps)? };
        let built = compiled.as_ref().and_then(Compiled::load);
        if built.is_some() {
            steps.retain(|step| step.kind != StepKind::Compile);
        }
        let mut built = built.unwrap_or_default();
        let collect = self.collect(compiled.is_some() && built.is_empty());
        if let Some(host) = host {
            built.extend(call::files(&request.mode, host, &self.limits)?);
        }
        let file_in = |file: &Placed<'_>| FileIn {
            path: file.path.to_owned(),
            place: file.place,
            size: file.content.len() as u64,
            executable: file.executable,
            temporary: self.visits && request.main.path.is_empty() && file.path == self.main,
        };
        let job = Job {
            files: self.files(&built).iter().map(file_in).collect(),
            steps,
            limits: self.limits.of_job(),
            stdin: request.stdin.is_some(),
            collect,
        };
        Ok(JobOrder { job, built, compiled })
    }

    /// What runs it for its value, if that is wanted and this variant can.
    fn host<'v>(&self, found: &Found<'v>) -> Result<Option<&'v Host>, EngineError> {
        if !self.wants_value() {
            return Ok(None);
        }
        let mode = &self.request.mode;
        mode.host(found.variant).map(Some).ok_or_else(|| EngineError::Unavailable {
            what: format!("{} as it is installed here has no mode `{}`", self.runtime.title, mode.name()),
            hint: Some(self.runtime.install.clone()),
        })
    }

    fn wants_value(&self) -> bool {
        self.request.mode != Mode::Script && self.request.purpose == Purpose::Run
    }

    /// The main file, the others, and what was compiled before or is ours.
    fn files<'f>(&'f self, built: &'f [BuiltFile]) -> Vec<Placed<'f>> {
        let main = Placed { path: &self.main, ..Placed::of(&self.request.main) };
        let built = built.iter().map(|file| Placed {
            place: Place::Build,
            path: &file.path,
            content: &file.content,
            executable: file.executable,
        });
        std::iter::once(main).chain(self.request.files.iter().map(Placed::of)).chain(built).collect()
    }

    /// Everything the executor has to hear.
    pub(super) fn words(&self, order: &JobOrder) -> Result<Vec<u8>, EngineError> {
        let files = self.files(&order.built);
        let contents: Vec<&[u8]> = files.iter().map(|file| file.content).collect();
        conversation::words(&order.job, &contents, self.request.stdin.as_ref())
    }

    /// What an interpreter that waits has to hear.
    pub(super) fn task(&self) -> Task<'_> {
        let request = self.request;
        let args: Vec<&str> = std::iter::once(&self.main).chain(&request.args).map(String::as_str).collect();
        let env = request.env.iter().map(|(name, value)| format!("{name}={value}"));
        Task {
            files: self.files(&[]),
            header: protocol::header(args.into_iter(), env),
            stdin: request.stdin.as_ref(),
            limits: self.limits.of_job(),
            collect: self.collect(false),
        }
    }

    /// What somebody has to hear who waits to become any program, if this is just one.
    pub(super) fn launch<'t>(&'t self, order: &'t JobOrder) -> Option<Task<'t>> {
        let [step] = order.job.steps.as_slice() else { return None };
        let args: Vec<&str> =
            [&step.directory, &step.program].into_iter().chain(&step.argv).map(String::as_str).collect();
        let header = protocol::header(args.into_iter(), step.env.iter());
        let fits = step.kind == StepKind::Run && fits(order.job.files.len(), header.len());
        fits.then(|| Task {
            files: self.files(&order.built),
            header,
            stdin: self.request.stdin.as_ref(),
            limits: order.job.limits,
            collect: order.job.collect,
        })
    }

    fn collect(&self, build: bool) -> Collect {
        Collect {
            artifacts: self.request.purpose == Purpose::Run,
            contents: self.request.contents,
            build,
            most_files: 1000,
            most_bytes: self.limits.disk_bytes,
            most_value_bytes: self.wants_value().then_some(call::MOST_LEFT),
        }
    }

    /// Where the compiled program is kept, for languages that are compiled.
    fn compiled(&self, found: &Found<'_>, steps: &[protocol::Step]) -> Result<Option<Compiled>, EngineError> {
        let request = self.request;
        let Some(step) = steps.iter().find(|step| step.kind == StepKind::Compile) else { return Ok(None) };
        // Everything the compiler can see: itself, its command, its environment, every file.
        let words = format!("{} {:?} {:?}", found.fingerprint(), step.argv, step.env);
        let mut parts: Vec<&[u8]> = vec![words.as_bytes(), self.main.as_bytes(), &request.main.content];
        for file in &request.files {
            parts.extend([file.path.as_bytes(), &file.content]);
        }
        // A place that has no isolation has its own paths in the command, so it never shares with one that has.
        Compiled::of(&request.owner, parts).map(Some)
    }

    /// The one record, from everything that is known.
    pub(super) fn record(
        &self,
        id: &str,
        steps: &[Step],
        heard: Heard,
        isolation: Receipt,
        usage: BoxUsage,
        (start, started_at): (Start, jiff::Timestamp),
    ) -> Execution {
        let Heard { stdout, stderr, mut files, value, end, .. } = heard;
        let (result, (mut status, mut message)) = match end {
            End::Finished(result) => {
                let verdict = judge(&result, &usage, &self.limits);
                (Some(*result), verdict)
            }
            end => (None, without_result(end, &usage, &self.limits)),
        };
        let (mut exit_code, signal) = match result.as_ref().map(|result| &result.ending) {
            Some(protocol::Ending::Exited { code }) => (Some(*code), None),
            Some(protocol::Ending::Signalled { signal }) => (None, Some(*signal)),
            Some(protocol::Ending::OutOfMemory) => (None, Some(9)),
            None if status == Status::OutOfMemory => (None, Some(9)),
            _ => (None, None),
        };
        let mut return_value = None;
        if let (true, Some(result)) = (self.wants_value(), &result) {
            match call::judge(&self.request.mode, status, result.returned, &value) {
                Judged::Value(value) => return_value = Some(value),
                Judged::Failed(why) => (status, message) = (Status::Failed, Some(why)),
                Judged::NoValue(why) => {
                    (status, message, exit_code) = (Status::Failed, Some(why), Some(call::NO_VALUE));
                }
                Judged::Otherwise => {}
            }
        }
        let written = result
            .as_ref()
            .map(|result| result.written)
            .unwrap_or(protocol::Written { stdout: stdout.len() as u64, stderr: stderr.len() as u64 });
        let cut = (written.stdout > stdout.len() as u64, written.stderr > stderr.len() as u64);
        let (stdout, stdout_base64) = text(stdout, cut.0);
        let (stderr, stderr_base64) = text(stderr, cut.1);
        let last = result.as_ref().and_then(|result| steps.get(result.step));
        let step = if last.is_some_and(|step| step.kind == StepKind::Compile) { "compile" } else { "run" };
        Execution {
            execution_id: format!("exec_{id}"),
            status,
            start,
            exit_code,
            signal,
            stdout,
            stderr,
            stdout_base64,
            stderr_base64,
            stdout_truncated: cut.0,
            stderr_truncated: cut.1,
            return_value_set: return_value.is_some(),
            return_value,
            metrics: metrics(result.as_ref(), &usage, written),
            artifacts: result.as_ref().map(|result| self.artifacts(result, &mut files)).unwrap_or_default(),
            artifacts_truncated: result.as_ref().is_some_and(|result| result.artifacts_truncated),
            isolation,
            error: message.map(|message| Failure { step, message }),
            language: self.runtime.name.clone(),
            started_at: started_at.to_string(),
            finished_at: jiff::Timestamp::now().to_string(),
        }
    }

    /// Files that came to be, without what makes others run beside it.
    fn artifacts(&self, result: &JobResult, files: &mut BTreeMap<u32, Vec<u8>>) -> Vec<ArtifactRecord> {
        let records = result.artifacts.iter().enumerate().filter_map(|(index, artifact)| {
            // The executor is close to user code: what it calls a path is checked again.
            let path = PlainPath::parse(&artifact.path).ok()?.as_str().to_owned();
            if self.names.is_some_and(|names| names.has_given(&path)) {
                return None;
            }
            let mime = mime_guess::from_path(&path).first_or_octet_stream().to_string();
            let (size, sha256) = (artifact.size, artifact.sha256.clone());
            let (content, executable) = (files.remove(&(index as u32)), artifact.executable);
            Some(ArtifactRecord { path, size, sha256, mime, content, executable })
        });
        records.collect()
    }
}

impl<'a> Placed<'a> {
    fn of(file: &'a SourceFile) -> Placed<'a> {
        Placed {
            place: Place::Workspace,
            path: &file.path,
            content: &file.content,
            executable: file.executable,
        }
    }
}

/// What is known when no result came.
fn without_result(end: End, usage: &BoxUsage, limits: &Limits) -> (Status, Option<String>) {
    let (status, message) = match end {
        End::HungUp if usage.oom_kills > 0 => (
            Status::OutOfMemory,
            format!("it used more memory than {}", crate::limits::show_bytes(limits.memory_bytes)),
        ),
        End::HungUp => (Status::InfraError, "the executor ended unexpectedly".into()),
        End::Unable(reason) | End::Broken(reason) => (Status::InfraError, reason),
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

/// A job, its compiled program if there is one already, and where that is kept.
pub(super) struct JobOrder {
    pub(super) job: Job,
    built: Vec<BuiltFile>,
    compiled: Option<Compiled>,
}

impl JobOrder {
    /// Keeps what the compile step made of the files the language says it makes.
    pub(super) fn keep(&self, heard: &mut Heard, output: &[String]) {
        let (Some(compiled), true, End::Finished(result)) =
            (&self.compiled, self.job.collect.build, &heard.end)
        else {
            return;
        };
        let wanted =
            |path: &str| output.iter().any(|name| path == name || path.starts_with(&format!("{name}/")));
        let mut built = Vec::new();
        for (index, artifact) in result.build.iter().enumerate() {
            let content = heard.files.remove(&(BUILD_STREAM + index as u32)).unwrap_or_default();
            let whole = content.len() as u64 == artifact.size && PlainPath::parse(&artifact.path).is_ok();
            if whole && wanted(&artifact.path) {
                built.push(BuiltFile {
                    path: artifact.path.clone(),
                    content,
                    executable: artifact.executable,
                });
            }
        }
        if !built.is_empty() {
            compiled.store(&built);
        }
    }
}
