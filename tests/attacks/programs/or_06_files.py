# Files in every way: mappings, locks, sparse files, holes, copying inside the kernel, watching, polling, attributes.
import ctypes, errno, fcntl, mmap, os, select, shutil, stat, struct, tempfile

path = "/tmp/data"
with open(path, "w+b") as file:
    file.truncate(1 << 20)
    with mmap.mmap(file.fileno(), 0) as view:
        view[1000:1005] = b"hello"
        view.flush()
        assert view.find(b"hello") == 1000
        view.madvise(mmap.MADV_RANDOM)
    assert os.pread(file.fileno(), 5, 1000) == b"hello"
    os.posix_fallocate(file.fileno(), 0, 2 << 20)
    assert os.lseek(file.fileno(), 0, os.SEEK_DATA) >= 0
    fcntl.lockf(file, fcntl.LOCK_EX)
    fcntl.flock(file, fcntl.LOCK_EX)
    if os.fork() == 0:
        try:
            fcntl.lockf(open(path, "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os._exit(error.errno in (errno.EAGAIN, errno.EACCES))
        os._exit(9)
    assert os.wait()[1] >> 8 == 1
    os.fsync(file.fileno())
    os.fdatasync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
os.sync()

with open(path, "rb") as source, open(path + "2", "wb") as target:
    assert os.copy_file_range(source.fileno(), target.fileno(), 4096) == 4096
    assert os.sendfile(target.fileno(), source.fileno(), 4096, 4096) == 4096
shutil.copyfile(path, path + "3")
os.chmod(path + "3", 0o640)
os.utime(path + "3", (1, 2))
assert stat.S_IMODE(os.stat(path + "3").st_mode) == 0o640 and os.stat(path + "3").st_mtime == 2
os.rename(path + "3", path + "4")
os.replace(path + "4", path + "2")
os.mkfifo("/tmp/pipe")


def in_memory():
    """A file without a name, made as programs do: where there is none in memory, an ordinary one."""
    try:
        return os.fdopen(os.memfd_create("m"), "w+b")
    except OSError as error:
        assert error.errno == errno.ENOSYS
        return tempfile.TemporaryFile()


with tempfile.TemporaryFile() as unnamed, in_memory() as memory:
    unnamed.write(b"x" * 100)
    memory.write(b"y" * 100)
    assert unnamed.tell() == memory.tell() == 100
reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
poll = select.epoll()
poll.register(reader, select.EPOLLIN)
assert poll.poll(0) == []
os.writev(writer, [b"ab", b"cd"])
assert poll.poll(1) == [(reader, select.EPOLLIN)] and os.read(reader, 9) == b"abcd"
assert select.select([reader], [writer], [], 0) == ([], [writer], [])

libc = ctypes.CDLL(None)
watch = libc.inotify_init1(0)
assert libc.inotify_add_watch(watch, b"/tmp", 0x100) > 0
open("/tmp/new", "w").close()
event = os.read(watch, 4096)
assert struct.unpack_from("iIII", event)[1] == 0x100 and b"new" in event
for number in range(2000):
    open(f"/tmp/many-{number}", "w").close()
assert len(os.listdir("/tmp")) > 2000 and shutil.disk_usage("/tmp").total > 1 << 20
print("done")
