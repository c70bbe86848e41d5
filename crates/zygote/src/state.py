"""What a forked interpreter has to renew or to learn before it may pass for one that has just started.

`refresh` renews what its parent had: random states, and what was found out about another process. `adopt` tells it
what only the request knows, where that is not what it knows already, and `begin` what time it is. No program can reach them: they are in no module, and no frame of theirs is left.
"""

import gc
import os
import sys
import time


def refresh():
    loaded = sys.modules.get
    # `random` renews itself: it has asked to be told of forks
    if numpy := loaded("numpy.random"):
        numpy.seed()
    if ssl := loaded("_ssl"):
        # It renews itself when it sees another process id, but in a namespace of its own a child may have that of one
        # it is a copy of
        ssl.RAND_add(os.urandom(32), 32.0)
    if tempfile := loaded("tempfile"):
        tempfile._name_sequence = tempfile.tempdir = None
    if uuid := loaded("uuid"):
        uuid._node = uuid._last_timestamp = None
    if platform := loaded("platform"):
        # Knows the host by name
        platform._uname_cache = None
        platform._platform_cache.clear()
    if threading := loaded("threading"):
        threading.main_thread()._set_native_id()
    if process := loaded("multiprocessing.process"):
        process.current_process()._config["authkey"] = process.AuthenticationString(os.urandom(32))
        process.ORIGINAL_DIR = os.getcwd()
    # Everything up to here belongs to the interpreter
    gc.freeze()
    # One that has just started has a few of these at hand, which were thrown away when everything was loaded
    [[] for _ in range(40)]


def adopt(arguments, environment):
    sys.argv[:] = arguments
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[-1:] = arguments
    zone = os.environ.get("TZ")
    os.environ._data.clear()
    os.environ._data.update(environment)
    if os.environ.get("TZ") != zone:
        time.tzset()


def begin():
    if logging := sys.modules.get("logging"):
        logging._startTime = time.time_ns() if isinstance(logging._startTime, int) else time.time()
