"""A writer that notes what fsync has acknowledged, and the check of what it noted.

  load.py write DIR LOG     files of awkward sizes, one after the other, until an error or the end of the process
  load.py check DIR LOG     every file that was noted is whole
  load.py blocks FILE LOG   blocks of one file, in random order; each place always gets the same bytes
  load.py check-blocks FILE LOG

A line of LOG is written after fsync of the file, and of its directory, has returned. `write` and `blocks` end with
the number of the error that a call gave.
"""

import hashlib
import itertools
import os
import random
import sys

BLOCK = 12288


def content(number):
    draw = random.Random(number)
    return draw.randbytes(draw.choice((1, 511, 4096, 4097, 20000, 300000)))


def sync(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(folder, log):
    number = 0
    while True:
        inner = f"{folder}/{number % 7}"
        if not os.path.isdir(inner):
            os.mkdir(inner)
            sync(folder)
        data = content(number)
        handle = os.open(f"{inner}/{number}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(handle, left):]
            os.fsync(handle)
        finally:
            os.close(handle)
        sync(inner)
        # Beside what stays: files that go again, so that the file system has changes in flight.
        if number % 5 == 4:
            os.rename(f"{inner}/{number}", f"{folder}/moved")
            os.rename(f"{folder}/moved", f"{inner}/{number}")
            sync(inner)
        log.write(f"{number} {hashlib.sha256(data).hexdigest()}\n")
        number += 1


def check(folder, log):
    for line in log:
        number, digest = line.split()
        with open(f"{folder}/{int(number) % 7}/{number}", "rb") as file:
            found = hashlib.sha256(file.read()).hexdigest()
        if found != digest:
            sys.exit(f"file {number} is not what fsync acknowledged")


def blocks(path, log):
    handle = os.open(path, os.O_RDWR)
    places = list(range(os.fstat(handle).st_size // BLOCK))
    random.Random(1).shuffle(places)
    # As files, until an error or the end of the process: a test may be slow to look.
    for place in itertools.cycle(places):
        os.pwrite(handle, random.Random(place).randbytes(BLOCK), place * BLOCK)
        os.fsync(handle)
        log.write(f"{place}\n")


def check_blocks(path, log):
    handle = os.open(path, os.O_RDONLY)
    for line in log:
        place = int(line)
        if os.pread(handle, BLOCK, place * BLOCK) != random.Random(place).randbytes(BLOCK):
            sys.exit(f"block {place} is not what fsync acknowledged")


def main():
    task, where, log = sys.argv[1:]
    if task.startswith("check"):
        with open(log, encoding="ascii") as lines:
            (check if task == "check" else check_blocks)(where, lines)
        return
    try:
        with open(log, "w", encoding="ascii", buffering=1) as lines:
            (write if task == "write" else blocks)(where, lines)
    except OSError as error:
        print(error)
        sys.exit(error.errno)


main()
