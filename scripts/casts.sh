#!/usr/bin/env bash
# Makes the terminal casts of the documentation: pages of the first hour, whose commands are run at a real terminal by an
# ordinary user.
#
#   scripts/casts.sh [FOLDER]     default: docs/pictures
#
# It needs root, for a network and a /dev/fuse of its own, what the pages need, and a built Scrim ($SCRIM, or
# target/release/scrim).
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != inside ]; then
    folder=$(realpath -m "${1:-docs/pictures}")
    scrim=$(realpath "${SCRIM:-target/release/scrim}")
    [ -x "$scrim" ] || { echo "scripts/casts.sh: $scrim is missing" >&2; exit 1; }
    mkdir -p "$folder"
    exec unshare --mount --net --propagation private "$0" inside "$folder" "$scrim"
fi
folder=$2 scrim=$3

place=$(mktemp -d)
clean() {
    umount -l "$place" 2> /dev/null || true
    rm -rf --one-file-system "$place"
}
trap clean EXIT
mount -t tmpfs -o mode=0755 none "$place"
ip link set lo up
# On a desktop every user may open it.
mknod -m 0666 "$place/fuse" c 10 229
mount --bind "$place/fuse" /dev/fuse
# Others may not look into the folders of this one.
install -D -m 0755 "$scrim" "$place/bin/scrim"
cp scripts/cast.py README.md docs/manual/first-hour/*.md "$place"
install -d -m 0700 -o 65534 -g 65534 "$place/tmp"

# cast NAME PAGE [HEADING]
cast() {
    (cd "$place" && PATH=$place/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin TMPDIR=$place/tmp setpriv --reuid=65534 \
        --regid=65534 --clear-groups --inh-caps=-all ./cast.py "${@:2}") > "$place/cast.svg"
    cp "$place/cast.svg" "$folder/$1.svg"
    echo "$folder/$1.svg: $(stat -c %s "$folder/$1.svg") bytes"
}

cast mount README.md 'Mount an encrypted disk image'
for page in cryptsetup stick https-volume broken-header; do
    cast "$page" "$page.md"
done
