# Volumes that the kernel runs for Scrim: cryptsetup and dmsetup know, change and close what Scrim has opened, and Scrim
# what they have opened.
#
# kernels: 6.1 6.12 7.3
# limit: 720 s

modprobe -a loop dm-crypt
noise payload 1048576

# said WORDS: the lines that the last command has written to `said` have them.
said() {
    grep -q -- "$*" said || { cat said; fail "missing: $*"; }
}

# agrees NAME: both print the same table, with and without keys.
agrees() {
    for option in '' --showkeys; do
        scrim table "$1" $option > ours.table
        dmsetup table "$1" $option | sed 's/ $//' > theirs.table
        diff ours.table theirs.table || fail "$1: the tables differ"
    done
}

for type in luks1 luks2; do
    echo "== $type"
    truncate -s 24M disk
    scrim format -q --type $type $(pbkdf pbkdf2) disk --key-file key

    # What Scrim opens is a volume of cryptsetup's.
    [ "$(scrim open disk ours --engine kernel --key-file key)" = /dev/mapper/ours ] || fail "another address"
    to_kernel ours payload
    cryptsetup status ours > said
    grep -qi "type: *$type" said || fail "cryptsetup sees another type"
    said "loop:    $PWD/disk"
    scrim status ours > said
    grep -qi "type: *$type" said || fail "another type"
    said "device:       $PWD/disk"
    case $type in
        luks1) said 'key location: dm-crypt' ;;
        luks2) said 'key location: keyring' ;;
    esac
    scrim status ours --json | grep -q '"engine": *"kernel"' || fail "no engine in JSON"
    scrim list > said
    said "$(printf 'ours\t')"
    agrees ours

    # It can be changed by either.
    scrim refresh ours --perf-no_read_workqueue --perf-no_write_workqueue $([ $type = luks1 ] || echo --key-file key)
    dmsetup table ours > said
    said no_read_workqueue no_write_workqueue
    cryptsetup refresh ours --perf-same_cpu_crypt --key-file key
    scrim status ours > said
    said 'flags:        same_cpu_crypt'
    agrees ours
    scrim suspend ours
    [ "$(dmsetup info -c --noheadings -o suspended ours)" = Suspended ] || fail "it is not suspended"
    scrim status ours > said
    said 'state:        SUSPENDED'
    scrim resume ours
    truncate -s 32M disk
    scrim resize ours $([ $type = luks1 ] || echo --key-file key) 2> said
    said 'now has'
    scrim status ours > said
    said "size:         $(blockdev --getsz /dev/mapper/ours) sectors"
    cryptsetup resize ours --size 20480 --key-file key
    scrim status ours > said
    said 'size:         20480 sectors'
    from_kernel ours > read
    same "$type, by Scrim" payload read
    scrim stats ours > said
    said 'not known of the kernel'
    scrim stats ours --json | grep -q '"busy_ms"' || fail "no figures"
    if scrim open disk more --engine kernel --key-file key 2> said; then fail "it is open twice"; fi
    said 'another program has it open'
    cryptsetup close ours
    [ -z "$(losetup -j disk)" ] || fail "its loop device stays"
    [ ! -e /dev/mapper/ours ] || fail "its node stays"

    # What cryptsetup opens is a volume of Scrim's.
    cryptsetup open disk theirs --key-file key
    scrim list > said
    said "$(printf 'theirs\t')"
    agrees theirs
    scrim refresh theirs --allow-discards $([ $type = luks1 ] || echo --key-file key)
    cryptsetup status theirs > said
    said 'flags:   discards'
    from_kernel theirs > read
    same "$type, by cryptsetup" payload read
    mkfs.ext4 -q /dev/mapper/theirs
    mkdir -p folder
    scrim mount theirs folder > said
    said 'ext4 by kernel'
    echo words > folder/file
    scrim status theirs > said
    said "mount:        $PWD/folder"
    if scrim close theirs 2> said; then fail "it was closed in use"; fi
    said "$PWD/folder uses it"
    scrim umount theirs
    scrim mount theirs folder --readonly
    [ "$(cat folder/file)" = words ] || fail "another file"
    scrim umount folder
    scrim close theirs
    [ -z "$(losetup -j disk)" ] || fail "its loop device stays"
    rm disk
done

echo '== a block device, a detached header, read-only, the key in the table'
truncate -s 24M disk
device=$(losetup --find --show disk)
scrim format -q $(pbkdf pbkdf2) "$device" --header head --key-file key
scrim open "$device" ours --engine kernel --header head --key-file key --disable-keyring --readonly
cryptsetup status ours --header head > said
said 'mode:    readonly'
said 'key location: dm-crypt'
agrees ours
scrim refresh ours --header head --perf-no_read_workqueue
agrees ours
scrim close ours

echo '== a key that is forgotten'
for type in luks1 luks2; do
    truncate -s 24M other
    scrim format -q --type $type $(pbkdf pbkdf2) other --key-file key
    scrim open other ours --engine kernel --key-file key
    to_kernel ours payload
    dmsetup table ours --showkeys > before
    scrim luksSuspend ours
    scrim status ours > said
    said 'state:        SUSPENDED'
    dmsetup table ours --showkeys > without
    grep -q "$(cut -d' ' -f5 before)" without && fail "$type: dm-crypt has its key"
    if scrim luksSuspend ours 2> said; then fail "it is suspended twice"; fi
    said 'suspended already'
    if scrim resume ours 2> said; then fail "it is resumed without a key"; fi
    said 'scrim luksResume ours'
    if printf wrong | scrim luksResume ours --key-file - 2> said; then fail "a wrong key"; fi
    scrim luksResume ours --key-file key
    dmsetup table ours --showkeys > after
    diff before after || fail "$type: another table"
    from_kernel ours > read
    same "$type, after luksResume" payload read
    # By turns with cryptsetup.
    cryptsetup luksSuspend ours
    scrim luksResume ours --key-file key
    scrim luksSuspend ours
    cryptsetup luksResume ours --key-file key
    from_kernel ours > read
    same "$type, by turns" payload read

    # It is closed when the last user has gone.
    exec 9< /dev/mapper/ours
    scrim close --deferred ours 2> said
    said 'it is closed once it is not'
    scrim status ours > said
    said 'closes when nobody uses it'
    scrim close --cancel-deferred ours
    exec 9<&-
    [ -e /dev/mapper/ours ] || fail "it was closed after all"
    exec 9< /dev/mapper/ours
    scrim close --deferred ours 2> said
    exec 9<&-
    [ -z "$(dmsetup ls | grep ours)" ] || fail "it stays"
    rm -f /dev/mapper/ours
    scrim open other ours --engine kernel --key-file key
    scrim close --deferred ours
    [ ! -e /dev/mapper/ours ] || fail "its node stays"
    rm other
done

echo '== persistent flags'
scrim format -q $(pbkdf pbkdf2) "$device" --key-file key
scrim open "$device" ours --engine kernel --key-file key
scrim refresh ours --persistent --perf-no_write_workqueue --key-file key
cryptsetup luksDump "$device" | grep -q 'Flags:.*no-write-workqueue' || fail "no persistent flag"
scrim close ours
cryptsetup open "$device" theirs --key-file key
scrim status theirs > said
said no_write_workqueue
scrim close theirs

echo '== tables'
printf '0 8 zero\n8 16 linear %s 8\n24 8 error\n' "$device" > table
scrim open --table table ours --engine kernel
agrees ours
scrim table ours > active
sed 's/linear \([^ ]*\) 8/linear \1 16/' active | scrim reload ours 2> said && fail "other data was taken"
said --force
sed 's/linear \([^ ]*\) 8/linear \1 16/' active | scrim reload ours --force
scrim table ours --inactive > said
dmsetup table --inactive ours | sed 's/ $//' | diff said - || fail "the loaded tables differ"
scrim clear ours
scrim table ours | diff active - || fail "the table at work has changed"
sed 's/linear \([^ ]*\) 8/linear \1 16/' active | scrim reload ours --force
scrim resume ours
scrim table ours > said
said linear 7:
said '16$'
scrim close ours
losetup --detach "$device"
