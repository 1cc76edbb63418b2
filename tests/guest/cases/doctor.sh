# `scrim doctor` says why the kernel has no TLS, and what it takes once its module is loaded; it loads none
# itself.
#
# kernels: 6.1 6.12 7.3
# limit: 60 s

finding() { # NAME WORDS: the line of this name begins with the words
    grep -qF "$(printf '%s %-15s %s' "$mark" "$1" "$2")" page || { cat page; fail "$1: not: $mark $2"; }
}

modprobe -r tls nbd 2> /dev/null || true
echo "== without the modules"
scrim doctor > page
mark='!'
finding 'kernel TLS' 'the module tls is there, but not loaded'
finding 'nbd devices' "the kernel's module nbd is not loaded"
grep -qF 'remedy: `sudo modprobe tls &&' page || { cat page; fail "no remedy"; }
[ ! -e /sys/module/tls ] || fail "tls was loaded"
[ ! -e /sys/module/nbd ] || fail "nbd was loaded"

echo "== with them"
modprobe -a tls nbd
scrim doctor > page
mark=' '
finding 'nbd devices' there
for version in 1.2 1.3; do
    # Whether there is code for ChaCha20 depends on the modules that the guest has.
    grep -q "^[ !] kernel TLS $version  AES-128-GCM, AES-256-GCM" page || { cat page; fail "TLS $version"; }
done
case $(uname -r) in
    6.*)
        mark='!'
        finding 'new TLS keys' 'the kernel takes none while a connection lasts'
        ;;
    *) finding 'new TLS keys' 'the kernel takes them while a connection lasts' ;;
esac
mark='?'
finding 'TLS by card' 'no connection so far'

echo "== io_uring, forbidden by a sysctl where there is one"
if [ -e /proc/sys/kernel/io_uring_disabled ]; then
    echo 2 > /proc/sys/kernel/io_uring_disabled
    scrim doctor > page
    echo 0 > /proc/sys/kernel/io_uring_disabled
    mark='!'
    finding io_uring 'forbidden to everybody, by kernel.io_uring_disabled = 2'
    scrim doctor > page
fi
mark=' '
finding io_uring allowed
modprobe -r tls nbd
