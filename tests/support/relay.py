"""Brings ports of this machine into another network namespace: what connects to 127.0.0.1:PORT there is connected to
127.0.0.1:PORT here.

relay.py PID PORT|FIRST-LAST...; PID is a process in that namespace. Prints a line once it listens; until it ends, it is
all that the namespace has of this machine's network. Stopped by SIGSTOP it is a network that was cut.
"""

import asyncio
import ctypes
import os
import socket
import sys

CLONE_NEWNET = 0x40000000


def enter(namespace):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def listen(pid, ports):
    """Sockets that listen in the namespace of a process."""
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    enter(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY))
    try:
        return [socket.create_server(("127.0.0.1", port)) for port in ports]
    finally:
        enter(here)


async def copy(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def serve(listening):
    port = listening.getsockname()[1]

    async def connected(reader, writer):
        try:
            there = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    await asyncio.start_server(connected, sock=listening)


async def main(sockets):
    for listening in sockets:
        await serve(listening)
    print("relaying", flush=True)
    await asyncio.Event().wait()


wanted = []
for word in sys.argv[2:]:
    first, _, last = word.partition("-")
    wanted += range(int(first), int(last or first) + 1)
asyncio.run(main(listen(sys.argv[1], wanted)))
