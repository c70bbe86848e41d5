"""The programs that must not be able to tell a warm interpreter from a bare one.

Each has a name, a source, and what else it needs: arguments, standard input, variables, further files. `only_plain`
says why it is not compared when modules are preloaded, `before` from which version on the two are known to differ.
"""

PROGRAMS = []


def program(name, source, **more):
    PROGRAMS.append({"name": name, "source": source if isinstance(source, bytes) else source.lstrip("\n"), **more})


# What a program knows of itself

program("nothing at all", "")
program("argv", "import sys\nprint(sys.argv, getattr(sys, 'orig_argv', 0))", args=["a", "b c", "-x", "", "é", "\udcff"])
program("names of main", "print(sorted(dir()))\nprint(list(globals()))\nprint({k: repr(v) for k, v in globals().items() if k != '__loader__'})")
program("globals are main", "import sys, __main__\nprint(globals() is vars(__main__), locals() is globals(), sys.modules['__main__'] is __main__)\nprint(__main__)")
program("file, loader, spec", "print(__file__, __cached__, __spec__, __package__, __doc__, __name__)\nprint(type(__loader__), __loader__.name, __loader__.path, __builtins__)\nimport inspect\nprint(inspect.getsource(inspect.currentframe()))")
program("doc string and annotations", '"""Says what it does."""\nx: int = 1\nclass A: pass\ny: A\nprint(__doc__, __annotations__)')
program("flags", "import sys\nprint(sys.flags, sys.warnoptions, sys._xoptions, sys.dont_write_bytecode, sys.hash_info, sys.implementation)")
program("paths", "import sys\nprint(sys.path, sys.executable, sys._base_executable, sys.prefix, sys.exec_prefix, sys.base_prefix, sys.platlibdir)\nimport site\nprint(site.ENABLE_USER_SITE, site.USER_SITE, site.USER_BASE)")
program("importers", "import sys\nprint(sys.path_importer_cache.get(__file__, 'missing'), len(sys.path_hooks), sys.meta_path)")
program("encodings", "import sys, locale, os\nprint(sys.getdefaultencoding(), sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), locale.getpreferredencoding(), locale.setlocale(locale.LC_ALL), os.device_encoding(0))\nprint('é ✓ 日本')")
program("standard streams", """
import sys
for s in sys.stdin, sys.stdout, sys.stderr:
    print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.newlines, s.isatty(), s.seekable(), s.fileno(), s.closed)
    print(type(s.buffer), type(s.buffer.raw), s.buffer.raw.mode, s.buffer.raw.closefd, s.buffer.raw._blksize)
print(sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__)
""")
program("no descriptor is left open", "import os\nprint(sorted(os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))\nprint([os.get_inheritable(fd) for fd in (0, 1, 2)])")
program("environment", "import os\nprint(dict(os.environ), os.environb.keys())\nprint(os.popen('env | grep -v ^_= | sort').read())\nprint(os.getenv('GREETING'))", variables={"GREETING": "hello there", "EMPTY": "", "EQUALS": "a=b", "BYTES": "\udcfe"})
program("environment is passed on", "import os, subprocess\nos.environ['NEW'] = 'x'\ndel os.environ['GREETING']\nprint(subprocess.run(['sh', '-c', 'echo $NEW $GREETING.'], capture_output=True).stdout)", variables={"GREETING": "hello"})
program("environment in the kernel", "print(b'LD_PRELOAD' in open('/proc/self/environ', 'rb').read(), b'ZYGOTE' in open('/proc/self/environ', 'rb').read())")
program("command line in the kernel", "print(open('/proc/self/cmdline').read(), open('/proc/self/comm').read())")
program("time zone", "import time, datetime\nprint(time.tzname, time.timezone, time.daylight, time.localtime(0).tm_hour, datetime.datetime.fromtimestamp(0))", variables={"TZ": "Asia/Tokyo"})
program("time zone of the host", "import time\nprint(time.tzname, time.timezone, time.localtime(0)[:])")
program("process and thread", "import os, threading, _thread\nm = threading.main_thread()\nprint(os.getpid() == threading.get_native_id() == m.native_id, m.ident == threading.get_ident(), m is threading.current_thread(), m, threading.active_count(), _thread._count(), os.getsid(0) == os.getpid())".replace("m, threading", "m.name, m.daemon, m.is_alive(), threading"))
program("working directory", "import os, pathlib\nprint(os.getcwd(), pathlib.Path.cwd(), os.listdir())")
program("limits of the interpreter", "import sys, gc, threading\nprint(sys.getrecursionlimit(), sys.getswitchinterval(), gc.get_threshold(), gc.isenabled(), gc.get_debug(), gc.garbage, threading.stack_size(), sys.gettrace(), sys.getprofile(), sys.is_finalizing())")
program("resources", "import resource\nprint([resource.getrlimit(n) for n in range(16)])")
program("modules", "import sys\nprint(sorted(sys.modules))", only_plain="the preloaded ones are there")

# Frames and tracebacks

program("stack", "import inspect, sys\ndef f():\n    return inspect.stack()\nfor frame in f(): print(frame.filename, frame.lineno, frame.function, frame.code_context)\nprint(sys._getframe().f_back)\nsys._getframe(1)")
program("print_stack", "import traceback\ndef f(): traceback.print_stack()\nf()")
program("uncaught", "def f(x):\n    return 1 / x\nprint('before')\nf(0)")
program("chained", "def f():\n    try:\n        {}['a']\n    except KeyError as e:\n        raise ValueError('bad') from e\ntry:\n    f()\nexcept ValueError:\n    raise RuntimeError('worse')")
program("note and group", "try:\n    raise ExceptionGroup('many', [ValueError(1), TypeError(2)])\nexcept NameError:\n    raise", )
program("syntax error", "print('never')\ndef broken(:\n    pass\n")
program("indentation error", "if True:\nprint(1)\n")
program("null byte", b"print(1)\x00\n")
program("not utf-8", b"print('\xff')\n")
program("latin-1 by declaration", b"# -*- coding: latin-1 -*-\nprint('\xe9')\nraise ValueError('\xe9')\n")
program("byte order mark and carriage returns", b"\xef\xbb\xbfprint(1)\r\nprint(2)\r\nraise ValueError\r\n")
program("no line end", "print(1)\nraise ValueError")
program("syntax error in a module", "import broken\n", files={"broken.py": "x = (\n"})
program("exception in a module", "import a.b\n", files={"a/__init__.py": "", "a/b.py": "import a.c\n", "a/c.py": "1/0\n"})
program("module not found", "try:\n    import nothing_of_that_name\nexcept ImportError as e:\n    print(e, e.name)\nimport jsn\n")
program("name and attribute suggestions", "import math\ntry:\n    math.sinn\nexcept AttributeError as e:\n    print(e)\nvalue = 1\nprint(valu)")
program("recursion", "import sys\nd = 0\ndef f():\n    global d\n    d += 1\n    f()\ntry:\n    f()\nexcept RecursionError as e:\n    print(d, e)\nsys.setrecursionlimit(100)\nd = 0\ntry:\n    f()\nexcept RecursionError:\n    print(d)\nf()")
program("deep recursion", "import sys\nsys.setrecursionlimit(20000)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(15000))")
program("excepthook", "import sys\ndef hook(t, v, tb):\n    print('hooked', t, v, tb.tb_lineno, tb.tb_next)\nsys.excepthook = hook\nraise ValueError(3)")
program("excepthook that exits", "import sys, atexit\natexit.register(print, 'at exit')\ndef hook(t, v, tb):\n    sys.exit(7)\nsys.excepthook = hook\nraise ValueError(3)")
program("excepthook that raises", "import sys\ndef hook(*_):\n    raise KeyError('in hook')\nsys.excepthook = hook\nraise ValueError(3)")
program("last exception", "import sys, atexit\natexit.register(lambda: print(sys.last_type, sys.last_value, '__file__' in globals()))\nraise ValueError(3)")
program("warnings", "import warnings\ndef f(): warnings.warn('deep', stacklevel=2)\nf()\nwarnings.warn('old', DeprecationWarning)\nfor i in range(2): warnings.warn('once')\nprint(warnings.filters)", )
program("warnings as the compiler sees them", "x = 1\nprint(x is 1)\nassert (x, 'y')\n'\\d'")
program("source lines", "import linecache\nprint(linecache.getlines(__file__))\nprint(repr(linecache.getline('main.py', 1)))")

# Ends

# From 3.12 on the interpreter forgets to clear an exception here, and where it then shows depends on `threading`
LEFT_SET = {"only_plain": "which modules are there shows in the output"}
for name, code in {"none": "None", "zero": "0", "three": "3", "true": "True", "negative": "-1", "large": "300",
                   "huge": "1 << 70", "text": "'gone'", "empty text": "''", "float": "1.5", "tuple": "(1, 2)",
                   "object": "type('T', (), {'__str__': lambda s: 'T!'})()"}.items():
    program(f"exit with {name}", f"import sys\nprint('out')\nsys.exit({code})", **(LEFT_SET if name == "huge" else {}))
program("exit without code", "raise SystemExit")
program("exit with arguments", "raise SystemExit(1, 2)")
program("exit of a subclass", "class E(SystemExit):\n    def __init__(self): super().__init__('x'); self.code = 9\nraise E")
program("exit whose code cannot be had", "class E(SystemExit):\n    @property\n    def code(self): raise ValueError\nraise E(5)")
program("exit whose text cannot be had", "class T:\n    def __str__(self): raise ValueError('no')\nraise SystemExit(T())", **LEFT_SET)
program("exit without stderr", "import sys\nsys.stderr = None\nsys.exit('x')")
program("exit from a function and finally", "import sys\ndef f():\n    try:\n        sys.exit(4)\n    finally:\n        print('finally')\nf()")
program("exit in a thread", "import sys, threading\nt = threading.Thread(target=sys.exit, args=(5,))\nt.start(); t.join()\nprint('main')")
program("built-in exit", "print(quit)\nexit(6)")
program("_exit", "import os\nprint('lost')\nos._exit(8)")
program("at exit", "import atexit, sys\nfor i in range(3): atexit.register(print, i)\nimport __main__\natexit.register(lambda: print('file', '__file__' in vars(__main__)))\nprint('main')\nsys.exit(2)")
program("at exit, no exit", "import atexit\natexit.register(lambda: print('__file__' in globals(), '__cached__' in globals()))\n")
program("raise at exit", "import atexit\natexit.register(print, 'first registered')\ndef bad(): raise ValueError('at exit')\natexit.register(bad)\natexit.register(print, 'last registered')")
program("exit at exit", "import atexit, sys\natexit.register(print, 'first')\natexit.register(sys.exit, 3)\nprint('main')")
program("register at exit", "import atexit\natexit.register(lambda: atexit.register(print, 'late'))")
program("thread at exit", "import atexit, threading\ndef f():\n    try:\n        t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n    except RuntimeError as e:\n        print(e)\natexit.register(f)", before="3.12")
program("del at exit", "class D:\n    def __init__(s, n): s.n = n\n    def __del__(s): print('del', s.n, __name__, s)\n    def __repr__(s): return f'<D {s.n}>'\na = D('a')\nb = D('b')\n_c = D('c')\nd = [D('d1'), D('d2')]\ncycle = D('cycle'); cycle.self = cycle\ndel cycle\nprint('end')")
program("del at exit without functions", "import lib\na = lib.D('a'); b = lib.D('b')\nprint('end')", files={"lib.py": "class D:\n    def __init__(s, n): s.n = n\n    def __del__(s): print('del', s.n)\nown = D('own')\n_private = D('private')\n"})
program("del in modules", "import one, two\nprint('end')", files={
    "one.py": "import sys, two\nclass D:\n    def __init__(s, n): s.n = n\n    def __del__(s): print('del', s.n, __name__)\nx = D('one')\n", "two.py": "import one\ndef make():\n    return one.D('two')\ndef later():\n    global x\n    x = make()\n"})
program("del raises", "class D:\n    def __del__(s): raise ValueError('in del')\nd = D()\nprint('end')")
program("del imports", "class D:\n    def __del__(s):\n        import os\n        print(os.sep)\nd = D()\n")
program("del after an exception", "class D:\n    def __del__(s): print('del')\ndef f():\n    d = D()\n    raise ValueError\nf()")
program("del after exit in a function", "import sys\nclass D:\n    def __del__(s): print('del')\ndef f():\n    d = D()\n    sys.exit(3)\nf()")
program("del held by a preloaded module", "import os, json\nclass D:\n    def __del__(s): print('del')\njson.mine = D()\nprint('end')")
program("del held by sys and builtins", "import sys, builtins\nclass D:\n    def __init__(s, n): s.n = n\n    def __del__(s): print('del', s.n)\nsys.mine = D('sys')\nbuiltins.mine = D('builtins')\nprint('end')")
program("del of typed class", "from typing import List, Optional\nclass D:\n    def __del__(s): print('del')\nx: Optional[List[D]] = [D()]\ndef f(a: List[D]) -> Optional[D]: ...\nprint('end')", only_plain="the bare interpreter forgets it, too, once it has imported so much")
program("del with collection off", "import gc\ngc.disable()\nclass D:\n    def __del__(s): print('del')\nd = D(); d.d = d\ndel d\nprint('end')")
program("weakref callbacks at exit", "import weakref\nclass A: pass\na = A()\nr = weakref.ref(a, lambda r: print('gone'))\nweakref.finalize(a, print, 'finalized')\nb = A()\nf = weakref.finalize(b, print, 'not me'); f.atexit = False\nprint('end')")
program("weakref callbacks of C", "import weakref\nclass A:\n    def __repr__(s): return 'A'\na = A()\nr = weakref.ref(a, lambda r, p=print: p('gone', r() is None))\nb = A()\nq = weakref.ref(b, print)\ns = weakref.WeakSet([a]); v = weakref.WeakValueDictionary({1: b})\nprint('end')")
program("generator and context at exit", "import contextlib\ndef g():\n    try:\n        yield 1\n    finally:\n        print('closed')\nx = g(); next(x)\n@contextlib.contextmanager\ndef c():\n    try:\n        yield\n    finally:\n        print('left')\ncm = c(); cm.__enter__()\nprint('end')")
program("file not closed", "f = open('out.txt', 'w')\nf.write('kept' * 10)\nimport atexit, os\nprint(os.path.getsize('out.txt'))", produces=["out.txt"])
program("file held by a preloaded module", "import json\njson.file = open('out.txt', 'w')\njson.file.write('kept')\n", produces=["out.txt"])
program("stdout replaced by a file", "import sys\nsys.stdout = open('out.txt', 'w')\nprint('kept')\n", produces=["out.txt"])
program("stdout wrapped", "import sys, io\nclass Tee(io.StringIO):\n    def flush(s): sys.__stdout__.write('flushed '); super().flush()\nsys.stdout = Tee()\nprint('x')")
program("stdout detached", "import sys\nraw = sys.stdout.detach()\nraw.write(b'bytes')\n")
program("stdout none", "import sys\nsys.stdout = None\nprint('x')")
program("stdout closed by the program", "import sys\nprint('x')\nsys.stdout.close()")
program("stdout descriptor closed", "import os, sys\nprint('x')\nos.close(1)")
program("stderr descriptor closed", "import os, sys\nsys.stderr.write('x')\nos.close(2)\nraise ValueError")
program("nobody reads stdout", "import time\ntime.sleep(0.2)\nprint('x' * 10)", closed_stdout=True)
program("nobody reads stdout, flushed", "import time, sys\ntime.sleep(0.2)\nprint('x' * 10, flush=True)", closed_stdout=True)
program("order of streams", "import sys, os\nprint('1')\nprint('2', file=sys.stderr)\nos.write(1, b'3\\n')\nprint('4', end='')\nsys.stdout.flush()\nos.write(1, b'5')")
program("much output", "print('x' * 300000)\nimport sys\nsys.stderr.write('y' * 100000)")
program("printf of C", "import ctypes\nlibc = ctypes.CDLL(None)\nprint('python')\nlibc.printf(b'from C\\n')\nlibc.atexit(0) if 0 else None")
program("printf of C and exit", "import ctypes, sys\nlibc = ctypes.CDLL(None)\nlibc.printf(b'from C\\n')\nprint('python')\nsys.exit(3)")

# Signals

for signal in "SIGTERM", "SIGKILL", "SIGSEGV", "SIGINT", "SIGHUP", "SIGUSR1", "SIGPIPE", "SIGALRM", "SIGXFSZ", "SIGCHLD":
    program(f"kill by {signal}", f"import os, signal, time\nprint('flushed', flush=True)\nos.kill(os.getpid(), signal.{signal})\ntime.sleep(0.05)\nprint('still there')")
program("abort", "import os\nprint('lost')\nos.abort()")
program("signal handlers", "import signal\nprint([signal.getsignal(s) for s in range(1, 32)])\nprint(open('/proc/self/status').read().split('SigQ')[1].split('CapInh')[0].split('ShdPnd')[1])")
program("handler", "import os, signal\ndef h(n, frame): print('caught', n, frame.f_lineno, frame.f_code.co_name)\nsignal.signal(signal.SIGTERM, h)\nos.kill(os.getpid(), 15)\nsignal.raise_signal(signal.SIGTERM)\nsignal.alarm(1)\nsignal.signal(signal.SIGALRM, h)\nsignal.pause()")
program("interrupt caught", "import os, signal, time\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(1)\nexcept KeyboardInterrupt:\n    print('caught')")
program("interrupt raised by hand", "import atexit\natexit.register(print, 'at exit')\nraise KeyboardInterrupt")
program("interrupt of a subclass", "class K(KeyboardInterrupt): pass\nraise K('x')")
program("fault handler", "import faulthandler, ctypes, re\nprint(faulthandler.is_enabled())\nfaulthandler.enable()\ndef f(): ctypes.string_at(0)\nf()")
program("broken pipe", "import subprocess, sys\np = subprocess.Popen(['true'], stdin=subprocess.PIPE)\np.wait()\ntry:\n    p.stdin.write(b'x'); p.stdin.flush()\nexcept BrokenPipeError as e:\n    print(e)\nprint(subprocess.run('yes | head -1', shell=True, capture_output=True))")

# Input

program("stdin read", "import sys\nprint(repr(sys.stdin.read()))", stdin=b"one\r\ntwo\n\xc3\xa9")
program("stdin input", "print(input('name? '))\nprint([*__import__('sys').stdin])", stdin=b"a\nb\nc")
program("stdin at its end", "try:\n    input()\nexcept EOFError as e:\n    print(e)\ninput()")
program("stdin binary and raw", "import sys, os\nprint(sys.stdin.buffer.read(3), os.read(0, 100))", stdin=b"abc" + b"x" * 5000)
program("stdin read by a child", "import subprocess, sys, os\nprint(os.read(0, 4))\nsys.stdout.flush()\nsubprocess.run(['cat'])", stdin=b"one\ntwo\nthree\n")
program("stdin large", "import sys, hashlib\nprint(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())", stdin=bytes(range(256)) * 2000)
program("stdin not read", "print(1)", stdin=b"x" * 200000)

# Threads and processes

program("threads", "import threading, time\ndef f(n):\n    time.sleep(0.05)\n    print('thread', n)\nthreading.Thread(target=f, args=(1,)).start()\nprint('main ends')")
program("daemon thread", "import threading, time\ndef f():\n    while True:\n        time.sleep(0.01)\nthreading.Thread(target=f, daemon=True).start()\nclass D:\n    def __del__(s): print('del')\nd = D()\nprint('main ends')")
program("daemon thread, nothing else", "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint('main ends')")
program("interrupt while threads are waited for", "import threading, time, os, signal\nthreading.Thread(target=time.sleep, args=(0.5,)).start()\nthreading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\nprint('main ends')", before="3.13")
program("subinterpreter", "import _xxsubinterpreters as s\ni = s.create()\ns.run_string(i, 'print(1)')\nprint(2)", before="3.13")
program("daemon thread that is busy", "import threading\ndef f():\n    while True: pass\nthreading.Thread(target=f, daemon=True).start()\nprint('main ends')")
program("exception in a thread", "import threading\ndef f(): raise ValueError('in thread')\nt = threading.Thread(target=f); t.start(); t.join()")
program("thread local and timer", "import threading\nl = threading.local(); l.x = 1\nt = threading.Timer(0.01, print, ['timer']); t.start(); t.join(); print(l.x)")
program("thread pool", "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as p: print(list(p.map(lambda n: n * n, range(10))))\np = ThreadPoolExecutor(2)\np.submit(print, 'late')")
program("process pool", "from concurrent.futures import ProcessPoolExecutor\ndef f(n): return n * n\nif __name__ == '__main__':\n    with ProcessPoolExecutor(2) as p: print(list(p.map(f, range(5))))")
for method in "fork", "spawn", "forkserver":
    program(f"multiprocessing by {method}", f"""
import multiprocessing as mp, os, sys
def f(n):
    return n * n, __name__, mp.current_process().name, os.path.basename(sys.argv[0]), sys.path[0] == os.getcwd()
def g(q, e): q.put((os.environ.get('GREETING'), e)); sys.exit(3)
if __name__ == '__main__':
    mp.set_start_method('{method}')
    print(mp.current_process(), mp.parent_process())
    with mp.Pool(1) as pool: print(pool.map(f, range(3)))
    q = mp.Queue(); p = mp.Process(target=g, args=(q, 1)); p.start(); print(q.get()); p.join(); print(p.exitcode)
    print(mp.get_start_method(), mp.active_children())
""", variables={"GREETING": "hello"})
program("multiprocessing, shared things", "import multiprocessing as mp\nfrom multiprocessing import shared_memory, Manager\ndef f(v, l):\n    with l: v.value += 1\nif __name__ == '__main__':\n    v, l = mp.Value('i', 0), mp.Lock()\n    ps = [mp.Process(target=f, args=(v, l)) for _ in range(3)]\n    [p.start() for p in ps]; [p.join() for p in ps]; print(v.value)\n    with Manager() as m:\n        d = m.dict(); d['a'] = 1; print(dict(d))\n    s = shared_memory.SharedMemory(create=True, size=10); s.buf[0] = 1; print(s.buf[0]); s.close(); s.unlink()")
program("fork", "import os, sys, atexit\natexit.register(lambda: print('at exit', os.getpid() == pid))\npid = os.getpid()\nprint('twice unless flushed', flush=True)\nif os.fork() == 0:\n    print('child', os.getppid() == pid)\n    pid = os.getpid()\n    sys.exit(5)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))")
program("fork that falls through", "import os\nclass D:\n    def __del__(s): print('del')\nd = D()\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('parent' if pid else 'child')")
program("fork and exec", "import os, sys\nif os.fork() == 0:\n    os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])\nprint(os.wait()[1])\nsys.stdout.flush()\nos.execlp('sh', 'sh', '-c', 'echo replaced; exit 4')")
program("posix_spawn and system", "import os, sys\nsys.stdout.flush()\nprint(os.waitpid(os.posix_spawn('/bin/sh', ['sh', '-c', 'exit 2'], os.environ), 0)[1], os.system('exit 3'))")
program("subprocess of the interpreter", "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import sys, os; print(sys.flags, sys.path, dict(os.environ), os.listdir(\"/proc/self/fd\"))'], capture_output=True, text=True).stdout)\nprint(subprocess._args_from_interpreter_flags())")
program("subprocess that fails", "import subprocess\ntry:\n    subprocess.run(['/nonexistent'])\nexcept FileNotFoundError as e:\n    print(e)\nsubprocess.check_call(['false'])")
program("signals of a subprocess", "import subprocess\nprint(subprocess.run(['sh', '-c', 'grep Sig /proc/self/status'], capture_output=True, text=True).stdout.split('SigPnd')[1])\nprint(subprocess.run(['sh', '-c', 'kill -INT $$']).returncode)")
program("asyncio", "import asyncio\nasync def f(n):\n    await asyncio.sleep(0.01)\n    return n\nasync def main():\n    print(await asyncio.gather(*map(f, range(3))))\n    p = await asyncio.create_subprocess_exec('echo', 'hi', stdout=asyncio.subprocess.PIPE)\n    print(await p.communicate(), await asyncio.to_thread(lambda: 7))\nasyncio.run(main())\nasync def bad(): raise ValueError('async')\nasyncio.run(bad())")
program("asyncio left behind", "import asyncio\nasync def f():\n    try:\n        await asyncio.sleep(10)\n    finally:\n        print('cancelled')\nloop = asyncio.new_event_loop()\nt = loop.create_task(f())\nloop.run_until_complete(asyncio.sleep(0.01, loop=None) if 0 else asyncio.wait_for(asyncio.sleep(0), 1) if 0 else asyncio.sleep(0))\nprint('end')", forget=rb"fd=\d+")
program("asyncio interrupted", "import asyncio, os, signal\nasync def main():\n    os.kill(os.getpid(), signal.SIGINT)\n    await asyncio.sleep(1)\nasyncio.run(main())")

# Modules and tools

program("local packages", "from shapes.square import area\nfrom shapes import square\nimport helper, shapes\nprint(helper.shout('area'), area(3), helper.__file__, shapes.__path__, square.__spec__)\nprint(helper.__cached__ if hasattr(helper, '__cached__') else '')", files={"helper.py": "def shout(s):\n    return s.upper()\n", "shapes/__init__.py": "", "shapes/square.py": "def area(n):\n    return n * n\n"})
program("a file that hides a module", "import random\nprint(random.hidden)", files={"random.py": "hidden = True"}, only_plain="the preloaded one is found first")
program("reload", "import importlib, helper, json\nprint(helper.n)\nopen('helper.py', 'w').write('n = 22\\n')\nprint(importlib.reload(helper).n, importlib.reload(json) is json)", files={"helper.py": "n = 1\n"})
program("import by hand", "m = __import__('os.path')\nprint(m.__name__)\nimport importlib.util, sys\ns = importlib.util.spec_from_file_location('x', 'helper.py'); m = importlib.util.module_from_spec(s); s.loader.exec_module(m); print(m.n)\nprint(importlib.import_module('helper').n, importlib.util.find_spec('json').origin)\nimport pkgutil; print([m.name for m in pkgutil.iter_modules(['.'])])", files={"helper.py": "n = 1\n"})
program("runpy", "import runpy, sys\nprint(runpy.run_path('other.py', run_name='__main__')['x'])\nprint(sys.argv)\nrunpy.run_module('other', run_name='__main__', alter_sys=True)", files={"other.py": "import sys\nx = __name__, sys.argv[0]\nprint(x, sorted(globals()))\n"})
program("main is imported again", "import sys\nprint(__name__)\nif __name__ == '__main__':\n    import main\n    print(main.__name__, main is sys.modules['__main__'])")
program("pickle", "import pickle, copy\nclass A:\n    def __init__(s): s.x = 1\ndef f(): pass\nb = pickle.dumps([A(), f, A])\nprint(b)\nprint(pickle.loads(b)[0].x, copy.deepcopy(A()).x)")
program("exec and eval", "exec('x = 1\\nprint(__name__, __file__)')\nprint(eval('x + 1'), compile('1', 'f', 'eval'))\nexec('raise ValueError(1)')")
program("trace and profile", "import sys\nn = []\ndef t(frame, event, arg):\n    n.append((event, frame.f_code.co_name))\n    return t\ndef f():\n    return 1\nsys.settrace(t); f(); sys.settrace(None); print(n)\nimport cProfile; cProfile.run('f()', 'prof'); print(len(open('prof','rb').read()) > 0)")
program("tracemalloc", "import tracemalloc\nprint(tracemalloc.is_tracing())\ntracemalloc.start()\nx = [0] * 100000\nprint(tracemalloc.get_traced_memory()[0] > 700000, tracemalloc.get_object_traceback(x))")
program("logging", "import logging\nlogging.warning('bare')\nlogging.basicConfig(level=logging.INFO, format='%(levelname)s %(name)s %(module)s %(lineno)d %(processName)s %(threadName)s %(message)s')\nlogging.getLogger('x').info('hello')\nr = logging.makeLogRecord({}); print(r.relativeCreated < 2000, logging.root.handlers != [])\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    logging.exception('oops')")
program("logging, kept in memory until the end", "import logging, logging.handlers, sys\nh = logging.handlers.MemoryHandler(100, target=logging.StreamHandler(sys.stdout))\nlogging.getLogger().addHandler(h)\nlogging.error('late')\nprint('end')")
program("logging to a file", "import logging\nlogging.basicConfig(filename='log.txt', format='%(message)s')\nlogging.error('kept')", produces=["log.txt"])
program("unittest", "import unittest\nclass T(unittest.TestCase):\n    def test_good(self): pass\n    def test_bad(self): self.assertEqual(1, 2)\nunittest.main()", forget=rb"in \d\.\d+s")
program("unittest, verbose by argument", "import unittest\nclass T(unittest.TestCase):\n    def test_good(self): 'says so'\n    @unittest.skip('why')\n    def test_skipped(self): pass\nunittest.main()", args=["-v"], forget=rb"in \d\.\d+s")
program("argparse", "import argparse\np = argparse.ArgumentParser(description='d')\np.add_argument('--n', type=int, required=True)\nprint(p.parse_args())", args=["--m"])
program("argparse help", "import argparse\np = argparse.ArgumentParser()\np.add_argument('n', type=int, help='a number')\np.parse_args()", args=["--help"], variables={"COLUMNS": "60"})
program("doctest", "def f():\n    '''\n    >>> f()\n    1\n    >>> f() + 1\n    3\n    '''\n    return 1\nimport doctest\nprint(doctest.testmod())")
program("dataclasses, enum, typing", "from dataclasses import dataclass, field, asdict\nfrom enum import Enum\nfrom typing import *\n@dataclass(order=True)\nclass P:\n    x: int\n    y: List[int] = field(default_factory=list)\nclass C(Enum): R = 1\nprint(P(1), asdict(P(2, [3])), P(1) < P(2), C.R, get_type_hints(P), P.__module__, P.__qualname__)\nclass N(NamedTuple):\n    a: int\nprint(N(1))")
program("decimal and fractions", "from decimal import *\nfrom fractions import Fraction\nprint(getcontext(), Decimal(1) / 3, Fraction(1, 3) + 1)\nDecimal(1) / 0")
program("sqlite3", "import sqlite3\nc = sqlite3.connect('x.db')\nc.execute('create table t (a)')\nc.executemany('insert into t values (?)', [(i,) for i in range(3)])\nc.commit()\nprint(c.execute('select sum(a) from t').fetchall())\nc.execute('select * from nothing')")
program("temporary files", "import tempfile, os\nprint(tempfile.gettempdir())\nwith tempfile.TemporaryDirectory() as d: print(os.path.dirname(d), os.path.isdir(d))\nt = tempfile.TemporaryDirectory()\nprint(os.path.isdir(t.name))", variables={"TMPDIR": "."}, forget=rb"tmp[a-z0-9_]{8}")
program("temporary directory left behind", "import tempfile, os\nt = tempfile.TemporaryDirectory(dir='.')\nprint(len(os.listdir()))", forget=rb"tmp[a-z0-9_]{8}", produces=["."])
program("platform", "import platform, sysconfig\nprint(platform.uname(), platform.platform(), platform.python_version(), sysconfig.get_paths(), platform.node())")
program("context and secrets", "import contextvars, secrets, uuid, os\nv = contextvars.ContextVar('v', default=1)\nprint(v.get(), len(secrets.token_hex()), uuid.uuid4().version, uuid.uuid5(uuid.NAMESPACE_DNS, 'x'))\nprint(list(contextvars.copy_context().items()))")
program("random with a seed", "import random\nrandom.seed(1)\nprint(random.random(), random.sample(range(100), 5))")
program("zip as main", b"", archive={"__main__.py": "import sys\nprint(__file__, sys.argv, sys.path[0], __spec__, __package__, sorted(globals()))\nraise ValueError"}, args=["x"])
program("audit, breakpoint, help", "import sys\nsys.addaudithook(lambda e, a: print(e, a) if e == 'open' and 'main' in a[0] else None)\nopen(__file__)\nprint(help, copyright is not None)\nimport pydoc\nprint(pydoc.render_doc(len)[:40])")
program("breakpoint", "x = 1\nbreakpoint()\nprint('after')", stdin=b"p x\nwhere\nc\n")
program("main file removed while it runs", "import os\nos.remove(__file__)\ndef f():\n    raise ValueError\nf()")
program("main file changed while it runs", "open(__file__, 'w').write('other\\n' * 9)\nraise ValueError")
program("memory error", "try:\n    x = bytearray(1 << 62)\nexcept MemoryError as e:\n    print(repr(e))\nx = [0] * (1 << 60)")
program("collection", "import gc\nclass A: pass\nn = gc.collect()\na = A(); a.a = a\ndel a\nprint(gc.collect(), gc.garbage)\nx = A()\nprint(gc.is_tracked(x), any(o is x for o in gc.get_objects()), [type(r) for r in gc.get_referrers(x)])")
program("numpy", "import numpy\nnumpy.random.seed(1)\nprint(numpy.arange(6).reshape(2, 3) @ numpy.ones(3), numpy.random.rand(2))", needs="numpy")
