"""Chromium without a window, driven by the DevTools protocol: a part of picture.py and accessible.py."""

import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request


class Page:
    """A page of a running browser: commands go over a WebSocket (RFC 6455), of which this is the least that works."""

    def __init__(self, address):
        host, path = address.removeprefix("ws://").split("/", 1)
        name, port = host.split(":")
        self.socket = socket.create_connection((name, int(port)))
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.received = self.socket.makefile("rb")
        while self.received.readline() not in (b"\r\n", b""):
            pass
        self.number = 0

    def call(self, method, **parameters):
        """Sends a command and returns its result; events that come before it are left out."""
        self.number += 1
        text = json.dumps({"id": self.number, "method": method, "params": parameters}).encode()
        # A client's frame is masked; a mask of zeros changes nothing.
        self.socket.sendall(b"\x81\xff" + len(text).to_bytes(8, "big") + bytes(4) + text)
        while True:
            message = json.loads(self.message())
            if message.get("id") == self.number:
                return message["result"]

    def look(self, width, height, scheme):
        """Gives the window that size, and the colours that are "light" or "dark"."""
        size = {"width": width, "height": height}
        self.call("Emulation.setDeviceMetricsOverride", **size, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def message(self):
        content, is_last = b"", False
        while not is_last:
            first, length = self.received.read(2)
            is_last = first & 0x80 != 0
            if length >= 126:
                length = int.from_bytes(self.received.read(2 if length == 126 else 8), "big")
            content += self.received.read(length)
        return content


def first_page(profile):
    """The address of the browser's page, once it has one."""
    for _ in range(100):
        try:
            with open(f"{profile}/DevToolsActivePort") as file:
                port = file.readline().strip()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
                pages = [one for one in json.load(answer) if one["type"] == "page"]
            return pages[0]["webSocketDebuggerUrl"]
        except (OSError, IndexError):
            time.sleep(0.2)
    sys.exit("chromium does not start")


@contextlib.contextmanager
def opened(*options):
    """A page of a browser that is started for it, with a profile of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        usual = "--headless=new --no-sandbox --disable-gpu --no-first-run --hide-scrollbars --disable-dev-shm-usage"
        command = ["chromium", *usual.split(), f"--user-data-dir={profile}", "--remote-debugging-port=0", *options]
        browser = subprocess.Popen([*command, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield Page(first_page(profile))
        finally:
            browser.terminate()
            browser.wait()
