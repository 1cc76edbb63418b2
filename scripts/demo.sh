#!/usr/bin/env bash
# The main job, end to end, on a temporary volume: an image made by the real cryptsetup is mounted by Scrim without
# root, gets a file system and files, is mounted again, checked and compared. Where there is no FUSE, the same is done
# over the NBD socket.
set -euo pipefail

scrim=$(realpath "${1:?usage: scripts/demo.sh PATH-OF-SCRIM}")
source_dir=$(realpath "$(dirname "$0")/../crates")
PATH=$PATH:/usr/sbin:/sbin

nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all)

# On a desktop every user may open /dev/fuse. Where only root may, root makes a device that users may open, in a mount
# namespace that ends with this script.
if [ "$(id -u)" = 0 ] && [ -z "${SCRIM_DEMO_DEVICE:-}" ] && [ -c /dev/fuse ] &&
    ! "${nobody[@]}" test -w /dev/fuse && unshare --mount true 2>/dev/null; then
    export SCRIM_DEMO_DEVICE=made
    # shellcheck disable=SC2016
    exec unshare --mount --propagation private bash -euc '
        folder=$(mktemp -d)
        mount -t tmpfs none "$folder"
        mknod -m 0666 "$folder/fuse" c 10 229
        mount --bind "$folder/fuse" /dev/fuse
        umount -l "$folder"
        rmdir "$folder"
        exec "$@"
    ' demo "$0" "$scrim"
fi

work=$(mktemp -d /tmp/scrim-demo.XXXXXX)
export XDG_RUNTIME_DIR=$work/run
cleanup() {
    cd /
    as_nobody "$scrim" close demo --force >/dev/null 2>&1 || true
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT

# Everything after this runs as an ordinary user; root becomes nobody.
if [ "$(id -u)" = 0 ]; then
    install -m 0755 "$scrim" "$work/scrim"
    scrim=$work/scrim
    cp -r "$source_dir" "$work/tree"
    chown -R 65534:65534 "$work"
    chmod 0700 "$work"
    as_nobody() { "${nobody[@]}" "$@"; }
else
    cp -r "$source_dir" "$work/tree"
    as_nobody() { "$@"; }
fi
as_nobody mkdir -m 0700 "$XDG_RUNTIME_DIR"
cd "$work"
as_nobody mkdir mnt back
step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
# FUSE shows a mount to its own user only, so that even root's shell cannot enter it.
hashes() {
    # shellcheck disable=SC2016
    as_nobody sh -c 'cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum' hashes "$1"
}
same() {
    diff <(hashes tree) <(hashes "$1") | head
    echo "$(as_nobody find "$1" -type f | wc -l) files, all equal by SHA-256"
}
opening=(--key-file key --name demo)

# The files go in and out through a mount.
by_mount() {
    as_nobody mkfs.ext4 -q -b 4096 mnt/demo
    as_nobody "$scrim" umount mnt

    step "3. Mounted, it takes files like any folder"
    as_nobody "$scrim" mount disk.img mnt "${opening[@]}"
    as_nobody cp -r tree mnt/
    as_nobody "$scrim" status demo
    as_nobody "$scrim" umount mnt

    only_noise
    step "5. Mounted again, the files are the same, and the file system is clean"
    as_nobody "$scrim" mount disk.img mnt "${opening[@]}" --readonly
    same mnt/tree
    as_nobody "$scrim" umount mnt
    as_nobody "$scrim" mount --raw disk.img mnt "${opening[@]}" --readonly
    as_nobody e2fsck -fn mnt/demo
    as_nobody "$scrim" umount mnt
}

# The files go in and out as an image over the NBD socket.
by_socket() {
    local uri size
    uri=$(as_nobody "$scrim" open disk.img demo --key-file key)
    echo "$uri"

    step "3. An ext4 file system with real files goes in over NBD"
    size=$(as_nobody nbdinfo --size "$uri")
    as_nobody truncate -s "$size" plain.img
    as_nobody mkfs.ext4 -q -b 4096 -d tree plain.img
    as_nobody nbdcopy --flush plain.img "$uri"
    as_nobody "$scrim" status demo
    as_nobody "$scrim" close demo

    only_noise
    step "5. Opened again and read back, the file system is clean and the files are the same"
    uri=$(as_nobody "$scrim" open disk.img demo --key-file key --readonly)
    as_nobody nbdcopy "$uri" back.img
    as_nobody "$scrim" close demo
    as_nobody e2fsck -fn back.img
    as_nobody debugfs -R 'rdump / back' back.img 2>/dev/null
    as_nobody rm -rf back/lost+found
    same back
}

only_noise() {
    step "4. On disk is nothing but noise"
    if grep -qaE 'lost\+found|forbid\(unsafe_code\)' disk.img; then
        echo "plaintext on disk" >&2
        exit 1
    fi
    echo "no trace of the file system in disk.img"
}

step "1. The real cryptsetup makes a LUKS2 volume of 64 MiB"
as_nobody sh -c 'printf "correct horse battery staple" > key; truncate -s 64M disk.img'
as_nobody cryptsetup luksFormat --batch-mode --type luks2 --iter-time 500 disk.img key
as_nobody "$scrim" dump disk.img | grep -E '^(Version|UUID)|PBKDF|cipher:' | head -5

step "2. Scrim opens it for an ordinary user: no root, no device mapper, no kernel module"
if said=$(as_nobody "$scrim" mount --raw disk.img mnt "${opening[@]}" 2>&1); then
    echo "$said"
    by_mount
else
    echo "Without FUSE nothing can be mounted, so the demo uses the NBD socket (${said#scrim: })."
    by_socket
fi

step "6. And cryptsetup still knows the volume as its own"
as_nobody cryptsetup open --test-passphrase --key-file key disk.img && echo "cryptsetup unlocks it"
