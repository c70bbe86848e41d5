//! An index of packages on this host, for pip to find.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Packages: `greeting` in two versions, which needs `words`, and `built`, which is built by code of its own. That code
/// notes whether it sees a file of a session.
const MAKE: &str = r#"
import io, pathlib, sys, tarfile, zipfile

WHEEL = '''
import pathlib, zipfile

def wheel(folder, name, version, code, needs=()):
    path = pathlib.Path(folder) / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    meta = f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n"
    meta += "".join(f"Requires-Dist: {need}\\n" for need in needs)
    files = {
        f"{name}.py": code,
        f"{info}/METADATA": meta,
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as made:
        for file, content in files.items():
            made.writestr(file, content)
    return path.name
'''
exec(WHEEL)
BACKEND = WHEEL + '''
def build_wheel(folder, config_settings=None, metadata_directory=None):
    seen = pathlib.Path("/workspace/secret.txt").exists()
    pathlib.Path("/workspace/planted.txt").write_text("planted")
    return wheel(folder, "built", "1.0", f"SEEN = {seen}\\n")
'''
simple = pathlib.Path(sys.argv[1]) / "simple"
for name in ["greeting", "words", "built"]:
    (simple / name).mkdir(parents=True)
for version in ["1.0", "2.0"]:
    code = f"import words\nTEXT = words.WORD + ' {version}'\n"
    wheel(simple / "greeting", "greeting", version, code, ["words>=0.1"])
wheel(simple / "words", "words", "0.1", "WORD = 'hello'\n")
with tarfile.open(simple / "built" / "built-1.0.tar.gz", "w:gz") as made:
    for name, text in {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": BACKEND,
        "PKG-INFO": "Metadata-Version: 2.1\nName: built\nVersion: 1.0\n",
    }.items():
        entry = tarfile.TarInfo(f"built-1.0/{name}")
        entry.size = len(text.encode())
        made.addfile(entry, io.BytesIO(text.encode()))
"#;

/// An index that is served.
pub(crate) struct Served {
    server: Child,
    pub(crate) port: u16,
    _folder: tempfile::TempDir,
}

impl Served {
    pub(crate) fn start() -> Served {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path());
        let mut server = Command::new("python3")
            .args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"])
            .arg(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let port = said.split_whitespace().skip_while(|word| *word != "port").nth(1);
        Served { port: port.unwrap_or_else(|| panic!("{said}")).parse().unwrap(), server, _folder: folder }
    }

    /// Where it is, with what it takes to get in.
    pub(crate) fn address(&self) -> String {
        format!("http://me:hunter2@127.0.0.1:{}/simple/", self.port)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn make(folder: &Path) {
    let made = Command::new("python3").args(["-c", MAKE]).arg(folder).status().unwrap();
    assert!(made.success());
}
