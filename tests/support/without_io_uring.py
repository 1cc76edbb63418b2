"""Runs a program under a seccomp filter that refuses io_uring, as container runtimes do."""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_AT_LEAST, JUMP_ABOVE, RETURN = 0x20, 0x35, 0x25, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 1  # SECCOMP_RET_ERRNO with EPERM
FIRST, LAST = 425, 427  # io_uring_setup, io_uring_enter, io_uring_register

instructions = [
    (LOAD_WORD, 0, 0, 0),
    (JUMP_AT_LEAST, 0, 2, FIRST),
    (JUMP_ABOVE, 1, 0, LAST),
    (RETURN, 0, 0, REFUSE),
    (RETURN, 0, 0, ALLOW),
]
code = b"".join(struct.pack("HBBI", *i) for i in instructions)
buffer = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(buffer))

libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
    PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_char_p(program), 0, 0
):
    sys.exit(f"cannot set the filter: {os.strerror(ctypes.get_errno())}")
if libc.syscall(FIRST, 1, None) != -1 or ctypes.get_errno() != 1:
    sys.exit("the filter does not refuse io_uring")
os.execvp(sys.argv[1], sys.argv[1:])
