//! Which variant of a language this host can offer, and where its programs are.

use super::{Runtime, Toolchain, Variant};
use crate::EngineError;
use crate::rootfs::policy;
use rustix::fs::{Access, access};
use std::path::{Path, PathBuf};

/// Where programs are looked for, on the host and inside.
pub const PATH: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// A variant that is there.
#[derive(Clone, Debug)]
pub struct Found<'a> {
    /// Which.
    pub variant: &'a Variant,
    /// Its tree, if it needs one: where it is on the host and where it is seen.
    pub toolchain: Option<(PathBuf, PathBuf)>,
    /// Directories that hold programs, on the host.
    host_path: Vec<PathBuf>,
    /// The same, inside.
    pub inside_path: Vec<PathBuf>,
}

/// The first variant that is there.
pub fn find(runtime: &Runtime) -> Result<Found<'_>, EngineError> {
    let found =
        runtime.variants.iter().find_map(|variant| plain(variant).or_else(|| with_toolchain(variant)));
    found.ok_or_else(|| {
        let wanted: Vec<String> =
            runtime.variants.iter().map(|v| format!("`{}`", v.needs.join("` and `"))).collect();
        EngineError::Unavailable {
            what: format!(
                "{} is not installed on this host: {} not found",
                runtime.title,
                wanted.join(" or ")
            ),
            hint: Some(runtime.install.clone()),
        }
    })
}

impl Found<'_> {
    /// Where a program is inside, and where on the host.
    pub fn program(&self, name: &str) -> Option<(PathBuf, PathBuf)> {
        let dirs = self.inside_path.iter().zip(&self.host_path);
        dirs.map(|(inside, host)| (inside.join(name), host.join(name))).find(|(_, host)| is_program(host))
    }

    /// What tells one installation of its programs from another.
    pub fn fingerprint(&self) -> String {
        use std::os::unix::fs::MetadataExt;
        let of = |name: &String| {
            let (_, host) = self.program(name)?;
            let meta = std::fs::metadata(&host).ok()?;
            Some(format!("{}:{}:{}.{}", host.display(), meta.size(), meta.mtime(), meta.mtime_nsec()))
        };
        self.variant.needs.iter().filter_map(of).collect::<Vec<_>>().join(" ")
    }

    /// Asks the installed programs for their version. Runs them on the host, so never with user code.
    pub fn version(&self) -> Option<String> {
        let (name, args) = self.variant.version.split_first()?;
        let (_, program) = self.program(name)?;
        let output = std::process::Command::new(program)
            .args(args)
            .env_clear()
            .env("PATH", PATH.join(":"))
            .env("HOME", "/nonexistent")
            .stdin(std::process::Stdio::null())
            .output()
            .ok()?;
        let text = [output.stdout, output.stderr].concat();
        version_in(&String::from_utf8_lossy(&text))
    }
}

/// The first word that is a version: digits, perhaps behind letters, with a dot somewhere if any has one.
fn version_in(text: &str) -> Option<String> {
    let plain = || text.split_whitespace().find(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    dotted_version_in(text).or_else(|| plain().map(str::to_owned))
}

fn dotted_version_in(text: &str) -> Option<String> {
    text.split(|c: char| c.is_whitespace() || c == ',' || c == '(' || c == ')' || c == '"').find_map(|word| {
        let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let version = digits.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        (version.starts_with(|c: char| c.is_ascii_digit()) && version.contains('.'))
            .then(|| version.to_owned())
    })
}

fn plain(variant: &Variant) -> Option<Found<'_>> {
    let path: Vec<PathBuf> = PATH.iter().map(PathBuf::from).collect();
    let found = Found { variant, toolchain: None, host_path: path.clone(), inside_path: path };
    // A link to a place the sandbox does not see is of no use there.
    let visible = |name: &String| {
        let (_, host) = found.program(name)?;
        let real = host.canonicalize().ok()?;
        policy().shows(&real).then_some(())
    };
    variant.needs.iter().all(|name| visible(name).is_some()).then_some(found)
}

fn with_toolchain(variant: &Variant) -> Option<Found<'_>> {
    variant.toolchains.iter().find_map(|toolchain| {
        // The newest of several.
        matches(&toolchain.glob).into_iter().rev().find_map(|source| in_tree(variant, toolchain, source))
    })
}

fn in_tree<'a>(variant: &'a Variant, toolchain: &Toolchain, source: PathBuf) -> Option<Found<'a>> {
    let mount = PathBuf::from(&toolchain.mount);
    let own = toolchain.path.iter();
    let host = own.clone().map(|dir| source.join(dir)).chain(PATH.iter().map(PathBuf::from)).collect();
    let inside = own.map(|dir| mount.join(dir)).chain(PATH.iter().map(PathBuf::from)).collect();
    // A tree that every sandbox sees anyway, at that very place, need not be mounted.
    let seen = source == mount && policy().shows(&source);
    let found = Found {
        variant,
        toolchain: (!seen).then_some((source, mount)),
        host_path: host,
        inside_path: inside,
    };
    variant.needs.iter().all(|name| found.program(name).is_some()).then_some(found)
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// Paths that exist and match, sorted.
fn matches(glob: &str) -> Vec<PathBuf> {
    let home = std::env::var("HOME").unwrap_or_default();
    let glob = match glob.strip_prefix("~/") {
        Some(_) if home.is_empty() => return Vec::new(),
        Some(rest) => format!("{home}/{rest}"),
        None => glob.to_owned(),
    };
    let mut paths = vec![PathBuf::from("/")];
    for part in glob.split('/').filter(|part| !part.is_empty()) {
        paths = match part.split_once('*') {
            None => paths.into_iter().map(|path| path.join(part)).filter(|path| path.exists()).collect(),
            Some((before, after)) => paths
                .into_iter()
                .flat_map(|path| std::fs::read_dir(path).into_iter().flatten().flatten())
                .filter(|entry| {
                    let name = entry.file_name();
                    let name = name.to_string_lossy();
                    name.len() >= part.len() - 1 && name.starts_with(before) && name.ends_with(after)
                })
                .map(|entry| entry.path())
                .collect(),
        };
    }
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_tools_print() {
        for (text, version) in [
            ("Python 3.11.2\n", "3.11.2"),
            ("go version go1.26.8 linux/amd64", "1.26.8"),
            ("v20.20.2\n", "20.20.2"),
            ("openjdk version \"17.0.15\" 2025-04-15", "17.0.15"),
            ("gcc (Debian 12.2.0-14+deb12u1) 12.2.0", "12.2.0-14+deb12u1"),
            ("This is perl 5, version 36, subversion 0 (v5.36.0) built for x86_64", "5.36.0"),
            ("200809\n", "200809"),
            ("Lua 5.4.4  Copyright (C) 1994-2022", "5.4.4"),
        ] {
            assert_eq!(version_in(text).as_deref(), Some(version), "{text}");
        }
        assert_eq!(version_in("no version here"), None);
    }

    #[test]
    fn globs_match_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["stable-a", "stable-b", "nightly"] {
            std::fs::create_dir_all(dir.path().join(name).join("bin")).unwrap();
        }
        let found = matches(&format!("{}/stable-*/bin", dir.path().display()));
        assert_eq!(found.len(), 2);
        assert!(found[1].ends_with("stable-b/bin"));
        assert!(matches("/nowhere/at/*/all").is_empty());
    }
}
