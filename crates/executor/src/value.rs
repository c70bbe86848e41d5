//! The value of a program: a file it leaves in the build directory, sent on when it has ended.
//!
//! It lies where the program can write, so what lies there is the program's own doing. It is opened beneath the build
//! directory, only if it is a plain file, and never read beyond its bound. Nobody here looks into it.

use crate::control::Control;
use jail::beneath::{PlainPath, Tree};
use protocol::{Frame, Kind, Returned, VALUE, VALUE_STREAM};
use rustix::io::Errno;
use std::io::Read;
use std::path::Path;

const CHUNK: usize = 256 << 10;

/// Sends the value that lies below the build directory, if it has at most so many bytes.
pub(crate) fn send(build: &Path, most: u64, control: &mut Control) -> Returned {
    let bytes = match read(build, most) {
        Ok(bytes) if bytes.len() as u64 > most => return Returned::TooLarge,
        Ok(bytes) => bytes,
        Err(Errno::NOENT) => return Returned::None,
        Err(errno) => return Returned::Unreadable { errno: errno.raw_os_error() },
    };
    for chunk in bytes.chunks(CHUNK) {
        control.send(&Frame { kind: Kind::FileOut, stream: VALUE_STREAM, body: chunk.to_vec() });
        control.drain();
    }
    Returned::Sent
}

/// What lies there, or as much of it as shows that it is too large.
fn read(build: &Path, most: u64) -> Result<Vec<u8>, Errno> {
    let path = PlainPath::parse(VALUE).map_err(|_| Errno::INVAL)?;
    let file = Tree::open(build)?.read(&path)?;
    let mut bytes = Vec::new();
    let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_a_plain_file_is_read_and_only_so_far() {
        let folder = tempfile::tempdir().unwrap();
        let build = folder.path().join("build");
        std::fs::create_dir_all(build.join("call")).unwrap();
        let place = build.join(VALUE);
        assert_eq!(read(&build, 9), Err(Errno::NOENT));
        std::fs::write(&place, "12345").unwrap();
        assert_eq!(read(&build, 9), Ok(b"12345".to_vec()));
        assert_eq!(read(&build, 3), Ok(b"1234".to_vec()));
        std::fs::remove_file(&place).unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "not yours").unwrap();
        symlink(&secret, &place).unwrap();
        assert_eq!(read(&build, 9), Err(Errno::LOOP));
        std::fs::remove_file(&place).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &place, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(read(&build, 9), Err(Errno::INVAL));
        std::fs::remove_dir_all(build.join("call")).unwrap();
        symlink(folder.path(), build.join("call")).unwrap();
        std::fs::write(folder.path().join("value.json"), "not yours").unwrap();
        assert_eq!(read(&build, 9), Err(Errno::LOOP));
    }
}
