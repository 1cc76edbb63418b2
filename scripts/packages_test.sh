#!/usr/bin/env bash
# Tries the packages in systems that are made for it: Debian 11, 12 and 13 and Ubuntu 24.04, in folders; and the image.
#
#   scripts/packages_test.sh FOLDER [SUITE...]
#
# FOLDER has what scripts/packages.sh has made. Needs root and debootstrap, and for Ubuntu the address of an archive in
# SCRIM_UBUNTU_MIRROR. Ends with a table of times and sizes, a row for each system. During an upgrade fio writes to an open
# volume and verifies it. What needs a program that is missing (rpm, skopeo, umoci, curl, fio) is skipped with a line.
set -euo pipefail
scripts=$(dirname "$(realpath "$0")")
folder=$(realpath "${1:?usage: scripts/packages_test.sh FOLDER [SUITE...]}")
shift
[ $# -gt 0 ] || set -- bullseye bookworm trixie noble
# shellcheck source=scripts/archive.sh
. "$scripts/archive.sh"
deb=$(echo "$folder"/*.deb)
rpm=$(echo "$folder"/*.rpm)
portable=$(echo "$folder"/*.tar.xz)
image=$(echo "$folder"/*-oci.tar)
work=$(mktemp -d)
system=
serving=
writing=
clean() {
    [ -z "$serving" ] || kill "$serving" 2> /dev/null || true
    [ -z "$writing" ] || kill "$writing" 2> /dev/null || true
    [ -z "$system" ] || in_it scrim close --force kept > "$work/log" 2>&1 || true
    [ -z "$system" ] || for place in dev/pts proc dev; do umount -l "$system/$place" 2> /dev/null || true; done
    rm -rf --one-file-system "$work"
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

# has PROGRAM WHAT: says that WHAT is skipped if the program is missing; Debian's package has its name
has() {
    command -v "$1" > /dev/null || {
        echo "$2: skipped: $1 is missing; on Debian: apt-get install $1"
        return 1
    }
}

# first_job PROGRAM: a volume is made, tried, opened, listed and closed, and a folder could be served.
first_job() {
    in_it sh -ec "
        cd /root; rm -rf files disk.img; mkdir -p files
        echo 'out of a volume' > files/page; printf 'a passphrase' > key
        $1 format -q disk.img --size 48M --key-file key --pbkdf pbkdf2 --pbkdf-force-iterations 1000
        $1 test-passphrase disk.img --key-file key
        $1 open disk.img data --key-file key
        $1 list | grep -q data
        $1 close data
        $1 serve files --listen 127.0.0.1:0 --check
    " > "$work/said" 2>&1 || { cat "$work/said"; return 1; }
}

deb_again() { in_it dpkg -i /tmp/scrim.deb; }
deb_remove() { in_it dpkg -r scrim; }
# Debian's database does not have what an .rpm requires.
rpm_again() { rpm --root "$system" --nodeps -U --replacepkgs "$rpm"; }
rpm_remove() { rpm --root "$system" --nodeps -e scrim; }

# timed VARIABLE COMMAND...: sets the variable to the seconds that the command took
timed() {
    local started=${EPOCHREALTIME//[!0-9]/} tenths
    logged "${@:2}" || return
    tenths=$(((${EPOCHREALTIME//[!0-9]/} - started + 50000) / 100000))
    printf -v "$1" %d.%d $((tenths / 10)) $((tenths % 10))
}

# verified NAME OPTION...: fio on the open volume, from outside the system
verified() {
    exec fio --name="$1" --ioengine=nbd --uri="nbd+unix:///?socket=$system/run/scrim/kept.nbd" --thread --bs=4k --iodepth=4 \
        --verify=crc32c --verify_state_save=0 --verify_fatal=1 --size=8M "${@:2}" > "$work/fio-$1" 2>&1
}

# Blocks that are there before an upgrade, and others that are written and verified until `end_load`.
begin_load() {
    command -v fio > /dev/null || return 0
    (verified before --rw=write --do_verify=0)
    (verified during --rw=randwrite --offset=8M --verify_backlog=64 --time_based --runtime=1d) &
    writing=$!
    # It reads only what it has written.
    until in_it scrim stats kept | awk '$1 == "requests:" { exit !($2 > 0) }'; do
        kill -0 "$writing" || { cat "$work/fio-during"; return 1; }
        sleep 0.1
    done
}

end_load() {
    local status=0
    [ -n "$writing" ] || return 0
    kill -INT "$writing" || { cat "$work/fio-during"; return 1; }
    wait "$writing" || status=$?
    writing=
    # fio's code after a signal; every error adds to it.
    [ $status = 128 ] || { cat "$work/fio-during"; return 1; }
    (verified before --rw=write --verify_only) || { cat "$work/fio-before"; return 1; }
}

# upgrade_and_remove WHAT UPGRADE REMOVE: an upgrade leaves a volume open, and removal is refused while one is open
upgrade_and_remove() {
    in_it sh -ec 'cd /root; mkdir -p -m 0700 /run/scrim; scrim open disk.img kept --key-file key' > /dev/null
    begin_load
    timed upgrading "$2"
    in_it scrim status kept > "$work/log"
    grep -q 'kept is active' "$work/log"
    end_load
    if "$3" > "$work/log" 2>&1; then echo "$1: it was removed with a volume open"; return 1; fi
    grep -q 'these volumes are open: kept' "$work/log"
    in_it scrim close kept
    timed removing "$3"
    if in_it sh -c 'command -v scrim' > "$work/log"; then echo "$1: it is still there"; return 1; fi
}

# What an .rpm requires, where its files are, and whose they are.
inspect_rpm() {
    local newest path
    has rpm 'rpm package' || return 0
    [ -f "$rpm" ] || { echo 'rpm package: skipped: none was made'; return 0; }
    rpm -qp --requires "$rpm" > "$work/requires"
    grep -qx 'glibc >= 2.31' "$work/requires"
    newest=$(sed -n 's/.*(GLIBC_\([0-9.]*\)).*/\1/p' "$work/requires" | sort -uV | tail -1)
    if [ "$(printf '%s\n' "$newest" 2.31 | sort -V | tail -1)" != 2.31 ]; then
        echo "rpm package: it requires glibc $newest"
        return 1
    fi
    rpm -qp --list "$rpm" > "$work/list"
    for path in bin/scrim sbin/mount.scrim lib/systemd/system/scrim@.service lib/systemd/user/scrim-mount@.service \
        lib/sysusers.d/scrim.conf share/man/man8/scrim-open.8.gz share/bash-completion/completions/scrim \
        share/zsh/site-functions/_scrim share/fish/vendor_completions.d/scrim.fish share/licenses/scrim/LICENSE-MIT; do
        grep -qxF "/usr/$path" "$work/list" || { echo "rpm package: /usr/$path is missing"; return 1; }
    done
    if grep '/.build-id' "$work/list"; then echo 'rpm package: it has links by build number'; return 1; fi
    [ "$(rpm -qp --queryformat '[%{FILEUSERNAME} %{FILEGROUPNAME}\n]' "$rpm" | sort -u)" = 'root root' ]
    [ "$(rpm -qp --queryformat '%{BUILDHOST}' "$rpm")" = localhost ]
    echo 'rpm package: requirements and places passed'
}

# A first job in the image's files, as the image's user. They are unpacked: containers are not possible everywhere.
try_image() {
    local version=${image##*/scrim-} enter
    for program in skopeo umoci curl; do has $program image || return 0; done
    version=${version%-oci.tar}
    skopeo inspect "oci-archive:$image" > "$work/inspected"
    grep -q "\"org.opencontainers.image.version\": \"$version\"" "$work/inspected"
    # As `docker load` of older versions sees it.
    logged skopeo inspect "docker-archive:$image"
    mkdir "$work/layout"
    tar -C "$work/layout" -xf "$image"
    # This compares digests.
    logged umoci unpack --image "$work/layout:$version" "$work/image"
    system=$work/image/rootfs
    mount --bind /dev "$system/dev"
    mount -t proc proc "$system/proc"
    enter=(env -i PATH=/usr/sbin:/usr/bin chroot --userspec=10001:10001 "$system" /usr/bin/scrim)
    mkdir "$system/images/files"
    echo 'out of an image' > "$system/images/files/page"
    printf 'a passphrase' > "$system/images/key"

    "${enter[@]}" --version > "$work/said"
    grep -qx "scrim $version" "$work/said"
    logged "${enter[@]}" doctor
    logged "${enter[@]}" format -q /images/disk.img --size 20M --key-file /images/key --pbkdf pbkdf2 \
        --pbkdf-force-iterations 1000
    logged "${enter[@]}" open /images/disk.img data --key-file /images/key
    "${enter[@]}" list > "$work/said"
    grep -q '^data' "$work/said"
    logged "${enter[@]}" close data

    "${enter[@]}" serve /images/files --listen 127.0.0.1:0 > "$work/address" 2> "$work/log" &
    serving=$!
    for _ in {1..100}; do
        [ ! -s "$work/address" ] || break
        sleep 0.1
    done
    [ "$(curl -fsSk "$(cat "$work/address")page")" = 'out of an image' ]
    kill "$serving"
    wait "$serving"
    serving=
    leave
    echo "image: $(stat -c %s "$image") bytes, a first job and files over HTTPS passed"
}

# Removes the system.
leave() {
    for place in proc dev; do umount -l "$system/$place"; done
    rm -rf --one-file-system "$system"
    system=
}

# room: KiB under /usr
room() { du -sk "$system/usr" | cut -f1; }

# row KIND TIMES...: a row of the table
row() {
    local name cells
    # shellcheck source=/dev/null
    name=$(. "$system/etc/os-release" && echo "$PRETTY_NAME")
    printf -v cells ' %s |' "$name" "$@"
    rows+=("|$cells")
}

# try SUITE MIRROR SCRIPT
try() {
    system=$work/$1
    logged debootstrap --variant=minbase ${3:+--no-check-gpg} "$1" "$system" "$2" ${3:+"$3"}
    mount --bind /dev "$system/dev"
    mount -t proc proc "$system/proc"
    cp "$deb" "$system/tmp/scrim.deb"
    local before installing working upgrading removing grown
    before=$(room)
    timed installing in_it apt-get install -y -qq --no-install-recommends /tmp/scrim.deb
    grown=$(($(room) - before))
    timed working first_job scrim
    upgrade_and_remove "$1: deb" deb_again deb_remove
    row .deb "$installing s" "$working s" "$upgrading s" "$removing s" "$((grown / 1024)) MB"

    if command -v rpm > /dev/null && [ -f "$rpm" ]; then
        before=$(room)
        timed installing rpm --root "$system" --nodeps -i "$rpm"
        grown=$(($(room) - before))
        timed working first_job scrim
        upgrade_and_remove "$1: rpm" rpm_again rpm_remove
        row .rpm "$installing s" "$working s" "$upgrading s" "$removing s" "$((grown / 1024)) MB"
    fi

    # Without a package.
    before=$(du -sk "$system/opt" | cut -f1)
    timed installing tar -C "$system/opt" -xJf "$portable" --strip-components=1
    grown=$(($(du -sk "$system/opt" | cut -f1) - before))
    timed working first_job /opt/bin/scrim
    row .tar.xz "$installing s" "$working s" '' '' "$((grown / 1024)) MB"
    leave
    echo "$1: all passed"
}

inspect_rpm
try_image
has fio 'verification during upgrades' || true
rows=()
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
        *) try "$suite" "$(archive debian)" '' ;;
    esac
done

echo '| system | package | install | first job | upgrade under fio | removal | grows by |'
echo '|---|---|--:|--:|--:|--:|--:|'
printf '%s\n' "${rows[@]}"
