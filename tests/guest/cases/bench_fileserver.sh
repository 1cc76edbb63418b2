# `scrim bench fileserver` measures the kernel's dm-crypt beside Scrim and plain data, and leaves nothing.
#
# kernels: 6.12
# limit: 300 s

modprobe -a loop dm-crypt ext4
modprobe -q fuse || true
mkdir srv
measure() { # WHERE
    scrim bench fileserver "$1" --quick --size 4M --rounds 1 --cipher aes-xts-plain64:512 --state state --json > result 2> said || {
        cat said
        fail "$1: it failed"
    }
    cat said
    python3 - << 'PYTHON'
import json
names = {series["name"]: series["median"] for series in json.load(open("result"))["results"]}
for way in ("plain_kernel", "aes-xts-plain64_512b_kernel", "aes-xts-plain64_512b_inline"):
    found = [name for name in names if name.startswith(way) and name.endswith("block_write")]
    assert found and names[found[0]] > 0, (way, sorted(names))
PYTHON
    rm state
    [ -z "$(dmsetup ls | grep scrim)" ] || fail "$1: a device is left"
    grep -q scrim-fileserver /proc/mounts && fail "$1: a mount is left"
    return 0
}
measure srv
