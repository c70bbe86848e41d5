//! What is put beside a program by `--file`.

use crate::stage::Stage;
use crate::support::{Out, Run};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time for a request to be refused.
const QUICKLY: Duration = Duration::from_secs(1);

/// `--file NAME=PATH` in one word, so that a name may begin with a dash.
pub(super) fn file(run: Run, name: &[u8], path: &Path) -> Run {
    use std::os::unix::ffi::OsStringExt;
    let mut word = b"--file=".to_vec();
    word.extend(name);
    word.extend(b"=");
    word.extend(path.as_os_str().as_encoded_bytes());
    run.flag(OsString::from_vec(word))
}

/// What the program says it was given: name, and content with its length.
pub(super) fn told(stdout: &[u8]) -> BTreeMap<Vec<u8>, (Vec<u8>, usize)> {
    let text = String::from_utf8_lossy(stdout).into_owned();
    let given = text.lines().filter_map(|line| {
        let [_, name, content, length, _] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        Some((bytes(name)?, (bytes(content)?, length.parse().ok()?)))
    });
    given.collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pair = |at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len()).step_by(2).map(pair).collect()
}

/// Refused: exit code 2, a complaint, no record, quickly.
fn is_refusal(what: &str, out: &Out) -> Result<(), String> {
    let complaint = out.complaint();
    if out.code != 2 || !out.stdout.is_empty() || !complaint.starts_with("error: ") {
        let record: serde_json::Value = serde_json::from_str(&out.text()).unwrap_or_default();
        let (code, status, error) = (out.code, &record["status"], &record["error"]["message"]);
        return Err(format!("{what}: not refused: exit code {code}, status {status} {error} {complaint:?}"));
    }
    if out.took > QUICKLY {
        return Err(format!("{what}: refused only after {:?}", out.took));
    }
    Ok(())
}

/// A directory of files with one special thing in it.
fn tree(stage: &Stage, name: &str, plant: impl FnOnce(&Path)) -> PathBuf {
    let dir = stage.folder().join(name);
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("honest.txt"), "honest").unwrap();
    plant(&dir);
    dir
}

/// Links below a directory that is given are passed over, wherever they lead; the files beside them arrive.
pub(super) fn links(stage: &Stage) -> Result<(), String> {
    let secret = stage.folder().join("secret");
    std::fs::write(&secret, "outside").unwrap();
    let dir = tree(stage, "tree", |dir| {
        symlink(&secret, dir.join("absolute")).unwrap();
        symlink("../secret", dir.join("relative")).unwrap();
        symlink("/etc", dir.join("directory")).unwrap();
        symlink("..", dir.join("up")).unwrap();
        symlink(".", dir.join("loop")).unwrap();
        symlink("/proc/self/environ", dir.join("environ")).unwrap();
        symlink("/dev/zero", dir.join("zero")).unwrap();
    });
    let seen = stage.notice(&file(stage.command(), b"tree", &dir).out());
    stage.judge(&seen)?;
    let given = told(&seen.stdout);
    let wanted = BTreeMap::from([(b"tree/honest.txt".to_vec(), (b"honest".to_vec(), 6))]);
    if given == wanted { Ok(()) } else { Err(format!("given was {given:?}")) }
}

/// Everything that cannot be put beside a program as it is named is refused whole, before anything runs.
pub(super) fn refused(stage: &Stage) -> Result<(), String> {
    let honest = stage.folder().join("honest");
    std::fs::write(&honest, "honest").unwrap();
    let sets: [(&str, &[&str]); 12] = [
        ("up", &["../escape"]),
        ("up in the middle", &["a/../../escape"]),
        ("up at the end", &["a/.."]),
        ("absolute", &["/tmp/escape"]),
        ("two slashes", &["//tmp/escape"]),
        ("one good and one bad", &["good", "../escape"]),
        ("twice the same", &["a", "a"]),
        ("twice the same, spelled otherwise", &["a/b", "./a//b"]),
        ("the program itself", &["fs_24_listing.py"]),
        ("a file and a directory", &["a", "a/b"]),
        ("a directory and a file", &["a/b/c", "a/b"]),
        ("below the program", &["fs_24_listing.py/inner"]),
    ];
    let mut wrong = Vec::new();
    for (what, names) in sets {
        let run = names.iter().fold(stage.command(), |run, name| file(run, name.as_bytes(), &honest));
        wrong.extend(is_refusal(what, &run.out()).err());
    }

    let endless = stage.folder().join("endless");
    std::fs::File::create(&endless).and_then(|file| file.set_len(1 << 40)).unwrap();
    let pipe = tree(stage, "pipe", |dir| {
        mknodat(CWD, dir.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    });
    let socket = tree(stage, "socket", |dir| drop(UnixListener::bind(dir.join("socket")).unwrap()));
    let many = tree(stage, "many", |dir| {
        for number in 0..10_000 {
            std::fs::File::create(dir.join(number.to_string())).unwrap();
        }
    });
    let deep = tree(stage, "deep", |dir| {
        let bottom = (0..70).fold(dir.to_owned(), |dir, _| dir.join("d"));
        std::fs::create_dir_all(&bottom).unwrap();
        std::fs::write(bottom.join("file"), "deep").unwrap();
    });
    let large = tree(stage, "large", |dir| {
        for number in 0..3 {
            std::fs::File::create(dir.join(number.to_string()))
                .and_then(|file| file.set_len(40 << 20))
                .unwrap();
        }
    });
    let places: [(&str, &Path); 8] = [
        ("a terabyte", &endless),
        ("a device without an end", Path::new("/dev/zero")),
        ("a directory with a pipe", &pipe),
        ("a directory with a socket", &socket),
        ("a directory with 10 001 files", &many),
        ("a directory of 70 levels", &deep),
        ("a directory of 120 megabytes", &large),
        ("nothing", Path::new("/nowhere")),
    ];
    for (what, path) in places {
        let running = file(stage.command(), b"given", path).within(Duration::from_secs(3));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| running.out()));
        let verdict = match outcome {
            Ok(out) => is_refusal(what, &out),
            Err(_) => Err(format!("{what}: it never ended, and had to be killed")),
        };
        wrong.extend(verdict.err());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Archives full of traps: a sandbox takes each as the file it is.
pub(super) fn archives(stage: &Stage) -> Result<(), String> {
    let folder = stage.folder();
    let archives =
        [("evil.tar", tar()), ("evil.zip", zip()), ("evil.tar.gz", b"\x1f\x8b\x08\0garbage".to_vec())];
    let mut run = stage.command();
    for (name, content) in &archives {
        std::fs::write(folder.join(name), content).unwrap();
        run = file(run, name.as_bytes(), &folder.join(name));
    }
    let seen = stage.notice(&run.out());
    stage.judge(&seen)?;
    let given = told(&seen.stdout);
    let wanted: BTreeMap<_, _> = archives
        .iter()
        .map(|(name, content)| {
            let start = content[..content.len().min(64)].to_vec();
            (name.as_bytes().to_vec(), (start, content.len()))
        })
        .collect();
    if given != wanted {
        return Err(format!(
            "given was {:?}",
            given.keys().map(|n| String::from_utf8_lossy(n)).collect::<Vec<_>>()
        ));
    }
    let took = seen.took;
    if took < QUICKLY { Ok(()) } else { Err(format!("it took {took:?}")) }
}

/// Entries that lead out, are links, devices or set-user-id, and come twice.
fn tar() -> Vec<u8> {
    let mut archive = Vec::new();
    let entries: [(&str, u8, &str, &str); 8] = [
        ("../../../../tmp/escape", b'0', "", "0000644"),
        ("/tmp/escape", b'0', "", "0000644"),
        ("link", b'2', "/etc", "0000777"),
        ("link/through", b'0', "", "0000644"),
        ("hard", b'1', "/etc/passwd", "0000644"),
        ("device", b'4', "", "0000666"),
        ("suid", b'0', "", "0004755"),
        ("suid", b'0', "", "0004755"),
    ];
    for (name, kind, target, mode) in entries {
        let mut header = [0_u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(mode.as_bytes());
        header[124..135].copy_from_slice(b"00000000000");
        header[148..156].fill(b' ');
        header[156] = kind;
        header[157..157 + target.len()].copy_from_slice(target.as_bytes());
        header[257..263].copy_from_slice(b"ustar\0");
        header[329..336].copy_from_slice(b"0000010");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        archive.extend(header);
    }
    archive.extend([0; 1024]);
    archive
}

/// One stored entry that leads out, and a directory at the end that claims sixty thousand of four gigabytes.
fn zip() -> Vec<u8> {
    let name = b"../../../../tmp/escape";
    let mut archive = Vec::new();
    let mut number = |bytes: &[u8]| archive.write_all(bytes).unwrap();
    number(b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0");
    number(&[0; 12]);
    number(&[name.len() as u8, 0, 0, 0]);
    number(name);
    number(b"PK\x01\x02\x14\x03\x14\0\x01\0\x63\0\0\0\0\0");
    number(&[0; 4]);
    number(&[0xff; 8]);
    number(&[name.len() as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xa1, 0, 0, 0, 0]);
    number(name);
    number(b"PK\x05\x06\0\0\0\0\xff\xff\xff\xff");
    number(&[0xff; 8]);
    number(&[0, 0]);
    archive
}
