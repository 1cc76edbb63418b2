"""Runs a program at a terminal of its own and types at it.

    terminal.py PROGRAM ARGUMENT... < steps

A step is a line: `wait TEXT` until TEXT is shown, `type TEXT` (with Python's escapes, such as
\\r and \\x03), or `settle `, until nothing more is shown for a moment: Ctrl-C has a terminal drop
what it has not shown yet. Prints what the terminal showed, then a last line `exit CODE echo on` or `off`.
"""

import fcntl
import os
import pty
import select
import signal
import sys
import termios
import time

PATIENCE = 60  # seconds
QUIET = 10  # looks

steps = [line.rstrip("\n").split(" ", 1) for line in sys.stdin]
# The far end stays open here, so that the terminal outlives the program.
near, far = pty.openpty()
child = os.fork()
if child == 0:
    os.setsid()
    fcntl.ioctl(far, termios.TIOCSCTTY, 0)
    for standard in 0, 1, 2:
        os.dup2(far, standard)
    os.execvp(sys.argv[1], sys.argv[1:])

shown = b""
status = None
patience_ends = time.monotonic() + PATIENCE


def look():
    """Takes what is shown within a moment and whether the program has ended."""
    global shown, status
    if time.monotonic() > patience_ends:
        os.kill(child, signal.SIGKILL)
        sys.exit(f"still waiting; shown so far: {shown!r}")
    if select.select([near], [], [], 0.05)[0]:
        shown += os.read(near, 65536)
    elif status is None:
        pid, waited = os.waitpid(child, os.WNOHANG)
        status = waited if pid else None


seen = 0
for verb, text in steps:
    if verb == "type":
        os.write(near, text.encode().decode("unicode_escape").encode("latin-1"))
        continue
    if verb == "settle":
        quiet = 0
        while quiet < QUIET:
            before = len(shown)
            look()
            quiet = quiet + 1 if len(shown) == before else 0
        continue
    while text.encode() not in shown[seen:]:
        if status is not None:
            sys.exit(f"ended before {text!r}; shown: {shown!r}")
        look()
    seen = shown.index(text.encode(), seen) + len(text)

while status is None:
    look()
echo = "on" if termios.tcgetattr(far)[3] & termios.ECHO else "off"
sys.stdout.buffer.write(shown.replace(b"\r\n", b"\n"))
print(f"\nexit {os.waitstatus_to_exitcode(status)} echo {echo}")
