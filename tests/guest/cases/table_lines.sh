# For the same volume Scrim and device mapper print the same table, field by field, and each runs the
# other's line as it is.
#
# kernels: 6.1 6.12 7.3
# limit: 120 s

modprobe -a loop dm-crypt
noise payload 1048576

check() { # TYPE CIPHER KEY_BITS SECTOR_SIZE
    truncate -s 24M disk
    sector=
    [ "$1" = luks1 ] || sector="--sector-size $4"
    scrim format -q --type "$1" --cipher "$2" --key-size "$3" $sector $(pbkdf pbkdf2) disk --key-file key
    device=$(losetup --find --show disk)

    uri=$(scrim open "$device" ours --key-file key --allow-discards --perf-no_read_workqueue)
    to_scrim payload "$uri"
    scrim table ours --showkeys > ours.table
    scrim table ours > ours.masked
    scrim close ours
    cryptsetup open --disable-keyring --allow-discards --perf-no_read_workqueue --key-file key "$device" theirs
    dmsetup table --showkeys theirs > theirs.table
    dmsetup table theirs > theirs.masked
    cryptsetup close theirs
    diff ours.table theirs.table || fail "$1 $2: the tables differ"
    diff ours.masked theirs.masked || fail "$1 $2: the masked tables differ"

    dmsetup create theirs ours.table
    from_kernel theirs > read
    dmsetup remove --retry theirs
    same "$1 $2, by Scrim's line" payload read

    uri=$(scrim open --table theirs.table ours)
    from_scrim "$uri" > read
    scrim close ours
    same "$1 $2, by the kernel's line" payload read
    losetup --detach "$device"
    rm disk
}

for_each_volume check <<'.'
# kernel, type, cipher, key bits, sector
6.1 luks2 aes-xts-plain64 512 4096
6.12 luks2 aes-xts-plain64 256 512
7.3 luks2 aes-cbc-essiv:sha256 256 4096
6.1 luks2 aes-ecb 128 512
7.3 luks1 aes-xts-plain64 512 512
6.12 luks1 aes-cbc-plain 256 512
6.1 luks1 aes-xts-plain64 256 512
.
