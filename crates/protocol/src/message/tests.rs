//! The wire, frozen.

use super::*;
use jail::Step as Rung;

/// The wire, frozen: a change here is a new generation.
#[test]
fn the_wire_does_not_change_by_accident() {
    let job = Job {
        files: vec![FileIn {
            path: "main.py".into(),
            place: Place::Workspace,
            size: 8,
            executable: false,
            temporary: true,
        }],
        steps: vec![Step {
            kind: StepKind::Run,
            program: "/usr/bin/python3".into(),
            argv: vec!["python3".into(), "main.py".into()],
            env: vec!["HOME=/workspace".into()],
            directory: "/workspace".into(),
        }],
        limits: RunLimits { wall_ms: 1, cpu_ms: 2, output_bytes: 3, output_written_bytes: 4 },
        stdin: false,
        collect: Collect {
            artifacts: true,
            contents: false,
            build: false,
            most_files: 5,
            most_bytes: 6,
            most_value_bytes: None,
        },
    };
    let errand = Errand { began_ns: 8, limits: job.limits, collect: job.collect, files: vec![] };
    let valued = Collect { most_value_bytes: Some(9), ..job.collect };
    let parked =
        Parked { step: None, source: Some("main.py".into()), cpu_ms: 7, hurry: false, keeper: false };
    let result = JobResult {
        step: 0,
        ending: Ending::Exited { code: 0 },
        usage: Usage::default(),
        counted: Some(BoxUsage::default()),
        written: Written::default(),
        disk_full: false,
        artifacts: vec![Artifact { path: "a".into(), size: 1, sha256: "00".into(), executable: false }],
        artifacts_truncated: false,
        build: Vec::new(),
        returned: None,
    };
    let returned = [Returned::None, Returned::Sent, Returned::TooLarge, Returned::Unreadable { errno: 40 }];
    let entry = FileEntry { path: "a".into(), kind: FileKind::File, size: 1, mode: 0o644, modified_ms: 2 };
    let error = jail::JailError { step: Rung::Exec, subject: "x".into(), errno: 2 };
    let failed = JobResult { ending: Ending::StartFailed { error }, ..result.clone() };
    let lines = [
        serde_json::to_string(&FromHost::Hello { generation: 1 }),
        serde_json::to_string(&FromHost::Run(job)),
        serde_json::to_string(&FromHost::Park(parked)),
        serde_json::to_string(&FromHost::Settle),
        serde_json::to_string(&FromHost::Doze),
        serde_json::to_string(&FromHost::Follow(errand)),
        serde_json::to_string(&FromHost::Attend),
        serde_json::to_string(&FromHost::Cancel),
        serde_json::to_string(&FromHost::File {
            id: 1,
            op: FileOp::List { path: String::new(), recursive: true, after: None, most: 9 },
        }),
        serde_json::to_string(&FromHost::File { id: 2, op: FileOp::Stat { path: "a".into() } }),
        serde_json::to_string(&FromHost::File {
            id: 3,
            op: FileOp::Read { path: "a".into(), offset: 1, length: 2 },
        }),
        serde_json::to_string(&FromHost::File {
            id: 4,
            op: FileOp::Write { path: "a".into(), offset: 0, mode: 0o644 },
        }),
        serde_json::to_string(&FromHost::File { id: 5, op: FileOp::Mkdir { path: "d".into() } }),
        serde_json::to_string(&FromHost::File {
            id: 6,
            op: FileOp::Move { from: "a".into(), to: "b".into(), replace: true },
        }),
        serde_json::to_string(&FromHost::File {
            id: 7,
            op: FileOp::Remove { path: "b".into(), recursive: false },
        }),
        serde_json::to_string(&FromHost::Pause),
        serde_json::to_string(&FromHost::Resume),
        serde_json::to_string(&FromExecutor::Hello {
            generation: 1,
            seccomp_sha256: Some("ab".into()),
            landlock_abi: 7,
        }),
        serde_json::to_string(&FromExecutor::Parked),
        serde_json::to_string(&FromExecutor::Started { step: 0 }),
        serde_json::to_string(&FromExecutor::Finished(Box::new(result))),
        serde_json::to_string(&FromExecutor::Finished(Box::new(failed))),
        serde_json::to_string(&FromExecutor::Broken { reason: "r".into() }),
        serde_json::to_string(&FromExecutor::File { id: 1, outcome: FileOutcome::Done }),
        serde_json::to_string(&FromExecutor::File { id: 2, outcome: FileOutcome::Failed { errno: 2 } }),
        serde_json::to_string(&FromExecutor::File {
            id: 3,
            outcome: FileOutcome::Found { entry: entry.clone() },
        }),
        serde_json::to_string(&FromExecutor::File {
            id: 4,
            outcome: FileOutcome::Listed { entries: vec![entry], more: false },
        }),
        serde_json::to_string(&valued),
        serde_json::to_string(&returned),
    ];
    insta::assert_snapshot!(lines.map(Result::unwrap).join("\n"));
}
