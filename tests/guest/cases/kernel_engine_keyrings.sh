# Volume keys in the kernel's keyrings: cryptsetup takes those that Scrim has put there, and Scrim those of cryptsetup, and
# of tokens; dm-crypt takes the key of a plain volume that nobody can read.
#
# kernels: 6.12 7.3
# limit: 600 s

modprobe -a loop dm-crypt
noise payload 1048576
truncate -s 24M disk
scrim format -q $(pbkdf pbkdf2) disk --key-file key

# put TYPE NAME FILE: a key into the user's keyring.
put() {
    python3 - "$1" "$2" "$3" <<'.'
import ctypes, sys
kind, name = sys.argv[1].encode(), sys.argv[2].encode()
key = open(sys.argv[3], 'rb').read()
assert ctypes.CDLL(None).syscall(248, kind, name, key, len(key), -4) > 0
.
}

echo '== from cryptsetup'
cryptsetup open disk theirs --key-file key --link-vk-to-keyring @u::%user:theirs
to_kernel theirs payload
cryptsetup close theirs
scrim open disk ours --engine kernel --volume-key-keyring theirs
from_kernel ours > read
same 'by a linked key' payload read
scrim luksSuspend ours
scrim luksResume ours --volume-key-keyring %user:theirs --link-vk-to-keyring '@u::%logon:scrim:resumed'
from_kernel ours > read
same 'after its key was forgotten' payload read
scrim refresh ours --perf-no_read_workqueue --volume-key-keyring theirs
dmsetup table ours | grep -q no_read_workqueue || fail 'it was not refreshed'
scrim close ours
grep -q 'logon *scrim:resumed' /proc/keys || fail 'luksResume has linked no key'

echo '== from Scrim'
for engine in kernel scrim; do
    scrim open disk ours --engine $engine --key-file key --link-vk-to-keyring "@u::%user:$engine"
    scrim close ours
    cryptsetup open disk theirs --volume-key-keyring %user:$engine
    from_kernel theirs > read
    same "by the key of the engine $engine" payload read
    cryptsetup close theirs
done
if scrim open disk ours --engine kernel --key-file key --link-vk-to-keyring nowhere::key; then
    fail 'there is no such keyring'
fi
printf '%32s' wrong > wrong
put user wrong wrong
if scrim open disk ours --engine kernel --volume-key-keyring wrong; then fail 'this is another key'; fi
[ ! -e /dev/mapper/ours ] || fail 'it is open'

echo '== by a token'
put user passphrase key
cryptsetup token add --key-description passphrase disk
scrim open disk ours --engine kernel < /dev/null
from_kernel ours > read
same 'by a token' payload read
scrim close ours

echo '== plain'
head -c 32 /dev/urandom > plain
put user plain plain
put logon scrim:plain plain
truncate -s 8M image
cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 256 --key-file plain image theirs
to_kernel theirs payload
cryptsetup close theirs
for name in plain %user:plain %logon:scrim:plain; do
    scrim plainOpen -c aes-xts-plain64 -s 256 --volume-key-keyring $name --engine kernel image ours
    from_kernel ours > read
    same "by the key $name" payload read
    scrim resize ours --size 2048
    [ "$(blockdev --getsz /dev/mapper/ours)" = 2048 ] || fail 'it was not resized'
    scrim close ours
done
if scrim plainOpen -c aes-xts-plain64 -s 256 --volume-key-keyring nothing --engine kernel image ours; then
    fail 'there is no such key'
fi
scrim plainOpen -c aes-xts-plain64 -s 256 --volume-key-keyring plain --engine scrim image ours
scrim close ours
