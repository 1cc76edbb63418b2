# Volumes that the kernel runs for Scrim, where udev makes the nodes: each command waits for udev's rules, no cookie is left,
# cryptsetup's commands do the same on them, and a udev that hangs costs a limited time and a warning.
#
# kernels: 6.1 6.12 7.3
# limit: 600 s

modprobe -a loop dm-crypt
before=$(cut -d" " -f1 /proc/uptime)
start_udev
echo "udev: up after $(awk -v before=$before "{ print \$1 - before }" /proc/uptime) s"

said() {
    grep -q -- "$*" said || { cat said; fail "missing: $*"; }
}

no_cookie() {
    [ "$(dmsetup udevcookies | grep -c '^0x')" = 0 ] || { dmsetup udevcookies; fail "$1: a cookie is left"; }
}

truncate -s 24M disk
scrim format -q $(pbkdf pbkdf2) disk --key-file key
uuid=$(scrim luksUUID disk | tr -d -)

echo '== Scrim opens and closes'
for turn in 1 2 3; do
    scrim open disk ours --engine kernel --key-file key
    # udev's nodes are links, and are there when the command is done.
    [ -h /dev/mapper/ours ] || { ls -l /dev/mapper; fail "udev has not made the node"; }
    [ -h "/dev/disk/by-id/dm-uuid-CRYPT-LUKS2-$uuid-ours" ] || { ls -l /dev/disk/by-id; fail "no link by UUID"; }
    no_cookie open
    scrim refresh ours --perf-no_read_workqueue --key-file key
    no_cookie refresh
    scrim close ours
    [ ! -h /dev/mapper/ours ] || fail "its node stays"
    no_cookie close
done

echo '== each closes what the other has opened'
scrim open disk ours --engine kernel --key-file key
cryptsetup close ours
[ ! -h /dev/mapper/ours ] || fail "its node stays"
cryptsetup open disk theirs --key-file key
scrim close theirs
[ ! -h /dev/mapper/theirs ] || fail "its node stays"
no_cookie 'of both'

echo '== udev hangs'
pkill -STOP systemd-udevd
began=$(date +%s)
scrim open disk ours --engine kernel --key-file key > said 2>&1
took=$(($(date +%s) - began))
said 'udev has not handled the device'
[ $took -le 60 ] || fail "it took $took s"
[ -b /dev/mapper/ours ] || fail "no node"
no_cookie 'a udev that hangs'
pkill -CONT systemd-udevd
udevadm settle --timeout=30
scrim close ours
udevadm settle --timeout=30
rm -f /dev/mapper/ours
stop_udev
