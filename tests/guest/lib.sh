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

# same WHAT ONE OTHER: the second file begins with all of the first.
same() {
    [ -s "$2" ] || fail "$1: nothing to compare with"
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

# payload LINE_FILE FILE: the plaintext of what a table line names, to the file; and the other way round.
payload_out() {
    from_scrim "$(scrim open --table "$1" sabotaged)" > "$2"
    scrim close sabotaged
}
payload_in() {
    to_scrim "$2" "$(scrim open --table "$1" sabotaged)"
    scrim close sabotaged
}

# hand_over IMAGE LINE: between the maker of a volume and its judge, with the volume's table line, keys
# shown. Does nothing, but for the suite's own test.
hand_over() {
    offset=$(($(echo "$2" | cut -d' ' -f8) * 512))
    size=4096
    case $SABOTAGE in
        none) ;;
        flipped_bit)
            at=$((offset + 100000))
            byte=$(dd if="$1" bs=1 skip=$at count=1 status=none | od -An -tu1)
            printf "\\$(printf %03o $((byte ^ 1)))" | dd of="$1" bs=1 seek=$at conv=notrunc status=none
            ;;
        shifted_iv)
            echo "$2" | awk -v image="$PWD/$1" '{ $7 = image; print }' > right.table
            awk '{ $6 = $6 + 1; print }' right.table > shifted.table
            payload_out right.table shifted
            payload_in shifted.table shifted
            ;;
        swapped_sectors)
            dd if="$1" of=one bs=$size skip=$((offset / size + 10)) count=1 status=none
            dd if="$1" of=other bs=$size skip=$((offset / size + 11)) count=1 status=none
            cat other one | dd of="$1" bs=$size seek=$((offset / size + 10)) conv=notrunc status=none
            ;;
        *) fail "no such sabotage: $SABOTAGE" ;;
    esac
}

# line_agrees CIPHER KEY_BITS IV_OFFSET OFFSET OPTIONS…: what dm-crypt writes by a table line, Scrim reads by it. The
# case sets `payload`, a file, `sectors`, its length, and `turn`, which chooses Scrim's kernels.
line_agrees() {
    cipher=$1 iv_offset=$3 offset=$4
    key=-
    [ "$2" = 0 ] || key=$(head -c $(($2 / 8)) /dev/urandom | od -An -v -tx1 | tr -d ' \n')
    shift 4
    options=
    [ $# = 0 ] || options=" $# $*"
    echo "0 $sectors crypt $cipher $key $iv_offset /dev/ram0 $offset$options" > line
    dmsetup create theirs line
    to_kernel theirs payload
    dmsetup table --showkeys theirs > printed
    dmsetup remove --retry theirs
    turn=$(((turn + 1) % 3))
    set -- vaes512,vaes2,aesni vaes512,vaes2 vaes512
    shift $turn
    uri=$(SCRIM_DISABLE=$1 scrim open --table printed ours)
    scrim status ours | grep driver:
    from_scrim "$uri" > read
    scrim table ours --showkeys > again
    scrim close ours
    same "$cipher$options, $1 disabled" payload read
    diff printed again || fail "$cipher: the tables differ"
}

# line_is_refused CIPHER KEY_BITS OPTIONS…: what dm-crypt refuses, Scrim refuses.
line_is_refused() {
    cipher=$1
    key=$(head -c $(($2 / 8)) /dev/zero | od -An -v -tx1 | tr -d ' \n')
    shift 2
    options=
    [ $# = 0 ] || options=" $# $*"
    echo "0 $sectors crypt $cipher $key 0 /dev/ram0 0$options" > line
    if dmsetup create theirs line 2> /dev/null; then fail "dm-crypt takes: $cipher"; fi
    if scrim open --table line ours 2> said; then fail "Scrim takes: $cipher"; fi
    cat said
    grep -q '^scrim: table, line 1: ' said || fail "it is not the line that Scrim refuses: $cipher"
}

# for_each_volume FUNCTION: calls it with the words of the lines of standard input that begin with this
# kernel's number, or with "all"; comments are passed over.
for_each_volume() {
    kernel=$(uname -r | cut -d. -f1-2)
    ran=no
    while read -r wanted line; do
        case $wanted in "$kernel" | all) ;; *) continue ;; esac
        echo "== $line"
        # shellcheck disable=SC2086
        "$1" $line < /dev/null
        ran=yes
        [ "$ONLY_FIRST" = no ] || break
    done
    [ $ran = yes ] || fail "no row is for the kernel $kernel"
}

# start_udev: udev, which libdevmapper then waits for. Cases run without it otherwise.
start_udev() {
    unset DM_DISABLE_UDEV
    /usr/lib/systemd/systemd-udevd --daemon
    udevadm trigger --type=devices --action=add --subsystem-match=block
    udevadm settle --timeout=30
}

stop_udev() {
    export DM_DISABLE_UDEV=1
    udevadm control --exit
    # Its workers open devices that other cases remove.
    for _ in $(seq 100); do
        pgrep -x systemd-udevd > /dev/null || break
        sleep 0.1
    done
    rm -rf /run/udev
}

# What a case must not leave behind; stopped here all the same.
tidy() {
    cd /
    left=
    for place in $(awk '$2 ~ "^/tmp/" { print $2 }' /proc/mounts); do
        left="$left mounted:$place"
        umount -l "$place" || true
    done
    for name in $(dmsetup ls | awk '$1 != "No" { print $1 }'); do
        left="$left mapped:$name"
        dmsetup remove --force --retry "$name" || true
    done
    if [ -e /run/udev/control ]; then
        left="$left running:udev"
        pkill -CONT systemd-udevd || true
        stop_udev
    fi
    for device in /sys/block/nbd*/pid; do
        [ -e "$device" ] || continue
        device=${device#/sys/block/}
        left="$left connected:${device%/pid}"
        nbd-client -d "/dev/${device%/pid}" || true
    done
    for name in /run/scrim/*.control; do
        [ -e "$name" ] || continue
        name=$(basename "$name" .control)
        left="$left open:$name"
        scrim close --force "$name" || true
    done
    for device in $(losetup --noheadings --output NAME); do
        left="$left attached:$device"
        losetup --detach "$device" || true
    done
    rm -rf /tmp/tmp.*
    [ -z "$left" ] || { echo "FAILED: left behind:$left"; exit 1; }
}
