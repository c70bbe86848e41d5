# Processes that share work: pools by fork and by spawn, shared memory, managers, pipes, semaphores.
import multiprocessing, os
from multiprocessing import shared_memory


def square(n):
    return n * n


def fill(name, value):
    block = shared_memory.SharedMemory(name)
    block.buf[:4] = bytes([value] * 4)
    block.close()


def add(counter, times):
    for _ in range(times):
        with counter.get_lock():
            counter.value += 1


if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(3) as pool:
            assert pool.map(square, range(100)) == [n * n for n in range(100)], method
    block = shared_memory.SharedMemory(create=True, size=4096)
    worker = multiprocessing.Process(target=fill, args=(block.name, 7))
    worker.start()
    worker.join()
    assert bytes(block.buf[:4]) == b"\x07" * 4
    block.close()
    block.unlink()

    counter = multiprocessing.Value("i", 0)
    workers = [multiprocessing.Process(target=add, args=(counter, 200)) for _ in range(4)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    assert counter.value == 800 and all(worker.exitcode == 0 for worker in workers)

    with multiprocessing.Manager() as manager:
        shared = manager.dict()
        worker = multiprocessing.Process(target=shared.update, args=({"pid": os.getpid()},))
        worker.start()
        worker.join()
        assert shared["pid"] == os.getpid()
    ours, theirs = multiprocessing.Pipe()
    worker = multiprocessing.Process(target=theirs.send, args=(["x" * 100000],))
    worker.start()
    assert ours.recv() == ["x" * 100000]
    worker.join()
    print("done")
