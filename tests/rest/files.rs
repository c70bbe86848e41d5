//! Files of a session, one by one and as archives.

use super::*;

#[test]
fn files_go_in_and_out_and_never_outside() {
    everywhere(|served| {
        served.post("/api/v1/sessions", &json!({"id": "f", "disk": "32M", "memory": "128M"})).is(201);
        let at = |path: &str| format!("/api/v1/sessions/f/files{path}");
        let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n * 7) as u8).collect();
        let put = served.send(
            "PUT",
            &at("/data/big.bin"),
            &[("content-type", "application/octet-stream"), ("x-file-mode", "0755")],
            &bytes,
        );
        assert_eq!(put.is(200)["size"], 3_000_000);
        let got = served.get(&at("/data/big.bin"));
        assert!(got.status == 200 && got.body == bytes);
        assert_eq!(got.header("content-disposition"), Some("attachment; filename=\"big.bin\""));
        let part = served.send("GET", &at("/data/big.bin"), &[("range", "bytes=1000000-1000009")], b"");
        assert_eq!((part.status, &part.body[..]), (206, &bytes[1_000_000..1_000_010]));
        assert_eq!(part.header("content-range"), Some("bytes 1000000-1000009/3000000"));
        served.send("GET", &at("/data/big.bin"), &[("range", "bytes=9000000-")], b"").is(416);
        let form = b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"note.txt\"\r\n\r\nhello\r\n--B--\r\n";
        let up = served.send(
            "POST",
            &at("/upload?path=docs/note.txt"),
            &[("content-type", "multipart/form-data; boundary=B")],
            form,
        );
        assert_eq!(up.is(200)["size"], 5);
        served.post(&at("/directories"), &json!({"path": "empty/dir"})).is(201);
        served.post(&at("/move"), &json!({"from": "docs/note.txt", "to": "note.txt"})).is(200);
        served.post(&at("/move"), &json!({"from": "note.txt", "to": "data/big.bin"})).is(409);
        let seen = served.post("/api/v1/sessions/f/execute-sync", &python("import os, hashlib\nprint(open('note.txt').read(), oct(os.stat('data/big.bin').st_mode & 0o777), len(open('data/big.bin', 'rb').read()))\nos.symlink('/etc/passwd', 'link'); os.symlink('/', 'root')"));
        assert_eq!(seen.is(200)["stdout"], "hello 0o755 3000000\n");
        for path in [
            "/link",
            "/root/etc/passwd",
            "/%2e%2e/%2e%2e/etc/passwd",
            "/..%2fx",
            "/a%00b",
            "//etc/passwd",
            "/link/x",
        ] {
            let answer = served.get(&at(path));
            assert!(
                matches!(answer.status, 400 | 404 | 409 | 422),
                "{path}: {} {}",
                answer.status,
                answer.text()
            );
            assert!(!answer.text().contains("root:"), "{path}");
        }
        served.send("PUT", &at("/root/tmp/x"), &[], b"x").is(422);
        let list = served.get(&at("?recursive=true")).is(200);
        let names: Vec<&str> =
            list["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
        assert_eq!(names, ["data", "data/big.bin", "docs", "empty", "empty/dir", "link", "note.txt", "root"]);
        // Beyond its storage, and nothing is left of it.
        let full = served.send(
            "PUT",
            &at("/more"),
            &[("content-type", "application/octet-stream")],
            &vec![1; 33 << 20],
        );
        assert_eq!(full.is(507)["code"], "storage_full");
        served.delete(&at("/data")).is(409);
        served.delete(&at("/data?recursive=true")).is(204);
        let patience = Instant::now() + Duration::from_secs(20);
        loop {
            let list = served.get(&at("")).is(200);
            let names: Vec<&str> =
                list["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
            if names == ["docs", "empty", "link", "note.txt", "root"] {
                break;
            }
            assert!(Instant::now() < patience, "{names:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        served.delete("/api/v1/sessions/f").is(204);
    });
}

/// What Python makes of a few lines, as bytes.
fn made(code: &str) -> Vec<u8> {
    let code = format!(
        "import io, sys, tarfile, zipfile, stat\nout = io.BytesIO()\ndef tar(*members):\n    with tarfile.open(fileobj=out, mode='w:gz') as t:\n        for name, kind, data in members:\n            i = tarfile.TarInfo(name); i.type = kind; i.size = len(data); i.linkname = '/etc/passwd'; i.mode = 0o4755\n            t.addfile(i, io.BytesIO(data))\nF, L, H, D, C = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE\n{code}\nsys.stdout.buffer.write(out.getvalue())"
    );
    let made = std::process::Command::new("/usr/bin/python3").args(["-c", &code]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    made.stdout
}

#[test]
fn archives_go_in_whole_or_not_at_all_and_come_out_without_links() {
    everywhere(|served| {
        served.post("/api/v1/sessions", &json!({"id": "z", "disk": "32M", "memory": "128M"})).is(201);
        let put = |query: &str, bytes: &[u8]| {
            served.send(
                "PUT",
                &format!("/api/v1/sessions/z/archive{query}"),
                &[("content-type", "application/octet-stream")],
                bytes,
            )
        };
        let names = || {
            let list = served.get("/api/v1/sessions/z/files?recursive=true").is(200);
            list["files"]
                .as_array()
                .unwrap()
                .iter()
                .map(|file| file["path"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let hostile = [
            ("", "tar(('ok', F, b'1'), ('../x', F, b'1'))"),
            ("", "tar(('ok', F, b'1'), ('/etc/x', F, b'1'))"),
            ("", "tar(('ok', F, b'1'), ('l', L, b''))"),
            ("", "tar(('ok', F, b'1'), ('l', H, b''))"),
            ("", "tar(('ok', F, b'1'), ('dev', C, b''))"),
            ("", "tar(('ok', F, b'1'), ('ok', F, b'2'))"),
            ("", "tar(('ok', F, b'1'), ('ok/below', F, b'2'))"),
            ("", "tar(('ok', F, b'1'), ('a\\\\b', F, b'2'))"),
            ("", "tar(*[(f'f{n}', F, b'') for n in range(10001)])"),
            ("", "tar(('bomb', F, bytes(40 << 20)))"),
            ("", "out.write(b'no archive at all')"),
            (
                "?format=zip",
                "z = zipfile.ZipFile(out, 'w'); z.writestr('ok', '1'); z.writestr('../x', '1'); z.close()",
            ),
            (
                "?format=zip",
                "z = zipfile.ZipFile(out, 'w'); z.writestr('ok', '1'); i = zipfile.ZipInfo('l'); i.external_attr = 0o120777 << 16; z.writestr(i, '/etc/passwd'); z.close()",
            ),
            (
                "?format=zip",
                "z = zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED); z.writestr('bomb', bytes(40 << 20)); z.close()",
            ),
            (
                "?format=zip",
                "z = zipfile.ZipFile(out, 'w', zipfile.ZIP_LZMA); z.writestr('ok', '1'); z.close()",
            ),
            ("?format=zip", "out.write(b'PK no archive')"),
            ("?path=../x", "tar(('ok', F, b'1'))"),
        ];
        for (query, code) in hostile {
            let answer = put(query, &made(code));
            assert!(matches!(answer.status, 413 | 422), "{code}: {} {}", answer.status, answer.text());
            assert_eq!(names(), [""; 0], "{code}");
        }
        let good = "tar(('d', D, b''), ('d/f', F, b'x' * 700_000), ('./g', F, b'2'), ('empty/dir', D, b''))";
        assert_eq!(put("", &made(good)).is(200), json!({"session_id": "z", "files": 2, "bytes": 700_001}));
        let good = "z = zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED); z.writestr('h', 'zip'); z.writestr('e/', ''); z.close()";
        assert_eq!(put("?format=zip&path=below", &made(good)).is(200)["files"], 1);
        assert_eq!(names(), ["below", "below/e", "below/h", "d", "d/f", "empty", "empty/dir", "g"]);
        let modes = served.post("/api/v1/sessions/z/execute-sync", &python("import os\nprint(oct(os.stat('g').st_mode))\nos.symlink('/etc/passwd', 'link')\nos.mkfifo('d/pipe')")).is(200);
        assert_eq!(modes["stdout"], "0o100755\n", "no set-id bits come out of an archive");
        for (query, code) in [
            (
                "",
                "t = tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read()))\nout.write(repr(sorted((m.name, m.size) for m in t)).encode())",
            ),
            (
                "?format=zip",
                "z = zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read()))\nassert z.testzip() is None\nout.write(repr(sorted((i.filename.rstrip('/'), i.file_size) for i in z.infolist())).encode())",
            ),
        ] {
            let answer = served.get(&format!("/api/v1/sessions/z/archive{query}"));
            assert_eq!(answer.status, 200);
            let told = listed(code, &answer.body);
            assert_eq!(
                told,
                "[('below', 0), ('below/e', 0), ('below/h', 3), ('d', 0), ('d/f', 700000), ('empty', 0), ('empty/dir', 0), ('g', 1)]"
            );
        }
        let part = served.get("/api/v1/sessions/z/archive?path=d");
        assert_eq!(
            listed(
                "t = tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read()))\nout.write(repr(t.getnames()).encode())",
                &part.body
            ),
            "['f']"
        );
        served.get("/api/v1/sessions/z/archive?path=nope").is(404);
    });
}

/// What Python says of these bytes.
fn listed(code: &str, bytes: &[u8]) -> String {
    let code = format!(
        "import io, sys, tarfile, zipfile\nout = io.BytesIO()\n{code}\nsys.stdout.buffer.write(out.getvalue())"
    );
    let mut python = std::process::Command::new("/usr/bin/python3")
        .args(["-c", &code])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(bytes).unwrap();
    String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap()
}
