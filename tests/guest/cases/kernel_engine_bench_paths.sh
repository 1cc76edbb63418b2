# `scrim bench paths --engine kernel` measures dm-crypt with each flag on a RAM disk, Scrim beside it, and leaves nothing.
#
# kernels: 6.1 6.12 7.3
# limit: 600 s

modprobe brd rd_nr=1 rd_size=16384
modprobe dm-crypt

echo '== all workloads, after a confirmation at a terminal'
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
python3 - << 'PYTHON'
import os, pty, sys
command = "scrim bench paths --engine kernel --write --rounds 3 --seconds 0.03 --json /dev/ram0 > result"
child, terminal = pty.fork()
if child == 0:
    os.execvp("sh", ["sh", "-c", command])
said = b""
while True:
    try:
        more = os.read(terminal, 4096)
    except OSError:
        break
    if not more:
        break
    said += more
    if said.endswith(b"capital letters): "):
        os.write(terminal, b"YES\n")
status = os.waitpid(child, 0)[1]
assert status == 0, (status, said)
PYTHON
umount /dev/pts
python3 - << 'PYTHON'
import json
report = json.load(open("result"))
found = {series["name"]: series["median"] for series in report["results"]}
flags = ["queued", "same_cpu_crypt", "submit_from_crypt_cpus", "no_read_workqueue", "no_write_workqueue", "inline"]
for workload in ["read", "write", "mixed"]:
    names = ["device_plain", "device_aes_inline", "device_null_queued"]
    names += [f"device_kernel_{cipher}_{flag}" for cipher in ["aes", "null"] for flag in flags]
    for name in names:
        assert found[f"{name}_{workload}"] > 0, name
for name, ratio in report["ratios"].items():
    print(name, ratio)
PYTHON
[ -z "$(dmsetup ls | grep scrim)" ] || fail "a device is left"

echo '== data that is only read'
dd if=/dev/urandom of=/dev/ram0 bs=1M count=16 conv=fsync status=none
before=$(sha256sum < /dev/ram0)
scrim bench paths --engine kernel --rounds 2 --seconds 0.02 /dev/ram0 > result
grep -q '^kernel_null_submit_from_crypt_cpus ' result || { cat result; fail "a row is missing"; }
[ "$(sha256sum < /dev/ram0)" = "$before" ] || fail "the data has changed"

echo '== killed in the middle: the kernel removes its devices'
scrim bench paths --engine kernel --rounds 15 --seconds 5 /dev/ram0 > result 2>&1 &
bench=$!
# A device has its removal arranged once the first round begins.
until grep -q "round 1 of" result; do sleep 0.1; done
[ "$(dmsetup ls | grep -c scrim-bench)" = 12 ] || { dmsetup ls; fail "not all devices"; }
kill -9 $bench
wait $bench || true
for turn in $(seq 100); do
    [ -n "$(dmsetup ls | grep scrim)" ] || break
    sleep 0.1
done
[ -z "$(dmsetup ls | grep scrim)" ] || { dmsetup ls; fail "a device is left"; }

echo '== a device in use, a file, none'
dmsetup create used --table '0 2048 linear /dev/ram0 0'
if scrim bench paths --engine kernel /dev/ram0 2> said; then fail "it is in use"; fi
grep -qi 'busy' said || { cat said; fail "no reason"; }
dmsetup remove --retry used
truncate -s 16M file
if scrim bench paths --engine kernel file 2> said; then fail "it is a file"; fi
grep -q 'losetup' said || { cat said; fail "no advice"; }
if scrim bench paths --engine kernel 2> said; then fail "there is none"; fi
grep -q 'modprobe brd' said || { cat said; fail "no advice"; }
rmmod brd
