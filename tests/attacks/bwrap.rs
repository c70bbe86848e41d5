//! The same programs under plain `bwrap --unshare-all`, for comparison.

use crate::case::{Case, Run};
use crate::seen::Seen;
use crate::world::Place;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Most bytes kept of a stream; what comes after is read and dropped.
const KEPT: usize = 8 << 20;
/// Longest time a program gets, whatever the case allows.
const LONGEST: Duration = Duration::from_secs(3);
/// The same for one that strains the machine: nothing but the outer cgroup limits it.
const LONGEST_LOUD: Duration = Duration::from_secs(2);
const WALLS: [&str; 11] = [
    "--unshare-all",
    "--die-with-parent",
    "--ro-bind",
    "/",
    "/",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
];

/// What was seen and which canaries leaked, or why this run cannot be compared.
pub(crate) fn run(place: &Place, case: &Case, run: &Run) -> Result<(Seen, Vec<String>), String> {
    if let Some(why) = &case.facts.no_compare {
        return Err(why.clone());
    }
    if run.drive.is_some() {
        return Err("it drives the command, not only a program".into());
    }
    if case.facts.loud && place.world.outer.is_err() {
        return Err("without an outer cgroup nothing would bound it".into());
    }
    let folder = place.attacker().folder();
    let start = start_line(place, run, folder.path())?;
    let inside = "/tmp/workspace";
    let mut command = place.attacker().bare("bwrap");
    command.args(WALLS).arg("--bind").arg(folder.path()).args([inside, "--chdir", inside, "--"]);
    command.args(["sh", "-c", &start, "sh"]).args(&run.args);
    command.current_dir("/").env_clear().env("PATH", "/usr/bin:/bin").env("HOME", inside);
    // What `sandboxd` has in its environment, `bwrap` has.
    command.env("SERVICE_TOKEN", place.world.canaries.of(crate::canaries::ENVIRONMENT));
    command.envs(place.variables());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|e| format!("bwrap: {e}"))?;
    let longest = if case.facts.loud { LONGEST_LOUD } else { LONGEST };
    let seen = follow(child, run.stdin.clone().unwrap_or_default(), time_limit(run).min(longest));
    let found =
        [&seen.stdout, &seen.stderr].into_iter().filter_map(|bytes| place.world.canaries.search(bytes));
    let leaks = found.map(|place| format!("its output holds the canary of {place}")).collect();
    Ok((seen, leaks))
}

/// Puts the files in place. Returns the line of shell that starts the program.
fn start_line(place: &Place, run: &Run, folder: &Path) -> Result<String, String> {
    let (name, start) = match run.language.as_str() {
        "python" => ("main.py", "exec python3 main.py \"$@\""),
        "c" => ("main.c", "gcc -O1 -pipe -pthread -o main main.c -lm && exec ./main \"$@\""),
        "bash" => ("main.sh", "exec bash main.sh \"$@\""),
        "sh" => ("main.sh", "exec sh main.sh \"$@\""),
        "javascript" => ("main.js", "exec node main.js \"$@\""),
        other => return Err(format!("{other} is not set up for the comparison")),
    };
    let programs = place.world.path("programs");
    let read = |file: &String| std::fs::read(programs.join(file)).map_err(|e| format!("{file}: {e}"));
    let content = match (&run.program, &run.code) {
        (Some(file), _) => read(file)?,
        (None, code) => code.clone().unwrap_or_default().into_bytes(),
    };
    place.attacker().write(&folder.join(name), content);
    for file in run.beside() {
        place.attacker().write(&folder.join(&file), read(&file)?);
    }
    Ok(start.into())
}

/// The `--timeout` among the options of a run.
fn time_limit(run: &Run) -> Duration {
    let at = run.options.iter().position(|word| word == "--timeout" || word == "-t");
    let text = at.and_then(|at| run.options.get(at + 1)).map_or("", String::as_str);
    let (digits, unit) = text.split_at(text.find(char::is_alphabetic).unwrap_or(text.len()));
    let factor = match unit {
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        _ => 1.0,
    };
    let seconds = digits.parse::<f64>().map(|number| number * factor);
    seconds.ok().and_then(|s| Duration::try_from_secs_f64(s).ok()).unwrap_or(LONGEST)
}

fn follow(mut child: Child, input: String, limit: Duration) -> Seen {
    let began = Instant::now();
    if let Some(mut stdin) = child.stdin.take() {
        std::thread::spawn(move || drop(std::io::Write::write_all(&mut stdin, input.as_bytes())));
    }
    let stdout = child.stdout.take().map(|stream| std::thread::spawn(|| beginning(stream)));
    let stderr = child.stderr.take().map(|stream| std::thread::spawn(|| beginning(stream)));
    let mut timed_out = false;
    let status = loop {
        if let Ok(Some(status)) = child.try_wait() {
            break Some(status);
        }
        if began.elapsed() > limit {
            timed_out = true;
            let _ = child.kill();
            break child.wait().ok();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let took = began.elapsed();
    let end = |stream: Option<std::thread::JoinHandle<Vec<u8>>>| {
        stream.and_then(|stream| stream.join().ok()).unwrap_or_default()
    };
    let code = status.and_then(|status| status.code()).map(i64::from);
    // Its own way of saying that a signal ended the program.
    let signal = status.and_then(|status| status.signal()).map(i64::from);
    let signal = signal.or(code.filter(|code| (129..=192).contains(code)).map(|code| code - 128));
    let status = match (timed_out, code, signal) {
        (true, ..) => "timed_out",
        (_, Some(0), _) => "success",
        (_, _, Some(_)) => "signalled",
        _ => "failed",
    };
    Seen {
        status: status.into(),
        exit_code: code,
        signal,
        stdout: end(stdout),
        stderr: end(stderr),
        record: None,
        took,
    }
}

/// The first bytes of a stream, read to its end.
fn beginning(mut stream: impl Read) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = [0; 64 << 10];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        kept.extend(&buffer[..length.min(KEPT - kept.len())]);
    }
    kept
}
