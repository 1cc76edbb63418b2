"""Writes to a volume for ever: a number over a block, then over another one, then the following number.

count_up.py URI; prints a line once both have the first one.
"""

import sys

import nbd

BLOCK = 4096
client = nbd.NBD()
client.connect_uri(sys.argv[1])
number = 0
while True:
    number += 1
    block = number.to_bytes(8, "little") * (BLOCK // 8)
    client.pwrite(block, 0)
    client.pwrite(block, 1 << 20)
    if number == 1:
        print("counting", flush=True)
