//! Arbitrary text as a path of a workspace that user code has filled with traps.
//!
//! Laws: an accepted path is relative, plain and stable; whatever is then made, replaced, opened or met on a
//! walk lies in the workspace itself. The traps lead only to places made for this run, so that a failure
//! harms nothing but them.
#![no_main]

use jail::beneath::{DEEPEST, LONGEST_NAME, LONGEST_PATH, PlainPath, Tree};
use libfuzzer_sys::fuzz_target;
use rustix::fs::{CWD, Mode, mkfifoat};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Parts of paths that lead somewhere; input that begins with an odd byte is spelled with them.
const WORDS: [&str; 32] = [
    "/", "/", "/", "/", "a", "new", "file", "dir", "pipe", "secret", "above", "outside", "relative", "magic",
    "dangling", "self", "here", "loop", "canary", "tree", "..", ".", "./", "../", "//", "\0", "\\", "..\\",
    "%2e", "é", "\u{202e}", "\n",
];

const SECRET: &str = "secret";

static PLACE: LazyLock<Place> = LazyLock::new(Place::make);

fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else { return };
    let text = if first % 2 == 1 {
        rest.iter().map(|byte| WORDS[*byte as usize % WORDS.len()]).collect()
    } else {
        String::from_utf8_lossy(rest).into_owned()
    };
    let Ok(path) = PlainPath::parse(&text) else { return };
    is_plain(&path);
    PLACE.meet(&path, first);
});

fn is_plain(path: &PlainPath) {
    let text = path.as_str();
    let mut names = text.split('/');
    assert!(names.all(|name| !matches!(name, "" | "." | "..") && name.len() <= LONGEST_NAME), "{text:?}");
    assert!(!text.contains('\0') && text.len() <= LONGEST_PATH, "{text:?}");
    assert!(text.split('/').count() <= DEEPEST && Path::new(text).is_relative(), "{text:?}");
    assert_eq!(PlainPath::parse(text).as_ref(), Ok(path));
}

/// `tree` is the workspace; `canary` and `secret` beside it are what must never be touched.
struct Place {
    top: PathBuf,
    tree: PathBuf,
    held: Tree,
    canary: OwnedFd,
    secret: (u64, u64, i64),
}

impl Place {
    fn make() -> Place {
        let top = tempfile::Builder::new().prefix("sandboxd-fuzz-").tempdir().expect("a directory");
        let top = top.keep().canonicalize().expect("its name");
        let tree = top.join("tree");
        fs::create_dir(&tree).expect("a workspace");
        fs::create_dir(top.join("canary")).expect("a canary");
        fs::write(top.join(SECRET), SECRET).expect("a secret");
        let canary = File::open(top.join("canary")).expect("the canary").into();
        let held = Tree::open(&tree).expect("the workspace");
        let place = Place { secret: seen(&top.join(SECRET)), top, tree, held, canary };
        place.plant();
        place
    }

    /// Sets up the traps that are not there.
    fn plant(&self) {
        let link = |target: &Path, name: &str| planted(symlink(target, self.tree.join(name)));
        let magic = Path::new("/proc/self/fd").join(self.canary.as_raw_fd().to_string());
        planted(fs::create_dir(self.tree.join("dir")));
        for (prefix, up) in [("", ".."), ("dir/", "../..")] {
            let named = |name: &str| format!("{prefix}{name}");
            link(Path::new(up), &named("above"));
            link(&self.top.join("canary"), &named("outside"));
            link(&Path::new(up).join("canary"), &named("relative"));
            link(&Path::new(up).join("canary/new"), &named("dangling"));
            link(&Path::new(up).join(SECRET), &named("secret"));
            link(&magic, &named("magic"));
            link(&self.tree, &named("self"));
            link(Path::new("."), &named("here"));
            link(Path::new("loop"), &named("loop"));
            planted(mkfifoat(CWD, self.tree.join(named("pipe")), Mode::RWXU).map_err(Into::into));
            planted(File::create_new(self.tree.join(named("file"))).map(drop));
        }
    }

    fn meet(&self, path: &PlainPath, how: u8) {
        let mine = self.tree.join(path.as_str());
        let before = fs::symlink_metadata(&mine).is_ok();
        let replace = how & 2 != 0;
        let made = if replace { self.held.replace(path, 0o644) } else { self.held.create(path, 0o644) };
        if let Ok(file) = &made {
            assert!(replace || !before, "{mine:?} was there already");
            self.is_mine(file, &mine);
        }
        if let Ok(file) = self.held.read(path) {
            self.is_mine(&file, &mine);
        } else {
            assert!(made.is_err(), "{mine:?} was made and cannot be opened");
        }
        if how & 4 == 0 {
            self.held.walk(&mut |entry| {
                let file = self.held.read(&entry.path).expect("what was met can be opened");
                self.is_mine(&file, &self.tree.join(entry.path.as_str()));
                true
            });
        }
        self.is_untouched(path);
        self.tidy(path);
    }

    /// A regular file, at that very place, reached without any link.
    fn is_mine(&self, file: &File, mine: &Path) {
        let opened = file.metadata().expect("an open file");
        assert!(opened.is_file(), "{mine:?}");
        if mine.as_os_str().len() > LONGEST_PATH - 1 {
            return; // no call takes that name
        }
        let named = fs::symlink_metadata(mine).expect("the file by its name");
        assert!((opened.dev(), opened.ino()) == (named.dev(), named.ino()), "{mine:?}");
        assert_eq!(mine.canonicalize().expect("the file by its name"), mine);
    }

    fn is_untouched(&self, path: &PlainPath) {
        let entries = |path: &Path| fs::read_dir(path).expect("a directory").count();
        assert_eq!(entries(&self.top), 3, "{path:?} reached beside the workspace");
        assert_eq!(entries(&self.top.join("canary")), 0, "{path:?} reached the canary");
        assert_eq!(seen(&self.top.join(SECRET)), self.secret, "{path:?} reached the secret");
    }

    /// Takes away what a path may have left and puts back what it may have removed, so that every input
    /// meets the same workspace.
    fn tidy(&self, path: &PlainPath) {
        let name = path.as_str().split('/').next().expect("a first name");
        let first = self.tree.join(name);
        let gone = match fs::symlink_metadata(&first) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&first),
            Ok(_) => fs::remove_file(&first),
            Err(_) => return,
        };
        gone.expect("what was made can be removed");
        if WORDS.contains(&name) {
            self.plant();
        }
    }
}

/// Inode, size and last change.
fn seen(path: &Path) -> (u64, u64, i64) {
    let found = fs::symlink_metadata(path).expect("the secret");
    (found.ino(), found.len(), found.ctime_nsec())
}

fn planted(result: std::io::Result<()>) {
    match result {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("cannot set a trap: {error}"),
        _ => {}
    }
}
