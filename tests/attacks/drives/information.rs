//! What a program, its record and our own words tell of the host and of the caller.

use super::Drive;
use super::host::arranged;
use crate::stage::Stage;
use crate::support::{Out, Running, host};
use memchr::memmem;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

pub(super) const DRIVES: &[(&str, Drive)] = &[
    ("errors_tell_nothing_of_the_host", errors_tell_nothing_of_the_host),
    ("nothing_of_the_host_in_the_output", nothing_of_the_host_in_the_output),
    ("pid_1_has_forgotten_the_caller", pid_1_has_forgotten_the_caller),
    ("secrets_are_written_nowhere", secrets_are_written_nowhere),
];

/// Largest piece of a process's memory that is read at once.
const PIECE: usize = 1 << 20;

/// PID 1 and the janitor are forks of the command, or of a spawner. A variable of the caller's is in the memory of the
/// command, which shows that the search is a good one, and in that of nobody below.
fn pid_1_has_forgotten_the_caller(stage: &Stage) -> Result<(), String> {
    let secret = word("caller");
    let direct = stage.person.clone().with("PASSWORD_OF_THE_CALLER", &secret);
    let executor = stage.person.binary("sandbox-executor");
    let by_spawner = direct.clone().with("SANDBOXD_EXECUTOR", executor.display());
    for (person, least) in [(direct, 2), (by_spawner, 2)] {
        let running = person.run("python", "import time\nprint('ready', flush=True)\ntime.sleep(60)").start();
        running.until_it_says("ready");
        let below = host::descendants(running.pid());
        let named = |pid: &&u32| host::status(**pid, "Name").is_some_and(|name| name.starts_with("sandbox"));
        let ours: Vec<&u32> = below.iter().filter(named).collect();
        if ours.len() < least || !ours.iter().any(|pid| host::inner_pid(**pid) == Some(1)) {
            return Err(format!("no PID 1 and no other of ours among {below:?}"));
        }
        if !memory_holds(running.pid(), &secret)? {
            return Err("the secret is not in the command's own memory".into());
        }
        for pid in ours {
            if memory_holds(*pid, &secret)? {
                let name = host::status(*pid, "Name").unwrap_or_default();
                return Err(format!("`{name}` holds the caller's environment"));
            }
        }
    }
    Ok(())
}

/// Whether a text is anywhere in the memory of a process.
fn memory_holds(pid: u32, text: &str) -> Result<bool, String> {
    let failed = |e: std::io::Error| format!("memory of {pid}: {e}");
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).map_err(failed)?;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).map_err(failed)?;
    let number = |word: &str| u64::from_str_radix(word, 16).ok();
    let readable = maps.lines().filter(|line| line.contains(" r") && !line.ends_with("[vvar]"));
    let ranges = readable.filter_map(|line| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        Some((number(from)?, number(to)?))
    });
    let mut piece = vec![0; PIECE + text.len()];
    for (from, to) in ranges {
        for at in (from..to).step_by(PIECE) {
            // A page that was never there cannot be read, and holds nothing.
            let length = memory.read_at(&mut piece, at).unwrap_or(0);
            if memmem::find(&piece[..length], text.as_bytes()).is_some() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// On this host, and on one that has every name and number a host can have.
fn nothing_of_the_host_in_the_output(stage: &Stage) -> Result<(), String> {
    let seen = stage.execute();
    let mut wrong: Vec<String> = stage.judge(&seen).err().into_iter().collect();
    let text = String::from_utf8_lossy(&seen.stdout).into_owned();
    wrong.extend(
        facts_of_the_host(stage)
            .into_iter()
            .filter(|(_, fact)| text.contains(fact.as_str()))
            .map(|(name, fact)| format!("{name} of the host: {fact}")),
    );

    let etc = stage.folder().join("etc");
    copy_etc(stage, &etc)?;
    let cache = stage.person.home().join(".cache");
    // A cache of its own, because what is copied of a host is copied once.
    let wishes = [
        "named=ours.example,secret.example".to_owned(),
        format!("etc={}", etc.display()),
        format!("full={}:33554432", cache.display()),
    ];
    let library =
        stage.person.write(&stage.folder().join("attack.py"), include_str!("../programs/attack.py"));
    let odd = arranged(stage, &wishes.each_ref().map(String::as_str));
    let run = odd.run("python", include_str!("../programs/il_04_identity.py")).flag("--json");
    let seen = stage.notice(&run.arg("--file", library).out());
    std::fs::remove_dir_all(&etc).map_err(|e| format!("etc: {e}"))?;
    let text = String::from_utf8_lossy(&seen.stdout).into_owned();
    if seen.status != "success" {
        wrong.push(format!("on an odd host: {}: {}", seen.status, String::from_utf8_lossy(&seen.stderr)));
    }
    let telling = ["example", "0545", "0123456789abcdef", "somebody", "tellmeall"];
    let told = text.lines().filter(|line| telling.iter().any(|word| line.contains(word)));
    wrong.extend(told.map(|line| format!("on an odd host: {line}")));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The host's `/etc`, as far as it can be read, with other names and numbers.
fn copy_etc(stage: &Stage, to: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("etc: {e}");
    // Not all of it can be read by everybody, and what cannot is not missed.
    std::process::Command::new("cp")
        .args(["-a", "--no-preserve=ownership", "/etc"])
        .arg(to)
        .stderr(std::process::Stdio::null())
        .status()
        .map_err(failed)?;
    let _ = std::fs::remove_file(to.join("localtime"));
    std::os::unix::fs::symlink("/usr/share/zoneinfo/Asia/Kathmandu", to.join("localtime")).map_err(failed)?;
    let users = "root:x:0:0:tellmeall:/root:/bin/sh\nsomebody:x:1000:1000::/home/somebody:/bin/sh\n";
    for (name, content) in [
        ("machine-id", "0123456789abcdef0123456789abcdef\n"),
        ("hostid", "0123456789abcdef"),
        ("hostname", "ours.example\n"),
        ("hosts", "192.0.2.7 ours.example\n"),
        ("resolv.conf", "search secret.example\nnameserver 192.0.2.8\n"),
        ("timezone", "Asia/Kathmandu +0545\n"),
        ("passwd", users),
        ("motd", "tellmeall\n"),
    ] {
        let path = to.join(name);
        let _ = std::fs::remove_file(&path);
        stage.person.write(&path, content);
    }
    Ok(())
}

/// What this host could be told by.
fn facts_of_the_host(stage: &Stage) -> Vec<(&'static str, String)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let mut facts = vec![
        ("boot id", read("/proc/sys/kernel/random/boot_id")),
        ("machine id", read("/etc/machine-id")),
        ("host name", read("/proc/sys/kernel/hostname")),
        ("hardware", read("/sys/class/dmi/id/product_uuid")),
        ("serial number", read("/sys/class/dmi/id/product_serial")),
        ("command line", read("/proc/cmdline")),
        ("home", stage.person.home().display().to_string()),
    ];
    let links = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    facts.extend(
        links.map(|link| ("hardware address", read(&link.path().join("address").display().to_string()))),
    );
    // What many hosts have tells nothing of one.
    facts.retain(|(_, fact)| fact.len() > 4 && fact != "00:00:00:00:00:00" && fact != "localhost");
    facts
}

/// Errors are words for people who know nothing of this host and our source.
fn errors_tell_nothing_of_the_host(stage: &Stage) -> Result<(), String> {
    let person = stage.person.clone().with("PASSWORD_OF_THE_CALLER", "tellmeall");
    let mut outs: Vec<Out> = Vec::new();
    for words in [
        "--language nothing",
        "--timeout 0",
        "--timeout NaN",
        "--memory 1",
        "--cpus 999",
        "--pids 0",
        "--output 9G",
        "--file ../x=/etc/hostname",
        "--file /x=/etc/hostname",
        "--file x=/nowhere",
        "--stdin @/nowhere",
        "--env =x",
        "--artifacts /proc/nowhere",
        "--network nothing",
        "--profile nothing",
        "--nothing",
    ] {
        outs.push(person.run("python", "print(1)").flag("--json").options(words).out());
    }
    for (language, code, options) in [
        ("python", "def (", ""),
        ("python", "def (", "--check"),
        ("python", "import nothing", ""),
        ("python", "raise SystemExit('x' * 100)", ""),
        ("c", "int main({", ""),
        ("c", "#include \"../../../../etc/shadow\"\nint main(void) {}", ""),
        ("c", "#error\n#include </proc/self/environ>", ""),
        ("c", "int main(void) {}", "--pids 1 --timeout 300ms"),
        ("c", "int main(void) {}", "--timeout 1ms"),
        ("c", "char a[9 << 20] = {1}; int main(void) {}", "--disk 1M"),
        ("javascript", "}{", ""),
        ("javascript", "require('nothing')", ""),
        ("sh", "exec /nowhere", ""),
        ("python", "print(1)", "--memory 8M --pids 1 --inodes 64 --open-files 32 --disk 1M"),
        ("python", "x = b'x' * (1 << 40)", "--memory 16M"),
        ("python", "while True: pass", "--cpu-time 50ms"),
        ("python", "open('x', 'wb').write(b'x' * (2 << 20))", "--disk 1M"),
    ] {
        outs.push(person.run(language, code).flag("--json").options(options).out());
        outs.push(person.run(language, code).options(options).out());
    }
    let home = person.home().display().to_string();
    let binaries = person.binary("").display().to_string();
    let ours = [
        home.as_str(),
        binaries.trim_end_matches('/'),
        "tellmeall",
        ".rs:",
        "panicked",
        "BACKTRACE",
        "Os {",
        "sandboxd-attacks",
    ];
    let mut wrong = Vec::new();
    for out in &outs {
        stage.show(&out.stdout);
        stage.show(&out.stderr);
        let said = out.text() + &out.complaint();
        if out.code == 0 && !said.contains("\"success\"") && out.text() != "1\n" {
            wrong.push(format!("no error: {said}"));
        }
        wrong.extend(
            ours.iter().filter(|word| said.contains(*word)).map(|word| format!("`{word}` in: {said}")),
        );
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Whatever a run is given, only the program gets it: it is in no file afterwards and in no words of ours.
fn secrets_are_written_nowhere(stage: &Stage) -> Result<(), String> {
    let secrets = ["code", "input", "variable", "argument", "file", "output"].map(word);
    let [in_code, input, variable, argument, file, output] = &secrets;
    let given = stage.person.write(&stage.folder().join("given"), file);
    let given = format!("given.txt={}", given.display());
    let code = format!(
        "import sys\n# {in_code}\nopen('left', 'w').write(sys.stdin.read())\nprint({output:?}[::-1])"
    );
    let start = |code: &str, options: &str| {
        let run = stage.person.run("python", code).arg("--stdin", input).arg("--file", &given);
        run.arg("--env", format!("SECRET={variable}")).options(options).words([argument]).start()
    };
    let mut wrong = Vec::new();
    let patience = std::time::Duration::from_secs(30);
    for (code, options) in [
        (code.as_str(), "--metrics"),
        (code.as_str(), "--json"),
        ("raise SystemExit(3)", "--metrics"),
        ("import time; time.sleep(9)", "--metrics --timeout 100ms"),
        ("print(1)", "--timeout 0"),
        ("print(1)", "--memory 1"),
        ("print(1)", "--metrics --unsafe-no-isolation"),
    ] {
        let running: Running = start(code, options);
        let out = running.out(patience);
        let said = out.text() + &out.complaint();
        let told = secrets.iter().filter(|secret| said.contains(secret.as_str()));
        wrong.extend(told.map(|secret| format!("{options}: `{secret}` in: {said}")));
    }
    // The home of this person with its caches, and whatever else belongs to the suite or keeps state.
    let home = stage.person.home();
    let ground = home.parent().unwrap_or(home);
    for place in [ground, Path::new("/run/sandboxd"), Path::new("/var/log")] {
        let files = crate::traces::below(place, &|_| true).into_iter();
        for path in files.filter(|path| path.symlink_metadata().is_ok_and(|meta| meta.is_file())) {
            let content = std::fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&content);
            let told = secrets.iter().filter(|secret| text.contains(secret.as_str()));
            wrong.extend(told.map(|secret| format!("{}: {secret}", path.display())));
        }
    }
    let cache = home.join(".cache/sandboxd");
    let mode = std::fs::metadata(&cache).map(|meta| meta.permissions().mode() & 0o777);
    if !mode.as_ref().is_ok_and(|mode| *mode == 0o700) {
        wrong.push(format!("the cache is not its owner's alone: {mode:?}"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// A word that is nowhere else.
fn word(name: &str) -> String {
    let mut random = [0u8; 12];
    rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty()).expect("random bytes");
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("secret-{name}-{digits}")
}
