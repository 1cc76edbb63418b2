#!/usr/bin/env python3
"""Makes a terminal cast of a page: runs the commands of its console blocks at a terminal, in a new folder, and prints what
a reader would see as an SVG picture that moves. Every browser shows it, on GitHub too.

cast.py PAGE [HEADING]     with a heading, only the blocks of that section

Waits are shortened. All lines fit into the picture, so that it is whole where motion is not wanted.
"""

import html
import os
import pathlib
import pty
import re
import select
import signal
import shutil
import subprocess
import sys
import tempfile
import time

COLUMNS = 100
PROMPT = "me@laptop:~$ "
PASSPHRASE = b"correct horse battery staple"
# Seconds: for a key, before a command is typed, the longest wait that is shown, for a server's visitors, and at the end.
KEY, BEFORE, WAIT_MAX, SERVING, AT_THE_END = 0.04, 0.6, 0.8, 1.5, 8
# Pixels of a character and of a line, and around all of them.
WIDTH, HEIGHT, MARGIN = 8, 18, 14


def commands(page, heading):
    """Each command of the page, without its comment."""
    inside, section = False, heading is None
    for line in pathlib.Path(page).read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = line == "```console"
        elif not inside and line.startswith("#"):
            section = heading is None or line.lstrip("# ") == heading
        elif inside and section and line.startswith("$ "):
            yield re.sub(r" +# .*", "", line[2:])


class Screen:
    """Cells of all lines, each with the time at which its character came."""

    def __init__(self):
        self.rows = [[]]
        self.column = 0
        self.typed = []

    def write(self, text, now):
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|.", text, re.DOTALL):
            if part == "\n":
                self.rows.append([])
                self.column = 0
            elif part == "\r":
                self.column = 0
            elif part == "\t":
                self.column = min(self.column // 8 * 8 + 8, COLUMNS)
            elif part == "\x1b[K":
                del self.rows[-1][self.column:]
            elif part.isprintable() and not part.startswith("\x1b"):
                self.put(part, now)

    def put(self, character, now):
        if self.column == COLUMNS:
            self.rows.append([])
            self.column = 0
        row = self.rows[-1]
        row.extend([(" ", now)] * (self.column + 1 - len(row)))
        row[self.column] = (character, now)
        self.column += 1

    def type(self, text, now):
        """A command that is typed; returns the time when it is there."""
        while text:
            room = COLUMNS - self.column
            now_shown, text = text[:room], text[room:]
            self.typed.append((len(self.rows) - 1, self.column, now_shown, now))
            self.column += len(now_shown)
            now += KEY * len(now_shown)
            if text:
                self.rows.append([])
                self.column = 0
        return now

    def runs(self):
        """Characters of a row that came at the same time: (row, column, text, time)."""
        for number, row in enumerate(self.rows):
            start = 0
            for end in range(1, len(row) + 1):
                if end == len(row) or row[end][1] != row[start][1]:
                    text = "".join(cell[0] for cell in row[start:end])
                    if text.strip():
                        yield number, start, text.rstrip(), row[start][1]
                    start = end


class Recording:
    def __init__(self, home, runtime):
        self.screen = Screen()
        self.now = 0.0
        self.home, self.runtime = home, runtime

    def show(self, text):
        text = text.replace(self.runtime, "/run/user/1000").replace(f"{self.home}/", "/home/me/")
        self.screen.write(text, round(self.now, 2))

    def run(self, command):
        self.show(PROMPT)
        self.now += BEFORE
        self.now = self.screen.type(command, self.now)
        self.now += 0.2
        self.show("\r\n")
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(self.home)
            os.execvp("bash", ["bash", "-c", f"stty cols {COLUMNS}; {command}"])
        status = self.follow(command, process, terminal)
        os.close(terminal)
        if status != 0:
            sys.exit(f"cast.py: {command}: exit code {os.waitstatus_to_exitcode(status)}")

    def follow(self, command, process, terminal):
        """Shows what a command prints, and answers its questions; returns how it ended."""
        said, asked_to_end, is_server = "", False, command.startswith("scrim serve") and "--check" not in command
        while True:
            started = time.monotonic()
            ready, _, _ = select.select([terminal], [], [], 60)
            self.now += min(time.monotonic() - started, WAIT_MAX)
            try:
                text = os.read(terminal, 65536).decode() if ready else ""
            except OSError:
                # Nobody has the other side any more.
                text = ""
            if not text:
                if not ready:
                    os.kill(process, signal.SIGKILL)
                return os.waitpid(process, 0)[1]
            self.show(text)
            said += text
            if re.search(r"capital letters\): $", said):
                self.now += WAIT_MAX
                os.write(terminal, b"YES\n")
            elif re.search(r"passphrase.*: $", said):
                self.now += WAIT_MAX
                os.write(terminal, PASSPHRASE + b"\n")
            elif is_server and not asked_to_end and re.search(r"^https://", said, re.MULTILINE):
                asked_to_end = True
                self.now += SERVING
                os.write(terminal, b"\x03")


class Picture:
    """The SVG picture: each text appears at its time, by an animation of CSS that is as long as the cast."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.moments = {}
        self.style, self.body = [], []

    def percent(self, moment):
        return f"{100 * moment / self.seconds:.2f}%"

    def animate(self, name, frames):
        self.style.append(f"@keyframes {name}{{{frames}}}.{name}{{animation-name:{name}}}")

    def moment(self, moment):
        """The class of what appears at that time."""
        if moment not in self.moments:
            name = self.moments[moment] = f"a{len(self.moments)}"
            self.animate(name, f"0%{{opacity:0}}{self.percent(moment)}{{opacity:1}}")
        return self.moments[moment]

    def text(self, row, column, text, moment, kind=""):
        x, y = MARGIN + column * WIDTH, MARGIN + row * HEIGHT + 13
        self.body.append(f'<text class="{self.moment(moment)}{kind}" x="{x}" y="{y}" textLength="{len(text) * WIDTH}">'
                         f"{html.escape(text, quote=False)}</text>")

    def typed(self, row, column, text, moment):
        """Text that a cover hides, which moves away by a character for each key."""
        self.text(row, column, text, round(moment, 2), " k")
        name, end = f"b{len(self.body)}", moment + KEY * len(text)
        self.animate(name, f"0%,{self.percent(moment)}{{transform:none;animation-timing-function:steps({len(text)})}}"
                           f"{self.percent(end)}{{transform:translateX({len(text) * WIDTH}px)}}"
                           f"{self.percent(end + 0.1)},to{{transform:translateX(9999px)}}")
        x, y = MARGIN + column * WIDTH, MARGIN + row * HEIGHT
        self.body.append(f'<rect class="{name} v" x="{x}" y="{y}" width="{COLUMNS * WIDTH}" height="{HEIGHT}"/>')

    def svg(self, title, rows):
        width, height = COLUMNS * WIDTH + 2 * MARGIN, rows * HEIGHT + 2 * MARGIN
        style = (f"text,rect{{animation:none {self.seconds:.2f}s step-end infinite}}"
                 "text{font:13px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#c9d1d9;white-space:pre}"
                 ".k{fill:#fff;font-weight:600}.v,.g{fill:#161b22}"
                 "@media(prefers-reduced-motion:reduce){text,rect{animation:none!important}.v{display:none}}")
        lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
                 f"<title>{html.escape(title)}</title>", f"<style>{style}", *self.style, "</style>",
                 f'<rect class="g" width="{width}" height="{height}" rx="8"/>', *self.body, "</svg>"]
        return "\n".join(lines)


def record(page, heading, place):
    home, runtime = f"{place}/home", f"{place}/run"
    os.mkdir(home)
    os.mkdir(runtime, 0o700)
    # The README copies itself into a volume.
    shutil.copy(page, home)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        os.environ.pop(name, None)
    os.environ.update(HOME=home, XDG_RUNTIME_DIR=runtime, TERM="xterm", LC_ALL="C.UTF-8")
    recording = Recording(home, runtime)
    try:
        for command in commands(page, heading):
            recording.run(command)
    finally:
        # What a page that stopped has left open.
        for mount in pathlib.Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
            if f"{place}/" in mount:
                subprocess.run(["umount", "--lazy", mount.split()[1]], check=False)
        for socket in pathlib.Path(runtime).glob("scrim/*.control"):
            subprocess.run(["scrim", "close", "--force", socket.stem], check=False)
    return recording


def main():
    page, *heading = sys.argv[1:]
    if not shutil.which("scrim"):
        sys.exit("cast.py: scrim is not in PATH")
    with tempfile.TemporaryDirectory() as place:
        recording = record(page, heading[0] if heading else None, place)
    screen = recording.screen
    picture = Picture(recording.now + AT_THE_END)
    for run in screen.runs():
        picture.text(*run)
    for typed in screen.typed:
        picture.typed(*typed)
    first = next(line for line in pathlib.Path(page).read_text(encoding="utf-8").splitlines() if line.startswith("# "))
    title = heading[0] if heading else first[2:]
    print(picture.svg(f"{title}, at a terminal", len(screen.rows) - (not screen.rows[-1])))


main()
