# The standard library: text, numbers, databases, archives, hashes, files.
import collections, csv, datetime, decimal, fractions, glob, gzip, hashlib, io, json, lzma, os, pathlib, pickle, random, re
import shutil, sqlite3, statistics, struct, tarfile, tempfile, textwrap, uuid, xml.etree.ElementTree as xml, zipfile, zoneinfo

assert re.findall(r"\d+", "a1b22") == ["1", "22"] and json.loads(json.dumps({"a": [1, None]})) == {"a": [1, None]}
assert decimal.Decimal("0.1") * 3 == decimal.Decimal("0.3") and fractions.Fraction(1, 3) * 3 == 1
assert statistics.median([3, 1, 2]) == 2 and collections.Counter("aab").most_common(1) == [("a", 2)]
assert datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")).utcoffset().seconds == 7200
assert hashlib.sha256(b"abc").hexdigest().startswith("ba7816bf") and hashlib.blake2b(b"").digest_size == 64
assert pickle.loads(pickle.dumps({1, 2})) == {1, 2} and struct.unpack("<I", struct.pack("<I", 7)) == (7,)
assert xml.fromstring("<a><b c='1'/></a>").find("b").get("c") == "1" and uuid.uuid4() != uuid.uuid4()

with tempfile.TemporaryDirectory() as folder:
    base = pathlib.Path(folder)
    (base / "deep/er").mkdir(parents=True)
    (base / "deep/er/file.txt").write_text("häuser\n" * 1000, encoding="utf-8")
    shutil.copytree(base / "deep", base / "copy")
    shutil.copystat(base / "deep/er/file.txt", base / "copy/er/file.txt")
    os.link(base / "deep/er/file.txt", base / "hard")
    os.symlink("hard", base / "soft")
    assert (base / "soft").read_bytes() == (base / "copy/er/file.txt").read_bytes()
    assert len(glob.glob(folder + "/**/*.txt", recursive=True)) == 2
    for mode in ("gz", "bz2", "xz"):
        with tarfile.open(base / f"all.tar.{mode}", f"w:{mode}") as archive:
            archive.add(base / "deep", "deep")
        with tarfile.open(base / f"all.tar.{mode}") as archive:
            archive.extractall(base / mode)
        assert (base / mode / "deep/er/file.txt").stat().st_size == 8000
    with zipfile.ZipFile(base / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(base / "hard", "hard")
    assert zipfile.ZipFile(base / "all.zip").testzip() is None
    assert gzip.decompress(gzip.compress(b"x" * 9999)) == lzma.decompress(lzma.compress(b"x" * 9999))

    database = sqlite3.connect(base / "data.db")
    database.execute("pragma journal_mode=wal")
    database.execute("create table t (n integer primary key, s text)")
    with database:
        database.executemany("insert into t (s) values (?)", ((str(n),) for n in range(5000)))
    assert database.execute("select count(*), sum(length(s)) from t").fetchone() == (5000, 18890)
    database.close()

rows = list(csv.DictReader(io.StringIO("a,b\n1,\"x,y\"\n")))
assert rows == [{"a": "1", "b": "x,y"}] and textwrap.fill("a b c", 3) == "a b\nc"
assert len({random.SystemRandom().getrandbits(128) for _ in range(100)}) == 100
print("done")
