# What the cases of `scrim mount` share: trees that are made and compared on both sides.

modprobe -a loop dm-crypt ext4 xfs btrfs
# Built in on some kernels.
modprobe -q fuse || true
mkdir -p mount
kernel=$(uname -r)

# tree COUNT SEED FOLDER: files of awkward sizes in folders of 500, with holes, links and long names.
tree() {
    python3 - "$@" << 'PYTHON'
import os, random, sys
count, seed, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
draw = random.Random(seed)
for number in range(count):
    inner = f"{folder}/{number // 500}"
    if number % 500 == 0:
        os.makedirs(inner)
    with open(f"{inner}/{number}-{'x' * draw.choice((0, 3, 200))}", "wb") as file:
        if number % 100 == 7:
            file.seek(70_000)
        file.write(draw.randbytes(draw.choice((0, 1, 100, 4095, 4096, 9000))))
    if number % 50 == 3:
        os.symlink(f"{number}", f"{inner}/link-{number}")
PYTHON
}

# digest FOLDER: one number for all names, contents, modes and links under the folder.
digest() {
    (cd "$1" && find . ! -path './lost+found*' \( -type f -printf 'f %m %p ' -exec sha256sum {} + -o -printf '%y %m %p %l\n' \)) |
        sort | sha256sum
}

format() { # SIZE SECTOR
    rm -f disk
    scrim format -q disk --size "$1" --sector-size "$2" $(pbkdf pbkdf2) --key-file key 2> /dev/null
}

check() { # FILESYSTEM DEVICE
    case $1 in
        ext4) e2fsck -fn "$2" ;;
        xfs) xfs_repair -n "$2" ;;
        btrfs) btrfs check --readonly "$2" ;;
    esac > fsck.log 2>&1 || { cat fsck.log; fail "$1: not sound"; }
}

theirs() { # what cryptsetup and the kernel's mount do
    cryptsetup open --key-file key disk theirs
    mount "$@" /dev/mapper/theirs mount
}

theirs_end() { # FILESYSTEM
    umount mount
    check "$1" /dev/mapper/theirs
    cryptsetup close theirs
}

ours() {
    timeout 60 scrim mount disk mount --key-file key "$@"
}

ours_end() { # FILESYSTEM
    timeout 60 scrim umount mount
    [ -z "$(scrim list)" ] || fail "$1: the volume is still open"
    timeout 60 scrim mount --raw disk mount --key-file key > /dev/null
    check "$1" mount/disk
    timeout 60 scrim umount mount
}

both_ways() { # FILESYSTEM SIZE SECTOR COUNT MKFS...
    file_system=$1 count=$4
    format "$2" "$3"
    shift 4
    echo "== $file_system, $count files"
    cryptsetup open --key-file key disk theirs
    "$@" /dev/mapper/theirs > /dev/null
    cryptsetup close theirs
    # Made there, read here.
    theirs
    tree "$count" 1 mount/theirs
    wanted=$(digest mount/theirs)
    theirs_end "$file_system"
    ours | grep "$file_system by kernel"
    [ "$(digest mount/theirs)" = "$wanted" ] || fail "$file_system: the kernel's tree differs"
    # And the other way round.
    rm -r mount/theirs/0
    tree "$count" 2 mount/ours
    wanted=$(digest mount)
    ours_end "$file_system"
    theirs -o ro
    [ "$(digest mount)" = "$wanted" ] || fail "$file_system: Scrim's tree differs"
    theirs_end "$file_system"
}

# Number of files: emulation is slow, so that the newest kernel alone has many.
case $kernel in
    7.3.*) count=10000 ;;
    *) count=1000 ;;
esac
