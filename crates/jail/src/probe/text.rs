//! Reads the kernel's own tables: pure functions from the text of a file to plain data.

use std::path::{Path, PathBuf};

/// One line of `/proc/self/mountinfo`, as far as we care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Which directory of the file system is seen.
    pub root: PathBuf,
    /// Where it is seen.
    pub point: PathBuf,
    /// Whether this view, or the whole file system, is read-only.
    pub read_only: bool,
    /// Type of the file system.
    pub kind: String,
    /// Options of the file system itself; a v1 cgroup names its controllers here.
    pub options: Vec<String>,
}

/// One line of `/proc/self/cgroup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Controllers of a v1 hierarchy; none for the unified one, `name=…` for one that only groups.
    pub controllers: Vec<String>,
    /// This process's place in the hierarchy.
    pub path: PathBuf,
}

/// Reads `/proc/self/mountinfo`. Lines that make no sense are left out.
pub fn mounts(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    let (view, file_system) = line.split_once(" - ")?;
    let mut view = view.split(' ').skip(3);
    let (root, point, flags) = (view.next()?, view.next()?, view.next()?);
    let mut file_system = file_system.split(' ');
    let (kind, _source, options) = (file_system.next()?, file_system.next()?, file_system.next()?);
    let read_only = |list: &str| list.split(',').any(|option| option == "ro");
    Some(Mount {
        root: unescape(root),
        point: unescape(point),
        read_only: read_only(flags) || read_only(options),
        kind: kind.to_owned(),
        options: list(options, ','),
    })
}

/// Undoes the kernel's `\040` for blanks and the like.
fn unescape(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let octal = bytes.get(at + 1..at + 4).filter(|_| byte == b'\\');
        let value = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(value.unwrap_or(byte));
        at += if value.is_some() { 4 } else { 1 };
    }
    std::ffi::OsString::from_vec(plain).into()
}

/// Reads `/proc/self/cgroup`.
pub fn memberships(cgroup: &str) -> Vec<Membership> {
    let line = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        Some(Membership { controllers: list(controllers, ','), path: path.into() })
    };
    cgroup.lines().filter_map(line).collect()
}

/// Where the cgroup `path` is found below a mount. A path that the mount does not show, as from inside a
/// container, is taken to be the mount itself.
pub fn directory(mount: &Mount, path: &Path) -> PathBuf {
    match path.strip_prefix(&mount.root) {
        Ok(below) if !path.starts_with("/..") && below != Path::new("") => mount.point.join(below),
        _ => mount.point.clone(),
    }
}

/// A field of `/proc/self/status`.
pub fn status_field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim())
}

/// The ranges `(first, count)` that `/etc/subuid` or `/etc/subgid` gives to a user.
pub fn sub_ids(table: &str, name: Option<&str>, uid: u32) -> Vec<(u32, u32)> {
    let range = |line: &str| {
        let mut parts = line.trim().split(':');
        let owner = parts.next()?;
        let mine = Some(owner) == name || owner.parse() == Ok(uid);
        let range = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        mine.then_some(range)
    };
    table.lines().filter_map(range).collect()
}

/// The name of a uid in `/etc/passwd`.
pub fn user_name(passwd: &str, uid: u32) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut parts = line.split(':');
        let name = parts.next()?;
        (parts.nth(1)?.parse() == Ok(uid)).then_some(name)
    })
}

/// What kind of container the lines of `/proc/1/cgroup` betray.
pub fn container_hint(cgroup: &str) -> Option<&'static str> {
    let signs = [
        ("kubepods", "kubernetes"),
        ("docker", "docker"),
        ("libpod", "podman"),
        ("containerd", "containerd"),
        ("lxc", "lxc"),
    ];
    signs.into_iter().find_map(|(sign, kind)| cgroup.contains(sign).then_some(kind))
}

/// The parts of a separated list, without empty ones.
pub(super) fn list(text: &str, separator: char) -> Vec<String> {
    text.split(separator).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_mount() {
        let found = mounts(
            "36 35 98:0 /a\\040b /mnt/x\\134y rw,noatime master:1 - ext4 /dev/root ro,errors=continue\n\
             not a mount\n",
        );
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].root, Path::new("/a b"));
        assert_eq!(found[0].point, Path::new("/mnt/x\\y"));
        assert!(found[0].read_only);
        assert_eq!(found[0].kind, "ext4");
    }

    #[test]
    fn a_broken_escape_is_kept_as_it_is() {
        assert_eq!(unescape("/a\\04"), Path::new("/a\\04"));
        assert_eq!(unescape("/a\\zzz"), Path::new("/a\\zzz"));
    }

    #[test]
    fn reads_memberships_with_colons_in_the_path() {
        let found = memberships("4:cpu,cpuacct:/a:b\n1:name=systemd:/\n0::/user.slice\n");
        assert_eq!(found[0].controllers, ["cpu", "cpuacct"]);
        assert_eq!(found[0].path, Path::new("/a:b"));
        assert_eq!(found[1].controllers, ["name=systemd"]);
        assert!(found[2].controllers.is_empty());
    }

    #[test]
    fn finds_the_directory_below_a_mount() {
        let mount = |root: &str| Mount {
            root: root.into(),
            point: "/sys/fs/cgroup".into(),
            read_only: false,
            kind: "cgroup2".into(),
            options: vec![],
        };
        let at = |root, path| directory(&mount(root), Path::new(path));
        assert_eq!(at("/", "/user.slice/x"), Path::new("/sys/fs/cgroup/user.slice/x"));
        assert_eq!(at("/docker/ab", "/docker/ab/c"), Path::new("/sys/fs/cgroup/c"));
        assert_eq!(at("/", "/").as_os_str(), "/sys/fs/cgroup", "no slash at the end");
        assert_eq!(at("/docker/ab", "/other"), Path::new("/sys/fs/cgroup"));
        assert_eq!(at("/", "/../../other"), Path::new("/sys/fs/cgroup"));
    }

    #[test]
    fn reads_status_fields() {
        let status = "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(status_field(status, "Seccomp"), Some("2"));
        assert_eq!(status_field(status, "Seccomp_filters"), Some("1"));
        assert_eq!(status_field(status, "NoNewPrivs"), None);
    }

    #[test]
    fn finds_sub_ids_by_name_and_number() {
        let table = "alice:100000:65536\n1000:300000:10\nbob:1:1\nbroken\n";
        assert_eq!(sub_ids(table, Some("alice"), 1000), [(100_000, 65_536), (300_000, 10)]);
        assert_eq!(sub_ids(table, None, 7), []);
        assert_eq!(user_name("root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/:/bin/sh", 1000), Some("alice"));
    }

    #[test]
    fn recognises_containers() {
        assert_eq!(container_hint("0::/kubepods.slice/cri-containerd-ab.scope"), Some("kubernetes"));
        assert_eq!(container_hint("4:memory:/docker/ab"), Some("docker"));
        assert_eq!(container_hint("0::/init.scope"), None);
    }
}
