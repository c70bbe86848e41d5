//! Files a program makes: listed with size, hash and type, saved where asked, and never anywhere else.
#![cfg(test)]

mod support;

use sha2::{Digest, Sha256};
use std::os::unix::fs::symlink;
use support::{Sandboxd, alone};

fn hash(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn new_and_changed_files_are_listed_and_others_are_not() {
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        let same = who.write(&folder.path().join("same.txt"), "same");
        let changed = who.write(&folder.path().join("changed.txt"), "before");
        let code = "import os\nopen('new.json', 'w').write('{}')\nopen('changed.txt', 'w').write('after!')\nos.makedirs('a/b')\n\
            open('a/b/plot.png', 'wb').write(b'png')\nopen('/tmp/elsewhere', 'w').write('x')\nopen('.hidden', 'w')\nprint(open('same.txt').read())";
        let record = who.run("python", code).arg("--file", &same).arg("--file", &changed).json();
        record.is("success").says("same\n");
        assert_eq!(record.artifacts(), [".hidden", "a/b/plot.png", "changed.txt", "new.json"]);
        for (index, content, mime) in
            [(1, "png", "image/png"), (2, "after!", "text/plain"), (3, "{}", "application/json")]
        {
            let file = &record["artifacts"][index];
            assert_eq!(file["size"], content.len());
            assert_eq!(file["sha256"], hash(content.as_bytes()));
            assert_eq!(file["mime"], mime);
            assert!(file.get("content").is_none(), "contents only when asked for");
        }
        record.must(record["artifacts_truncated"] == false, "a whole list");
    }
}

#[test]
fn a_change_that_keeps_size_and_time_is_seen() {
    let who = Sandboxd::plain();
    let folder = who.folder();
    let file = who.write(&folder.path().join("f"), "before");
    let code = "import os\ns = os.stat('f')\nopen('f', 'r+').write('after!')\nos.utime('f', ns=(s.st_atime_ns, s.st_mtime_ns))";
    assert_eq!(who.run("python", code).arg("--file", &file).json().artifacts(), ["f"]);
}

#[test]
fn only_plain_files_are_listed() {
    let code = "import os, socket\nos.symlink('/etc/passwd', 'link')\nos.symlink('/usr', 'dir')\nos.symlink('.', 'loop')\nos.mkfifo('fifo')\n\
        socket.socket(socket.AF_UNIX).bind('socket')\nos.mkdir('empty')\nopen('plain', 'w')";
    for who in Sandboxd::everybody() {
        let record = who.run("python", code).json();
        record.is("success").ends_within(15);
        assert_eq!(record.artifacts(), ["plain"]);
    }
}

#[test]
fn names_are_what_they_are_or_not_at_all() {
    let code = "import os\nfor n in [b'a\\nb', b'\\x1b[31m', b'-rf', b' ', b'..x', b'\\xff', 'é✓'.encode()]: open(n, 'w')\nopen(b'x' * 255, 'w')";
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        let save = folder.path().join("out");
        let record = who.run("python", code).arg("--artifacts", &save).json();
        record.is("success");
        for path in record.artifacts() {
            let at = save.join(path);
            record.must(at.is_file(), &format!("{path:?} saved"));
        }
        let listed = record.artifacts().len();
        record.must(listed >= 6, "the names that are text");
        record.must(
            listed == 8 || record["artifacts_truncated"] == true,
            "or a list that says it is not whole",
        );
    }
}

#[test]
fn they_are_saved_and_overwritten() {
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        let save = folder.path().join("new/out");
        let code = "import os, sys\nos.makedirs('deep/er', exist_ok=True)\nopen('deep/er/x.bin', 'wb').write(bytes(range(256)) * 5000)\nopen('y', 'w').write(sys.argv[1])";
        for word in ["first and longer", "second"] {
            let out = who.run("python", code).arg("--artifacts", &save).words([word]).out();
            out.exits(0).never_panics().must(out.complaint().contains("saved 2 files"), "a word about it");
            assert_eq!(std::fs::read_to_string(save.join("y")).unwrap(), word);
            assert_eq!(
                std::fs::read(save.join("deep/er/x.bin")).unwrap(),
                (0..=255).collect::<Vec<u8>>().repeat(5000)
            );
        }
        // What a program left is saved even when it failed.
        let failing = "open('left', 'w').write('x')\nraise SystemExit(4)";
        who.run("python", failing).arg("--artifacts", &save).out().exits(4);
        assert!(save.join("left").is_file());
    }
}

#[test]
fn they_are_never_saved_outside() {
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        let (save, outside) = (folder.path().join("out"), folder.path().join("outside"));
        for dir in [&save, &outside] {
            std::fs::create_dir(dir).unwrap();
            who.give(dir);
        }
        let victim = who.write(&outside.join("victim"), "untouched");
        symlink(&outside, save.join("dir")).unwrap();
        symlink(&victim, save.join("file")).unwrap();
        let code = "import os\nos.mkdir('dir')\nopen('dir/victim', 'w').write('taken')\nopen('dir/new', 'w').write('taken')\nopen('file', 'w').write('taken')";
        let out = who.run("python", code).arg("--artifacts", &save).out();
        out.never_panics();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1, "a file was saved outside");
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_told_before_anything_runs() {
    let who = Sandboxd::plain();
    let folder = who.folder();
    let file = who.write(&folder.path().join("file"), "x");
    for place in [file.as_path(), std::path::Path::new("/proc/nowhere"), std::path::Path::new("/usr/nowhere")]
    {
        who.run("sh", "echo ran").arg("--artifacts", place).out().exits(2).says("").complains_of("artifacts");
    }
}

#[test]
fn too_many_are_cut_and_told() {
    let _alone = alone();
    for who in Sandboxd::everybody() {
        let folder = who.folder();
        let save = folder.path().join("out");
        let code = "for n in range(3000): open(f'{n:04}', 'w').write('x')";
        let record = who.run("python", code).arg("--artifacts", &save).json();
        record
            .is("success")
            .must(record["artifacts_truncated"] == true, "a cut that is told")
            .ends_within(30);
        record.must(record.artifacts().len() == 1000, "a thousand of them");
        assert_eq!(std::fs::read_dir(&save).unwrap().count(), 1000);
    }
}

#[test]
fn deep_trees_do_not_hurt() {
    let code = "import os\nfor _ in range(2000):\n    os.mkdir('d')\n    os.chdir('d')\nopen('bottom', 'w')";
    for who in Sandboxd::everybody() {
        let record = who.run("python", code).json();
        record.is("success").ends_within(30);
        record.must(record["artifacts_truncated"] == true || record.artifacts().len() == 1, "found, or told");
    }
}

#[test]
fn unreadable_files_do_not_hide_the_others() {
    let code = "import os\nopen('a', 'w').write('a')\nopen('b', 'w').write('b')\nos.chmod('a', 0)\nos.mkdir('closed')\nopen('closed/c', 'w')\nos.chmod('closed', 0)";
    for who in Sandboxd::everybody() {
        let record = who.run("python", code).json();
        record.is("success").must(record.artifacts().contains(&"b"), "the file that can be read");
    }
}
