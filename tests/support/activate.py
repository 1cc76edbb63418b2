"""Starts a program with sockets as a service manager hands them on.

    activate.py SOCKET... -- PROGRAM ARGUMENT...

A socket is `unix:PATH`, `tcp:IP:PORT`, `abstract:NAME`, `datagram:PATH`, `silent:PATH` (bound, and does
not listen) or `file:PATH`. `missing` announces one more than there are; `other` announces them to another
process.
"""

import os
import socket
import sys


def made(kind, rest):
    if kind == "file":
        return os.open(rest, os.O_RDONLY)
    if kind == "tcp":
        ip, port = rest.rsplit(":", 1)
        made = socket.create_server((ip, int(port)))
    else:
        style = socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM
        made = socket.socket(socket.AF_UNIX, style)
        made.bind("\0" + rest if kind == "abstract" else os.path.abspath(rest))
        if kind in ("unix", "abstract"):
            made.listen()
    return made.detach()


split = sys.argv.index("--")
words, program = sys.argv[1:split], sys.argv[split + 1 :]
numbers = [made(*word.split(":", 1)) for word in words if ":" in word]
# Out of the way first, so that none is closed by the one that takes its place.
for at, number in enumerate(numbers):
    os.dup2(number, 100 + at)
os.closerange(3, 100)
for at in range(len(numbers)):
    os.dup2(100 + at, 3 + at, inheritable=True)
os.closerange(100, 200)
os.environ["LISTEN_FDS"] = str(len(numbers) + words.count("missing"))
os.environ["LISTEN_PID"] = str(os.getppid() if "other" in words else os.getpid())
os.execvp(program[0], program)
