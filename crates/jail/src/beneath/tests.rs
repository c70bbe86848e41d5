//! Paths and trees, on a real file system.

use super::*;
use proptest::prelude::*;
use std::io::{Read, Write};

fn scratch(name: &str) -> std::path::PathBuf {
    let dir = std::env::temp_dir().join(format!("beneath-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn odd_paths_are_refused_by_name() {
    let refused = [
        ("", PathError::Empty),
        (".", PathError::Empty),
        ("/etc/passwd", PathError::Absolute),
        ("a/../b", PathError::Upward),
        ("..", PathError::Upward),
        ("a\0b", PathError::Nul),
        ("a/", PathError::Directory),
    ];
    for (path, error) in refused {
        assert_eq!(PlainPath::parse(path), Err(error), "{path:?}");
    }
    assert_eq!(PlainPath::parse(&"a".repeat(256)), Err(PathError::TooLong));
    assert_eq!(PlainPath::parse(&"a/".repeat(64).add_name()), Err(PathError::TooDeep));
}

trait AddName {
    fn add_name(self) -> String;
}
impl AddName for String {
    fn add_name(self) -> String {
        self + "a"
    }
}

proptest! {
    #[test]
    fn an_accepted_path_stays_beneath_and_is_stable(text in "[a-c./\\\\%é\n-]{0,40}") {
        if let Ok(path) = PlainPath::parse(&text) {
            prop_assert!(!path.as_str().starts_with('/'));
            prop_assert!(path.as_str().split('/').all(|n| !n.is_empty() && n != "." && n != ".."));
            prop_assert_eq!(PlainPath::parse(path.as_str()), Ok(path.clone()));
        }
    }

    #[test]
    fn what_is_written_is_read(name in "[^/\0]{1,30}", body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let dir = scratch("law");
        let tree = Tree::open(&dir).unwrap();
        if let Ok(path) = PlainPath::parse(&format!("d/{name}")) {
            tree.create(&path, 0o644).unwrap().write_all(&body).unwrap();
            let mut read = Vec::new();
            tree.read(&path).unwrap().read_to_end(&mut read).unwrap();
            prop_assert_eq!(read, body);
            prop_assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn links_lead_nowhere() {
    let dir = scratch("links");
    std::os::unix::fs::symlink("/etc/passwd", dir.join("file")).unwrap();
    let outside = scratch("outside");
    std::os::unix::fs::symlink("/etc", dir.join("dir")).unwrap();
    std::os::unix::fs::symlink(&outside, dir.join("out")).unwrap();
    let tree = Tree::open(&dir).unwrap();
    let path = |text| PlainPath::parse(text).unwrap();
    assert_eq!(tree.read(&path("file")).err(), Some(Errno::LOOP));
    assert_eq!(tree.read(&path("dir/passwd")).err(), Some(Errno::LOOP));
    assert!(tree.create(&path("dir/new"), 0o644).is_err());
    assert!(tree.create(&path("out/sub/new"), 0o644).is_err());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    std::fs::remove_dir_all(&outside).unwrap();
    assert!(tree.create(&path("file"), 0o644).is_err());
    let mut seen = 0;
    assert!(tree.walk(&mut |_| {
        seen += 1;
        true
    }));
    assert_eq!(seen, 0);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_is_renamed_listed_and_removed_stays_beneath() {
    let (dir, outside) = (scratch("moves"), scratch("elsewhere"));
    std::fs::write(outside.join("kept"), "1").unwrap();
    std::os::unix::fs::symlink(&outside, dir.join("out")).unwrap();
    let tree = Tree::open(&dir).unwrap();
    let path = |text| PlainPath::parse(text).unwrap();
    tree.make_directory(&path("a/b")).unwrap();
    tree.create(&path("a/b/f"), 0o644).unwrap().write_all(b"f").unwrap();
    assert!(tree.rename(&path("a/b/f"), &path("out/f"), true).is_err());
    assert!(tree.rename(&path("out/kept"), &path("a/kept"), true).is_err());
    tree.rename(&path("a/b/f"), &path("a/g"), false).unwrap();
    tree.create(&path("h"), 0o644).unwrap();
    assert_eq!(tree.rename(&path("h"), &path("a/g"), false), Err(Errno::EXIST));
    let names = |at| tree.list(at).map(|list| list.into_iter().map(|(name, _)| name).collect::<Vec<_>>());
    assert_eq!(names("").unwrap(), ["a", "h", "out"]);
    assert_eq!(names("out").err(), Some(Errno::LOOP));
    let kind = |at| FileType::from_raw_mode(tree.stat(&path(at)).unwrap().st_mode);
    assert_eq!((kind("out"), kind("a")), (FileType::Symlink, FileType::Directory));
    // A link goes, and what it leads to stays.
    std::os::unix::fs::symlink(&outside, dir.join("a/out")).unwrap();
    assert_eq!(tree.remove_directory(&path("a"), false), Err(Errno::NOTEMPTY));
    tree.remove_directory(&path("a"), true).unwrap();
    tree.clear().unwrap();
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    assert_eq!(std::fs::read_to_string(outside.join("kept")).unwrap(), "1");
    std::fs::remove_dir_all(&dir).unwrap();
    std::fs::remove_dir_all(&outside).unwrap();
}

#[test]
fn a_walk_stops_when_it_is_told_to_however_deep() {
    let dir = scratch("stop");
    for name in ["a", "b", "c"] {
        std::fs::create_dir_all(dir.join(name).join("deep")).unwrap();
        std::fs::write(dir.join(name).join("deep/file"), "").unwrap();
    }
    let mut seen = 0;
    assert!(!Tree::open(&dir).unwrap().walk(&mut |_| {
        seen += 1;
        false
    }));
    assert_eq!(seen, 1);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_pipe_is_no_file() {
    let dir = scratch("pipe");
    let made = std::process::Command::new("mkfifo").arg(dir.join("p")).status().unwrap();
    assert!(made.success());
    let tree = Tree::open(&dir).unwrap();
    assert_eq!(tree.read(&PlainPath::parse("p").unwrap()).err(), Some(Errno::INVAL));
    std::fs::remove_dir_all(&dir).unwrap();
}
