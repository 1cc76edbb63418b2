"""Records what a kernel's device mapper answers, for the tests of the parser.

    cargo xtask guest --kernel 6.12 --share crates/sys/tests/device_mapper -- python3 record.py > 6.12.txt

A line is a call: its name, the device, the length of the buffer, the error (or `ok`), and the answer's bytes in
hexadecimal without the zeros at their end.
"""

import fcntl
import os
import subprocess
import sys

HEAD = 312
LIST_DEVICES, STATUS, TABLE, LIST_VERSIONS = 2, 7, 12, 13
STATUS_TABLE, QUERY_INACTIVE = 1 << 4, 1 << 12

subprocess.run(["modprobe", "-a", "brd", "dm-crypt"], check=True)
control = os.open("/dev/mapper/control", os.O_RDWR)


def run(*command, table=""):
    subprocess.run(command, input=table, text=True, check=True, stdout=sys.stderr)


def record(call, number, device="", flags=0, length=4096):
    buffer = bytearray(HEAD + length)
    for index, value in enumerate([4, 0, 0, HEAD + length, HEAD, 0, 0, flags]):
        buffer[index * 4 : index * 4 + 4] = value.to_bytes(4, "little")
    buffer[48 : 48 + len(device)] = device.encode()
    said = "ok"
    try:
        fcntl.ioctl(control, 3 << 30 | HEAD << 16 | 0xFD << 8 | number, buffer)
    except OSError as error:
        said = error.strerror.replace(" ", "_")
    print(call, device or "-", HEAD + length, said, bytes(buffer).rstrip(b"\0").hex())


record("no-devices", LIST_DEVICES)
run("dmsetup", "create", "empty", "--notable")
run("dmsetup", "create", "two", "--uuid", "TEST-two", table="0 8 zero\n8 8 linear /dev/ram0 24\n")
run("dmsetup", "create", "sealed", "--readonly", table=f"0 16 crypt aes-xts-plain64 {'5a' * 64} 0 /dev/ram0 0 2 no_read_workqueue no_write_workqueue\n")
run("dmsetup", "load", "sealed", table="0 16 error\n")
run("dmsetup", "suspend", "two")
record("devices", LIST_DEVICES)
record("devices-too-long", LIST_DEVICES, length=40)
record("targets", LIST_VERSIONS)
for device in ["empty", "two", "sealed", "nobody"]:
    record("state", STATUS, device)
record("table", TABLE, "two", STATUS_TABLE)
record("table", TABLE, "empty", STATUS_TABLE)
record("table", TABLE, "sealed", STATUS_TABLE)
record("table-too-long", TABLE, "sealed", STATUS_TABLE, length=64)
record("inactive-table", TABLE, "sealed", STATUS_TABLE | QUERY_INACTIVE)
record("inactive-table", TABLE, "two", STATUS_TABLE | QUERY_INACTIVE)
