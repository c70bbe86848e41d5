# A project of its own: a virtual environment with pip, a package, its tests, bytecode, a zipped application, profiling.
import compileall, cProfile, io, os, pathlib, pstats, subprocess, timeit, tracemalloc, venv, zipapp, zipfile

venv.create("/tmp/venv", with_pip=True)
python = "/tmp/venv/bin/python"


def run(*words, **more):
    return subprocess.run([python, *words], capture_output=True, text=True, check=True, **more).stdout


assert run("-c", "import sys; print(sys.prefix)") == "/tmp/venv\n"
project = pathlib.Path("/tmp/project/greet")
project.mkdir(parents=True)
(project / "__init__.py").write_text("def greet(name):\n    return f'hello {name}'\n")
(project / "__main__.py").write_text("import sys\nfrom greet import greet\nprint(greet(sys.argv[1]))\n")
(project.parent / "test_greet.py").write_text(
    "import greet, unittest\nclass Test(unittest.TestCase):\n    def test(self): self.assertEqual(greet.greet('a'), 'hello a')\n")
wheel = "/tmp/greet-1-py3-none-any.whl"
with zipfile.ZipFile(wheel, "w") as archive:
    for file in project.iterdir():
        archive.write(file, f"greet/{file.name}")
    archive.writestr("greet-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: greet\nVersion: 1\n")
    archive.writestr("greet-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    archive.writestr("greet-1.dist-info/RECORD", "")
run("-m", "pip", "install", "--no-index", "--quiet", wheel)
assert run("-m", "greet", "you", cwd="/") == "hello you\n" and "greet" in run("-m", "pip", "list")
run("-m", "unittest", "discover", "-s", "/tmp/project")
assert compileall.compile_dir("/tmp/project", quiet=1)
zipapp.create_archive("/tmp/project", "/tmp/app.pyz", main="greet:greet")
assert os.path.getsize("/tmp/app.pyz") > 100

profile = cProfile.Profile()
profile.runcall(sorted, range(1000))
pstats.Stats(profile, stream=io.StringIO()).print_stats()
tracemalloc.start()
kept = [bytes(1000) for _ in range(100)]
assert tracemalloc.get_traced_memory()[0] > 100000 and timeit.timeit("1+1", number=1000) < 5
print("done")
