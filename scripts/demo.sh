#!/usr/bin/env bash
# The main job, end to end, on a temporary volume: an image made by the real cryptsetup is opened
# by Scrim without root, filled with a real file system, read back, checked and compared.
set -euo pipefail

scrim=$(realpath "${1:?usage: scripts/demo.sh PATH-OF-SCRIM}")
source_dir=$(realpath "$(dirname "$0")/../crates")
PATH=$PATH:/usr/sbin:/sbin

work=$(mktemp -d /tmp/scrim-demo.XXXXXX)
export XDG_RUNTIME_DIR=$work/run
cleanup() {
    as_nobody "$scrim" close demo --force >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap cleanup EXIT

# Everything after this runs as an ordinary user; root becomes nobody, without any capability.
if [ "$(id -u)" = 0 ]; then
    install -m 0755 "$scrim" "$work/scrim"
    scrim=$work/scrim
    cp -r "$source_dir" "$work/tree"
    chown -R 65534:65534 "$work"
    chmod 0700 "$work"
    as_nobody() {
        setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"
    }
else
    cp -r "$source_dir" "$work/tree"
    as_nobody() { "$@"; }
fi
as_nobody mkdir -m 0700 "$XDG_RUNTIME_DIR"
step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
hashes() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }
cd "$work"

step "1. The real cryptsetup makes a LUKS2 volume of 64 MiB"
as_nobody sh -c 'printf "correct horse battery staple" > key; truncate -s 64M disk.img'
as_nobody cryptsetup luksFormat --batch-mode --type luks2 --iter-time 500 disk.img key
as_nobody "$scrim" dump disk.img | grep -E '^(Version|UUID)|PBKDF|cipher:' | head -5

step "2. Scrim opens it: no root, no device mapper, no kernel module"
uri=$(as_nobody "$scrim" open disk.img demo --key-file key)
echo "$uri"
as_nobody nbdinfo --size "$uri"

step "3. An ext4 file system with real files goes in over NBD"
size=$(as_nobody nbdinfo --size "$uri")
as_nobody truncate -s "$size" plain.img
as_nobody mkfs.ext4 -q -d tree plain.img
as_nobody nbdcopy --flush plain.img "$uri"
as_nobody "$scrim" status demo
as_nobody "$scrim" close demo

step "4. On disk is nothing but noise"
if grep -qaE 'lost\+found|forbid\(unsafe_code\)' disk.img; then
    echo "plaintext on disk" >&2
    exit 1
fi
echo "no trace of the file system in disk.img"

step "5. Opened again and read back, the file system is clean and the files are the same"
uri=$(as_nobody "$scrim" open disk.img demo --key-file key --readonly)
as_nobody nbdcopy "$uri" back.img
as_nobody "$scrim" close demo
as_nobody e2fsck -fn back.img
as_nobody mkdir back
as_nobody debugfs -R 'rdump / back' back.img 2>/dev/null
as_nobody rm -rf back/lost+found
diff <(hashes tree) <(hashes back)
echo "$(find back -type f | wc -l) files, all equal by SHA-256"

step "6. And cryptsetup still knows the volume as its own"
as_nobody cryptsetup open --test-passphrase --key-file key disk.img && echo "cryptsetup unlocks it"
