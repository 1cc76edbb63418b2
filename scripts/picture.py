#!/usr/bin/env python3
"""Takes a picture of a page some seconds after it was loaded, with Chromium, by the DevTools protocol.

picture.py URL FILE WIDTH HEIGHT SECONDS [dark]

Chromium's own --screenshot takes it at once, before a page that asks for figures has any.
"""

import base64
import sys
import time

import browser

url, file, width, height, seconds, *scheme = sys.argv[1:]
with browser.opened() as page:
    page.look(int(width), int(height), scheme[0] if scheme else "light")
    page.call("Page.navigate", url=url)
    time.sleep(float(seconds))
    picture = page.call("Page.captureScreenshot", format="png")["data"]
with open(file, "wb") as out:
    out.write(base64.b64decode(picture))
