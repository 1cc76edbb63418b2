#!/usr/bin/env python3
"""Takes a picture of a page some seconds after it was loaded, with Chromium, by the DevTools protocol.

picture.py URL FILE WIDTH HEIGHT SECONDS [dark]

Chromium's own --screenshot takes it at once, before a page that asks for figures has any.
"""

import base64
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
    sys.exit("picture.py: chromium does not start")


def main():
    url, file, width, height, seconds, *scheme = sys.argv[1:]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = "--headless=new --no-sandbox --disable-gpu --no-first-run --hide-scrollbars --disable-dev-shm-usage"
        command = ["chromium", *options.split(), f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            page = Page(first_page(profile))
            size = {"width": int(width), "height": int(height)}
            page.call("Emulation.setDeviceMetricsOverride", **size, deviceScaleFactor=1, mobile=False)
            colours = {"name": "prefers-color-scheme", "value": scheme[0] if scheme else "light"}
            page.call("Emulation.setEmulatedMedia", features=[colours])
            page.call("Page.navigate", url=url)
            time.sleep(float(seconds))
            picture = page.call("Page.captureScreenshot", format="png")["data"]
            with open(file, "wb") as out:
                out.write(base64.b64decode(picture))
        finally:
            browser.terminate()
            browser.wait()


main()
