# Volumes that the kernel runs for Scrim, on a bad day: names that are taken, devices in use, storage that goes, a keyring
# that is full, a command that is killed at any of its calls, and flags that change under load.
#
# kernels: 6.1 6.12 7.3
# limit: 1200 s

modprobe -a loop dm-crypt

said() {
    grep -q -- "$*" said || { cat said; fail "missing: $*"; }
}

# refused EXIT WORDS: the last command has failed with this code and these words.
refused() {
    [ "$code" = "$1" ] || { cat said; fail "exit $code, not $1"; }
    shift
    said "$*"
}

open() {
    code=0
    scrim open disk "$1" --engine kernel --key-file key > said 2>&1 || code=$?
}

truncate -s 24M disk
scrim format -q $(pbkdf pbkdf2) disk --key-file key

echo '== names that are taken'
dmsetup create taken --table '0 8 zero'
open taken
refused 5 'has a device named taken already'
code=0; scrim status taken > said 2>&1 || code=$?
refused 4 'not an encrypted volume'
dmsetup remove --retry taken
scrim open disk taken --key-file key
truncate -s 24M more
scrim format -q $(pbkdf pbkdf2) more --key-file key
code=0; scrim open more taken --engine kernel --key-file key > said 2>&1 || code=$?
refused 5 'a volume named taken is open already'
scrim close taken
code=0; scrim open disk ours --engine kernel --nbd tcp:127.0.0.1:1 --insecure-plaintext > said 2>&1 || code=$?
refused 1 "is for Scrim's own engine"
echo wrong > wrong
code=0; scrim open disk ours --engine kernel --key-file wrong > said 2>&1 || code=$?
refused 2 'no key'
[ -z "$(losetup -j disk)" ] || fail "a loop device stays"

echo '== a device in use'
open ours
sleep 60 < /dev/mapper/ours &
holder=$!
sleep 0.2
code=0; scrim close ours > said 2>&1 || code=$?
refused 5 'ours is in use'
scrim close ours --force
scrim status ours > said
said 'closes when nobody uses it'
kill $holder
wait $holder || true
[ -z "$(dmsetup ls | grep ours)" ] || fail "it stays when nobody uses it"
[ -z "$(losetup -j disk)" ] || fail "a loop device stays"
[ ! -e /dev/mapper/ours ] || rm /dev/mapper/ours

echo '== a keyring that is full'
open ours
scrim status ours > said
said 'key location: keyring'
scrim close ours
most=$(cat /proc/sys/kernel/keys/root_maxkeys)
echo 1 > /proc/sys/kernel/keys/root_maxkeys
open ours
echo "$most" > /proc/sys/kernel/keys/root_maxkeys
[ $code = 0 ] || { cat said; fail "it is not opened"; }
scrim status ours > said
said 'key location: dm-crypt'
scrim refresh ours --perf-no_read_workqueue
scrim close ours

echo '== storage that goes'
device=$(losetup --find --show disk)
dmsetup create below --table "0 $(blockdev --getsz "$device") linear $device 0"
scrim open /dev/mapper/below ours --engine kernel --key-file key --disable-keyring
dmsetup suspend below
dmsetup load below --table "0 $(blockdev --getsz "$device") error"
dmsetup resume below
if dd if=/dev/mapper/ours of=/dev/null bs=4096 count=1 iflag=direct status=none 2> said; then fail "it reads"; fi
scrim status ours > said
said 'ours is active'
scrim refresh ours > said 2>&1 || true
scrim close ours
dmsetup remove --retry below
losetup --detach "$device"

echo '== killed at each call of device mapper and loop'
calls=$(strace -f -e trace=ioctl -o calls scrim open disk ours --engine kernel --key-file key > /dev/null && grep -c ioctl calls)
scrim close ours
for call in $(seq 1 "$calls"); do
    strace -f -qq -o /dev/null -e trace=ioctl -e inject=ioctl:signal=SIGKILL:when="$call" \
        scrim open disk ours --engine kernel --key-file key > /dev/null 2>&1 || true
    # Whatever is left has the name, and can be closed by it.
    if [ -n "$(dmsetup ls | grep -v '^No' | grep -v '^ours')" ]; then
        dmsetup ls
        fail "call $call: a device is left that nobody can name"
    fi
    if dmsetup info ours > /dev/null 2>&1; then scrim close ours || fail "call $call: it cannot be closed"; fi
    rm -f /dev/mapper/ours
    [ -z "$(losetup -j disk)" ] || fail "call $call: a loop device is left"
    open ours
    [ $code = 0 ] || { cat said; fail "call $call: it does not open again"; }
    scrim close ours
done
echo "$calls calls"

echo '== flags that change under load'
scrim open disk ours --engine kernel --key-file key --disable-keyring
fio --name=load --filename=/dev/mapper/ours --rw=randwrite --bs=4k --size=6M --direct=1 --verify=crc32c --ioengine=libaio \
    --iodepth=8 --loops=8 --verify_backlog=64 --output=fio.out &
load=$!
for turn in $(seq 1 20); do
    scrim refresh ours --perf-no_read_workqueue --perf-no_write_workqueue
    scrim refresh ours
done
wait $load || { cat fio.out; fail "fio has found other data"; }
scrim close ours
