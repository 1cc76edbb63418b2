#!/usr/bin/env python3
"""Checks pages with axe-core in Chromium, by the rules of WCAG 2.2, levels A and AA, and axe's best practices.

accessible.py AXE URL...

Each page is looked at on a desk and on a phone, in light and in dark colours. Prints a line for each violation, with the
element, and ends with exit code 1 if there are any. AXE is the file axe.min.js, which scripts/axe.sh fetches.
"""

import json
import sys
import time

import browser

SIZES = [(1280, 900), (390, 844)]
# The pages have filled themselves with figures by then.
SECONDS = 3


def evaluate(page, expression):
    answer = page.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
    if "exceptionDetails" in answer:
        sys.exit(f"accessible.py: {json.dumps(answer['exceptionDetails'])}")
    return answer["result"].get("value")


def violations(page, axe):
    """The rules that are violated, each with the element and with what would help."""
    evaluate(page, axe)
    found = json.loads(evaluate(page, "axe.run(document).then(result => JSON.stringify({"
                                      "passed: result.passes.length, violations: result.violations}))"))
    # A page that was not loaded has nothing to pass.
    if found["passed"] < 5:
        sys.exit(f"accessible.py: only {found['passed']} rules had anything to look at")
    for one in found["violations"]:
        for node in one["nodes"]:
            element, help = (" ".join(text.split()) for text in (node["html"], node["failureSummary"]))
            yield f"{one['id']} ({one['impact']}): {element[:200]}: {help}"


def looks(page, url):
    """Shows the page as each reader sees it."""
    page.call("Page.navigate", url=url)
    time.sleep(SECONDS)
    for width, height in SIZES:
        for scheme in ("light", "dark"):
            page.look(width, height, scheme)
            # Colours may change gradually.
            time.sleep(0.5)
            yield f"{width}x{height} {scheme}"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        axe = file.read() + "; 0"
    count = 0
    # Servers of tests have certificates that no browser knows.
    with browser.opened("--ignore-certificate-errors") as page:
        for url in sys.argv[2:]:
            found = {}
            for look in looks(page, url):
                for line in violations(page, axe):
                    found.setdefault(line, []).append(look)
            for line, where in found.items():
                print(f"{url} ({', '.join(where)}): {line}")
            count += len(found)
    print(f"{count} violations on {len(sys.argv) - 2} pages")
    sys.exit(count != 0)


main()
