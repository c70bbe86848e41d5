# Threads that share work: pools, queues, locks, events, timers, thread-local data.
import concurrent.futures, hashlib, queue, threading, time

jobs, results, lock = queue.Queue(), [], threading.Lock()
local = threading.local()


def work():
    local.count = 0
    while (item := jobs.get()) is not None:
        digest = hashlib.sha256(b"%d" % item * 1000).hexdigest()
        local.count += 1
        with lock:
            results.append((item, digest))


threads = [threading.Thread(target=work) for _ in range(20)]
for thread in threads:
    thread.start()
for item in range(500):
    jobs.put(item)
for _ in threads:
    jobs.put(None)
for thread in threads:
    thread.join()
assert sorted(item for item, _ in results) == list(range(500))

with concurrent.futures.ThreadPoolExecutor(16) as pool:
    assert sum(pool.map(lambda n: n * n, range(1000))) == 332833500
    futures = [pool.submit(time.sleep, 0.05) for _ in range(16)]
    done, waiting = concurrent.futures.wait(futures, timeout=60)
    assert len(done) == 16 and not waiting

rang = threading.Event()
threading.Timer(0.05, rang.set).start()
assert rang.wait(60)
meeting = threading.Barrier(8)
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert sorted(pool.map(lambda _: meeting.wait(60), range(8))) == list(range(8))
print("done")
