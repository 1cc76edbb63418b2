#!/usr/bin/env bash
# Tries the packages in systems that are made for it: Debian 11, 12 and 13 and Ubuntu 24.04, in folders.
#
#   scripts/packages_test.sh FOLDER [SUITE...]
#
# FOLDER has what scripts/packages.sh has made. Needs root and debootstrap, and for Ubuntu the address of an archive in
# SCRIM_UBUNTU_MIRROR. Prints a row for each system.
set -euo pipefail
folder=$(realpath "${1:?usage: scripts/packages_test.sh FOLDER [SUITE...]}")
shift
[ $# -gt 0 ] || set -- bullseye bookworm trixie noble
archive() { apt-get indextargets --format '$(REPO_URI)' | grep -m1 '/debian/$'; }
deb=$(echo "$folder"/*.deb)
portable=$(echo "$folder"/*.tar.xz)
work=$(mktemp -d)
system=
clean() {
    [ -z "$system" ] || for place in dev/pts proc dev; do umount -l "$system/$place" 2> /dev/null || true; done
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

in_it() {
    chroot "$system" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"
}

# logged COMMAND...: its output is shown only if it fails
logged() {
    "$@" > "$work/log" 2>&1 || { tail -n 5 "$work/log"; return 1; }
}

# first_job PROGRAM: a volume is made, tried, opened, listed and closed, and a folder could be served.
first_job() {
    in_it sh -ec "
        cd /root; rm -rf files disk.img; mkdir -p files
        echo 'out of a volume' > files/page; printf 'a passphrase' > key
        $1 format -q disk.img --size 20M --key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000
        $1 test-passphrase disk.img --key-file key
        $1 open disk.img data --key-file key
        $1 list | grep -q data
        $1 close data
        $1 serve files --listen 127.0.0.1:0 --check
    " > "$work/said" 2>&1 || { cat "$work/said"; return 1; }
}

# try SUITE MIRROR SCRIPT
try() {
    system=$work/$1
    logged debootstrap --variant=minbase ${3:+--no-check-gpg} "$1" "$system" "$2" ${3:-}
    mount --bind /dev "$system/dev"
    mount -t proc proc "$system/proc"
    cp "$deb" "$system/tmp/scrim.deb"
    local before after started
    before=$(du -sm "$system/usr" | cut -f1)
    started=$(date +%s)
    logged in_it apt-get install -y -qq --no-install-recommends /tmp/scrim.deb
    local installed=$(($(date +%s) - started))
    after=$(du -sm "$system/usr" | cut -f1)
    first_job scrim

    # An upgrade leaves a volume open, and removal is refused while one is.
    in_it sh -ec 'cd /root; mkdir -p -m 0700 /run/scrim; scrim open disk.img kept --key-file key' > /dev/null
    in_it dpkg -i /tmp/scrim.deb > "$work/log" 2>&1
    in_it scrim status kept | grep -q 'kept is active'
    if in_it dpkg -r scrim > "$work/log" 2>&1; then echo "$1: it was removed with a volume open"; return 1; fi
    grep -q 'these volumes are open: kept' "$work/log"
    in_it scrim close kept
    in_it dpkg -r scrim > "$work/log" 2>&1
    if in_it sh -c 'command -v scrim' > /dev/null; then echo "$1: it is still there"; return 1; fi

    # Without a package.
    tar -C "$system/opt" -xJf "$portable" --strip-components=1
    first_job /opt/bin/scrim
    printf '%-10s %-22s %10s s %10s MB   all passed\n' "$1" "$(. "$system/etc/os-release" && echo "$PRETTY_NAME")" \
        "$installed" $((after - before))
    for place in proc dev; do umount -l "$system/$place"; done
    rm -rf "$system"
    system=
}

printf '%-10s %-22s %12s %13s\n' suite system install grows
for suite in "$@"; do
    case $suite in
        noble)
            if [ -n "${SCRIM_UBUNTU_MIRROR:-}" ]; then
                # Debian has no keyring of Ubuntu's; the script is that of all its suites.
                try noble "$SCRIM_UBUNTU_MIRROR" gutsy
            else
                echo 'noble: skipped: SCRIM_UBUNTU_MIRROR does not name an archive of Ubuntu'
            fi
            ;;
        *) try "$suite" "$(archive)" '' ;;
    esac
done
