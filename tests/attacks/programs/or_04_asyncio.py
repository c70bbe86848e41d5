# An event loop: servers and clients on loopback, both families and a path; subprocesses, signals, timers.
import asyncio, os, signal, sys


async def echo(reader, writer):
    writer.write((await reader.readline()).upper())
    await writer.drain()
    writer.close()


async def ask(opening):
    reader, writer = await opening
    writer.write(b"hello\n")
    answer = await reader.readline()
    writer.close()
    return answer


async def main():
    for host in ("127.0.0.1", "::1"):
        server = await asyncio.start_server(echo, host, 0)
        port = server.sockets[0].getsockname()[1]
        answers = await asyncio.gather(*(ask(asyncio.open_connection(host, port)) for _ in range(50)))
        assert answers == [b"HELLO\n"] * 50, host
        server.close()
    server = await asyncio.start_unix_server(echo, "/tmp/socket")
    assert await ask(asyncio.open_unix_connection("/tmp/socket")) == b"HELLO\n"
    server.close()

    loop = asyncio.get_running_loop()
    class Datagrams(asyncio.DatagramProtocol):
        def __init__(self): self.got = loop.create_future()
        def datagram_received(self, data, address): self.got.set_result(data)
    receiver, protocol = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", 0))
    sender, _ = await loop.create_datagram_endpoint(Datagrams, remote_addr=receiver.get_extra_info("sockname"))
    sender.sendto(b"ping")
    assert await asyncio.wait_for(protocol.got, 60) == b"ping"

    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(input()[::-1])",
                                                   stdin=-1, stdout=-1)
    assert (await process.communicate(b"abc\n"))[0] == b"cba\n" and process.returncode == 0
    shell = await asyncio.create_subprocess_shell("echo out; echo err >&2; exit 3", stdout=-1, stderr=-1)
    assert await shell.communicate() == (b"out\n", b"err\n") and shell.returncode == 3

    rang = asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, rang.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.wait_for(rang.wait(), 60)
    assert await loop.run_in_executor(None, sum, range(10)) == 45
    try:
        await asyncio.wait_for(asyncio.sleep(60), 0.01)
        raise AssertionError
    except asyncio.TimeoutError:
        pass


asyncio.run(main())
print("done")
