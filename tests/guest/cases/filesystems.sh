# File systems made through Scrim, on the kernel's NBD client, are sound on dm-crypt, and those made
# on dm-crypt are sound through Scrim: by fsck, and by the files in them. So are those that were there
# before their volume.
#
# kernels: 6.1 6.12 7.3
# limit: 240 s

modprobe -a loop dm-crypt nbd ext4 xfs
mkdir -p files/programs mount
cp -r /usr/sbin/[bd]* files/programs
cp -r /etc files/settings
ln -s programs files/link
noise files/noise 2000000

make() { # FILESYSTEM DEVICE
    case $1 in
        ext4) mkfs.ext4 -q -F "$2" ;;
        xfs) mkfs.xfs -q -f "$2" ;;
    esac
    mount "$2" mount
    cp -a files/. mount
    umount mount
}

check() { # FILESYSTEM DEVICE
    case $1 in
        ext4) e2fsck -fn "$2" ;;
        xfs) xfs_repair -n "$2" ;;
    esac > fsck.log 2>&1 || { cat fsck.log; fail "$1: not sound"; }
    mount -o ro "$2" mount
    diff -r --no-dereference files mount -x lost+found || fail "$1: payload differs"
    umount mount
}

through_scrim() { # FUNCTION FILESYSTEM
    scrim open disk ours --key-file key > /dev/null
    nbd-client -unix /run/scrim/ours.nbd -b $sector /dev/nbd0 > /dev/null
    "$1" "$2" /dev/nbd0
    nbd-client -d /dev/nbd0 > /dev/null
    scrim close ours
}

through_dm_crypt() { # FUNCTION FILESYSTEM
    cryptsetup open --key-file key disk theirs
    "$1" "$2" /dev/mapper/theirs
    cryptsetup close theirs
}

check_both_ways() { # FILESYSTEM
    echo "== $1, sectors of $sector"
    rm -f disk
    scrim format -q disk --size 340M --sector-size $sector $(pbkdf argon2id) --key-file key
    through_scrim make "$1"
    through_dm_crypt check "$1"
    through_dm_crypt make "$1"
    through_scrim check "$1"
}

# Pairwise: each size of sectors with each file system, on one kernel or another.
sector=512
case $(uname -r) in 6.12.*) sector=4096 ;; esac
check_both_ways ext4
sector=$((4096 + 512 - sector))
check_both_ways xfs

echo "== one with blocks of 1 KiB that is there already"
rm -f disk
truncate -s 160M plain
mkfs.ext4 -q -F -b 1024 plain
mount -o loop plain mount
cp -a files/. mount
umount mount
scrim import -q plain disk $(pbkdf argon2id) --key-file key
sector=512
through_dm_crypt check ext4
through_scrim check ext4
scrim encrypt --in-place -q plain $(pbkdf argon2id) --key-file key
mv plain disk
through_dm_crypt check ext4
