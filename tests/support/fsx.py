"""Random operations on one file, against a model in memory: what fsx of xfstests does.

  fsx.py FILE SEED SECONDS [disk]

Reads, writes, mappings, O_DIRECT, O_SYNC, truncation, holes, zeros, copies within the file, and closing with and without
fsync, each followed by a look at a part of the file, and by one at all of it now and then. With `disk` the size is fixed,
and what changes it, or makes a hole, has to be refused. Prints the last operations when the file is not what it has to be.
"""

import ctypes
import errno
import mmap
import os
import random
import sys
import time

SIZE = 1 << 20
PAGE = 4096
KEEP, PUNCH, ZERO = 1, 2, 16
LIBC = ctypes.CDLL(None, use_errno=True)


def fallocate(handle, mode, offset, length):
    if LIBC.fallocate(handle, mode, ctypes.c_long(offset), ctypes.c_long(length)):
        raise OSError(ctypes.get_errno(), "fallocate")


class File:
    def __init__(self, path, draw, is_disk):
        self.path, self.draw, self.is_disk = path, draw, is_disk
        self.done = []
        if is_disk:
            self.limit = min(os.stat(path).st_size, 4 * SIZE)
            self.model = bytearray(self.limit)
            with open(path, "r+b") as file:
                file.write(self.model)
        else:
            self.limit = SIZE
            self.model = bytearray()
            with open(path, "wb"):
                pass
        self.handle = os.open(path, os.O_RDWR)

    def range(self, step=1, limit=None):
        limit = self.limit if limit is None else limit
        offset = self.draw.randrange(0, limit, step)
        length = min(limit - offset, self.draw.choice((1, 511, 4096, 65536, 300000)))
        return offset, max(length // step * step, step) if offset + step <= limit else 0

    def put(self, offset, data):
        if not data:
            return
        if len(self.model) < offset:
            self.model.extend(bytes(offset - len(self.model)))
        self.model[offset:offset + len(data)] = data

    def look(self, offset, length):
        found = os.pread(self.handle, length, offset)
        self.agree(found, offset, length)

    def agree(self, found, offset, length):
        wanted = bytes(self.model[offset:offset + length])
        if found != wanted:
            at = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), min(len(found), len(wanted)))
            sys.exit(f"differs at {offset + at} ({len(found)} bytes read, {len(wanted)} wanted), after:\n"
                     + "\n".join(self.done[-20:]))

    def write(self):
        offset, length = self.range()
        data = self.draw.randbytes(length)
        written = 0
        while written < length:
            written += os.pwrite(self.handle, data[written:], offset + written)
        self.put(offset, data)
        return offset, length

    def direct(self):
        offset, length = self.range(PAGE)
        if not length:
            return ()
        handle = os.open(self.path, os.O_RDWR | os.O_DIRECT | self.draw.choice((0, os.O_DSYNC, os.O_SYNC)))
        with mmap.mmap(-1, length) as memory:
            memory[:] = self.draw.randbytes(length)
            if os.pwritev(handle, [memory], offset) != length:
                sys.exit("a short write past the page cache")
            self.put(offset, memory[:])
            if os.preadv(handle, [memory], offset) != length:
                sys.exit("a short read past the page cache")
            self.agree(memory[:], offset, length)
        os.close(handle)
        return offset, length

    def mapped(self):
        if len(self.model) < PAGE:
            return ()
        offset, length = self.range(PAGE, len(self.model) // PAGE * PAGE)
        try:
            with mmap.mmap(self.handle, length, offset=offset) as memory:
                self.agree(memory[:], offset, length)
                data = self.draw.randbytes(length)
                memory[:] = data
                if self.draw.random() < 0.5:
                    memory.flush()
        except OSError as error:
            # Before Linux 6.6, past the page cache.
            if error.errno != errno.ENODEV:
                raise
            return ("no mapping",)
        self.put(offset, data)
        return offset, length

    def truncate(self):
        size = self.draw.randrange(self.limit)
        if self.is_disk:
            return self.refused(errno.EPERM, lambda: os.ftruncate(self.handle, size))
        os.ftruncate(self.handle, size)
        self.put(size, b"")
        if len(self.model) < size:
            self.model.extend(bytes(size - len(self.model)))
        del self.model[size:]
        return (size,)

    def hole(self):
        offset, length = self.range()
        if self.is_disk:
            return self.refused(errno.EOPNOTSUPP, lambda: fallocate(self.handle, PUNCH | KEEP, offset, length))
        return self.zeros(PUNCH | KEEP, offset, length)

    def zero(self):
        offset, length = self.range()
        return self.zeros(ZERO | KEEP, offset, length)

    def zeros(self, mode, offset, length):
        try:
            fallocate(self.handle, mode, offset, length)
        except OSError as error:
            # fuse2fs answers EINVAL.
            if error.errno != errno.EOPNOTSUPP and (self.is_disk or error.errno != errno.EINVAL):
                raise
            return ("not supported",)
        end = min(offset + length, len(self.model))
        if offset < end:
            self.model[offset:end] = bytes(end - offset)
        return offset, length

    def copy(self):
        if len(self.model) < 2 * PAGE:
            return ()
        length = self.draw.randrange(1, len(self.model) // 2)
        source = self.draw.randrange(len(self.model) // 2 - length + 1)
        target = len(self.model) // 2
        data = bytes(self.model[source:source + length])
        copied = os.copy_file_range(self.handle, self.handle, length, source, target)
        self.put(target, data[:copied])
        return source, target, copied

    def reopen(self):
        if self.draw.random() < 0.5:
            (os.fsync if self.draw.random() < 0.5 else os.fdatasync)(self.handle)
        os.close(self.handle)
        self.handle = os.open(self.path, os.O_RDWR)
        return ()

    @staticmethod
    def refused(number, call):
        try:
            call()
        except OSError as error:
            if error.errno == number:
                return ("refused",)
            raise
        sys.exit("what a disk refuses has succeeded")

    def step(self):
        names = ("write", "write", "direct", "mapped", "truncate", "hole", "zero", "copy", "reopen")
        name = self.draw.choice(names)
        # Before, so that an error is told with what it came from.
        self.done.append(name)
        self.done[-1] = f"{name} {getattr(self, name)()}"
        if self.model:
            self.look(*self.range(1, len(self.model)))
        if os.fstat(self.handle).st_size != len(self.model) and not self.is_disk:
            sys.exit(f"size {os.fstat(self.handle).st_size}, wanted {len(self.model)}, after:\n" + "\n".join(self.done[-20:]))


def main():
    path, seed, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    file = File(path, random.Random(seed), sys.argv[4:] == ["disk"])
    end = time.monotonic() + seconds
    steps = 0
    # A few steps on any machine.
    while steps < 50 or time.monotonic() < end:
        file.step()
        steps += 1
        if steps % 50 == 0:
            file.look(0, len(file.model))
    os.fsync(file.handle)
    file.look(0, len(file.model))
    print(f"seed {seed}: {steps} operations")
    if sys.argv[4:] != ["disk"]:
        with open(f"{os.path.basename(path)}.model", "wb") as model:
            model.write(file.model)


main()
