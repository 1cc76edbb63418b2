# An ordinary user reads by fuse2fs what the kernel wrote on dm-crypt, and the kernel what the user wrote.
#
# kernels: 6.1 6.12 7.3
# limit: 180 s

. /share/tests/guest/mounts.sh
format 60M 4096
# What the packages' scripts would have done.
chmod 666 /dev/fuse
chmod u+s "$(command -v fusermount3)"
[ -e /etc/mtab ] || ln -s /proc/mounts /etc/mtab
chown -R 65534:65534 .
chmod 755 .
cp "$(command -v fusermount3)" "$work/fusermount3"
as_user() {
    setpriv --reuid=65534 --regid=65534 --clear-groups \
        env XDG_RUNTIME_DIR="$work/user" XDG_STATE_HOME="$work/user" "$@"
}
mkdir -m 700 user
chown 65534:65534 user
cryptsetup open --key-file key disk theirs
mkfs.ext4 -q -F /dev/mapper/theirs
mount /dev/mapper/theirs mount
chmod 777 mount
tree 60 3 mount/theirs
chmod -R a+rX mount/theirs
wanted=$(digest mount/theirs)
theirs_end ext4
as_user timeout 60 scrim mount disk mount --key-file key | grep 'ext4 by fuse2fs'
as_user sh -c 'cp -r mount/theirs mount/ours'
as_user sh -c 'diff -r --no-dereference mount/theirs mount/ours'
as_user timeout 60 scrim umount mount
theirs -o ro
[ "$(digest mount/theirs)" = "$wanted" ] || fail "fuse2fs: the kernel's tree differs"
diff -r --no-dereference mount/theirs mount/ours
theirs_end ext4

