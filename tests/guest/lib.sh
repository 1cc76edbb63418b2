# What the cases share. Sourced first, in the guest; every case runs in a folder of its own, on a RAM
# disk, and ends at its first failure.

set -eu
work=$(mktemp -d)
cd "$work"
printf 'correct horse battery staple' > key

# What sabotage.rs sets.
: "${SABOTAGE:=none}" "${ONLY_FIRST:=no}"

# A key derivation that costs next to nothing, for each of the algorithms. cryptsetup and Scrim take
# the same options.
pbkdf() {
    case $1 in
        pbkdf2) echo --pbkdf pbkdf2 --pbkdf-force-iterations 1000 ;;
        *) echo --pbkdf "$1" --pbkdf-force-iterations 4 --pbkdf-memory 32 --pbkdf-parallel 1 ;;
    esac
}

fail() {
    echo "FAILED: $*"
    exit 1
}

# noise FILE BYTES
noise() {
    head -c "$2" /dev/urandom > "$1"
}

# same WHAT ONE OTHER: the two files are the same, as long as the shorter one goes on.
same() {
    cmp -n "$(stat -c %s "$2")" "$2" "$3" || fail "$1: payload differs"
}

# from_kernel NAME: the plaintext of the open dm-crypt device NAME, on standard output.
from_kernel() {
    dd if="/dev/mapper/$1" bs=1M iflag=direct status=none
}

# to_kernel NAME FILE: writes the file to the beginning of the dm-crypt device.
to_kernel() {
    dd if="$2" of="/dev/mapper/$1" bs=1M oflag=direct conv=fsync status=none
}

# from_scrim URI, to_scrim FILE URI: the same through Scrim.
from_scrim() {
    nbdcopy "$1" -
}
to_scrim() {
    nbdcopy --flush "$1" "$2"
}

# attach FILE SECTOR_SIZE: a loop device on a file; prints its name.
attach() {
    losetup --find --show --sector-size "$2" --direct-io=off "$1"
}

# hand_over IMAGE OFFSET SECTOR: between the maker of a volume and its judge. Does nothing, but for
# the suite's own test; the payload begins at OFFSET and has sectors of SECTOR bytes.
hand_over() {
    case $SABOTAGE in
        none) ;;
        flipped_bit)
            at=$(($2 + 100000))
            byte=$(dd if="$1" bs=1 skip=$at count=1 status=none | od -An -tu1)
            printf "\\$(printf %03o $((byte ^ 1)))" | dd of="$1" bs=1 seek=$at conv=notrunc status=none
            ;;
        shifted_iv)
            dd if="$1" bs="$3" skip=$(($2 / $3 + 1)) status=none > shifted
            dd if=shifted of="$1" bs="$3" seek=$(($2 / $3)) conv=notrunc status=none
            ;;
        swapped_sectors)
            sector=$(($2 / $3 + 10))
            dd if="$1" of=one bs="$3" skip=$sector count=1 status=none
            dd if="$1" of=other bs="$3" skip=$((sector + 1)) count=1 status=none
            cat other one | dd of="$1" bs="$3" seek=$sector conv=notrunc status=none
            ;;
        *) fail "no such sabotage: $SABOTAGE" ;;
    esac
}

# Which of the three kernels this is, from 0.
this_kernel() {
    case $(uname -r) in
        6.1.*) echo 0 ;;
        6.12.*) echo 1 ;;
        *) echo 2 ;;
    esac
}

# for_each_volume FUNCTION: calls it with the words of the lines of standard input, but for comments.
# The rows are chosen pairwise, and the kernel is one more column: a third of them belongs to each.
for_each_volume() {
    row=0
    while read -r line; do
        case $line in '' | '#'*) continue ;; esac
        row=$((row + 1))
        [ $((row % 3)) = "$(this_kernel)" ] || continue
        echo "== $line"
        # shellcheck disable=SC2086
        "$1" $line < /dev/null
        [ "$ONLY_FIRST" = no ] || break
    done
}

# What a case must not leave behind; stopped here all the same.
tidy() {
    cd /
    left=
    for name in /run/scrim/*.control; do
        [ -e "$name" ] || continue
        name=$(basename "$name" .control)
        left="$left open:$name"
        scrim close --force "$name" || true
    done
    for place in $(awk '$2 ~ "^/tmp/" { print $2 }' /proc/mounts); do
        left="$left mounted:$place"
        umount -l "$place"
    done
    for name in $(dmsetup ls | awk '$1 != "No" { print $1 }'); do
        left="$left mapped:$name"
        dmsetup remove --force --retry "$name" || true
    done
    for device in /sys/block/nbd*/pid; do
        [ -e "$device" ] || continue
        device=${device#/sys/block/}
        left="$left connected:${device%/pid}"
        nbd-client -d "/dev/${device%/pid}" || true
    done
    for device in $(losetup --noheadings --output NAME); do
        left="$left attached:$device"
        losetup --detach "$device"
    done
    rm -rf /tmp/tmp.*
    [ -z "$left" ] || { echo "FAILED: left behind:$left"; exit 1; }
}
