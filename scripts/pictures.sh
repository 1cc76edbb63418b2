#!/usr/bin/env bash
# Takes the pictures of the documentation from the pages that Scrim serves and writes, so that they stay true.
#
#   scripts/pictures.sh [FOLDER]     default: docs/pictures
#
# It needs chromium, curl, fio, python3 and a built Scrim ($SCRIM, or target/release/scrim), and takes two minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(realpath -m "${1:-docs/pictures}")
scrim=$(realpath "${SCRIM:-target/release/scrim}")
for program in "$scrim" chromium curl fio python3; do
    command -v "$program" > /dev/null || {
        echo "scripts/pictures.sh: $program is missing" >&2
        exit 1
    }
done

place=$(mktemp -d)
export XDG_RUNTIME_DIR=$place/run XDG_STATE_HOME=$place/state XDG_CONFIG_HOME=$place/config
mkdir -m 0700 "$XDG_RUNTIME_DIR"
end_load() {
    local pid
    # fio ends by itself only if it is asked before the volume is closed.
    for pid in $(jobs -p); do kill "$pid" 2> /dev/null || true; done
    wait
    "$scrim" close --force holiday-photos > "$place/close.log" 2>&1 || true
}
clean() {
    end_load
    rm -rf "$place"
}
trap clean EXIT

# picture NAME WIDTH HEIGHT SECONDS URL [dark]: what a browser shows after some seconds
picture() {
    scripts/picture.py "$5" "$folder/$1.png" "$2" "$3" "$4" ${6:+"$6"}
    echo "$folder/$1.png: $(stat -c %s "$folder/$1.png") bytes"
}

# A volume with some load, and a server with some clients.
begin_load() {
    mkdir "$place/site"
    head -c 2000000 /dev/urandom > "$place/site/photo.jpg"
    head -c 64 /dev/urandom > "$place/key"
    "$scrim" pack "$place/site" "$place/disk.img" --key-file "$place/key" --pbkdf pbkdf2 --size 256M --batch-mode \
        > "$place/pack.log" 2>&1
    "$scrim" open "$place/disk.img" holiday-photos --key-file "$place/key" --nbd "unix:$place/disk.sock" > "$place/open.log"
    "$scrim" serve "$place/site" --listen 127.0.0.1:0 --plain-http 127.0.0.1:0 --status 127.0.0.1:0 \
        > "$place/urls" 2> "$place/serve.log" &
    while [ "$(wc -l < "$place/urls")" -lt 3 ]; do sleep 0.1; done
    fio --name=load --ioengine=nbd --uri="nbd+unix:///?socket=$place/disk.sock" --thread --rw=randrw --rwmixread=70 --bs=16k \
        --iodepth=4 --rate_iops=400,200 --size=200M --time_based --runtime=600 > /dev/null 2>&1 &
    local pause
    for pause in 0.05 0.11 0.23; do
        while sleep "$pause"; do
            curl -qsk -o "$place/got-$pause" "$(sed -n 1p "$place/urls")photo.jpg" || break
        done &
    done
}

mkdir -p "$folder"
begin_load
status=$(sed -n 3p "$place/urls")
picture status 1200 900 40 "$status"
picture status-phone 400 850 25 "$status" dark
end_load
"$scrim" bench paths --only served --rounds 15 --seconds 0.1 --html "$place/paths.html" > "$place/paths.log" 2>&1
picture paths 1100 1000 2 "file://$place/paths.html"
