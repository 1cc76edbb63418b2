#!/usr/bin/env bash
# Installs what building, the demo or the tests need and this machine lacks, with Debian's apt.
#
#   scripts/setup.sh build|demo|test|lint|guest|miri|fuzz
#
# Prints nothing and changes nothing where all is there.
set -euo pipefail

rust_wanted=1.89
# The newest that Debian 12's Go (1.19) builds.
pebble_wanted=v2.4.0
want=${1:?usage: scripts/setup.sh build|demo|test|lint|guest|miri|fuzz}
packages=()

# need COMMAND PACKAGE: the package if the command is missing
need() {
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null || packages+=("$2")
}

pebble_is_here() {
    command -v pebble >/dev/null && command -v pebble-challtestsrv >/dev/null
}

# Debian 12's own rustc is too old; its security suite keeps a newer one as rustc-web.
rust_is_new_enough() {
    local have
    have=$(rustc --version 2>/dev/null | cut -d' ' -f2) || return 1
    [ -n "$have" ] && printf '%s\n%s\n' "$rust_wanted" "$have" | sort -VC
}
if ! { command -v cargo >/dev/null && rust_is_new_enough; }; then
    packages+=(rustc-web cargo-web)
fi
need cc gcc
[ -e /usr/include/stdlib.h ] || packages+=(libc6-dev)
[ -e /etc/ssl/certs/ca-certificates.crt ] || packages+=(ca-certificates)

case $want in
    build) ;;
    guest | test)
        need qemu-system-x86_64 qemu-system-x86
        need mkfs.erofs erofs-utils
        need depmod kmod
        need cpio cpio
        need xz xz-utils
        [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || packages+=(debian-archive-keyring)
        ;;&
    demo | test)
        need cryptsetup cryptsetup-bin
        need mkfs.ext4 e2fsprogs
        need e2fsck e2fsprogs
        need nbdinfo libnbd-bin
        need setpriv util-linux
        ;;&
    test)
        need qemu-img qemu-utils
        need qemu-storage-daemon qemu-system-common
        need nbdkit nbdkit
        need fio fio
        need fuse2fs fuse2fs
        need mkfs.xfs xfsprogs
        need mkfs.btrfs btrfs-progs
        need mkfs.vfat dosfstools
        need mkfs.exfat exfatprogs
        need mkntfs ntfs-3g
        need mksquashfs squashfs-tools
        need genisoimage genisoimage
        need mkswap util-linux
        need blkid util-linux
        need sfdisk fdisk
        need flock util-linux
        need fusermount fuse
        need strace strace
        need tc iproute2
        need openssl openssl
        need curl curl
        need chromium chromium
        need testssl testssl.sh
        need go golang-go
        need systemd-analyze systemd
        need argon2 argon2
        need nginx nginx-light
        need ministat ministat
        /usr/bin/python3 -c 'import cryptography' 2>/dev/null || packages+=(python3 python3-cryptography)
        /usr/bin/python3 -c 'import nbd' 2>/dev/null || packages+=(python3 python3-libnbd)
        ;;
    demo | guest) ;;
    lint)
        cargo fmt --version >/dev/null 2>&1 || packages+=(rustfmt-web)
        cargo clippy --version >/dev/null 2>&1 || packages+=(rust-web-clippy)
        need pkg-config pkg-config
        [ -e /usr/include/openssl/evp.h ] || packages+=(libssl-dev)
        ;;
    miri)
        # Debian has none: it comes with Rust's own nightly toolchain.
        cargo +nightly miri --version >/dev/null 2>&1 ||
            rustup toolchain install nightly --profile minimal --component miri --component rust-src
        ;;
    fuzz)
        need c++ g++
        rustup run nightly rustc --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal
        cargo fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-fuzz
        ;;
    *)
        echo "scripts/setup.sh: unknown: $want" >&2
        exit 1
        ;;
esac

as_root=()
if [ "$(id -u)" != 0 ]; then
    as_root=(sudo)
fi

install_packages() {
    echo "installing: ${packages[*]}" >&2
    if ! command -v apt-get >/dev/null; then
        echo "scripts/setup.sh: no apt-get here: install the equivalents of these packages, then try again" >&2
        exit 1
    fi
    if ! DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y --no-install-recommends "${packages[@]}" >/dev/null 2>&1; then
        # The lists may be missing or old.
        "${as_root[@]}" apt-get update -q >&2
        DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y --no-install-recommends "${packages[@]}" >&2
    fi
}

# Let's Encrypt's test server, which Debian has not.
install_pebble() {
    local folder program source
    echo "installing: pebble $pebble_wanted" >&2
    folder=$(mktemp -d)
    export GOPATH=$folder GOBIN=$folder/bin GOFLAGS=-modcacherw GOTOOLCHAIN=local
    for program in pebble pebble-challtestsrv; do
        source=github.com/letsencrypt/pebble/v2/cmd/$program@$pebble_wanted
        # From 1.23 on Go has to be told to link an old library; before, it does not know the option.
        go install -ldflags=-checklinkname=0 "$source" 2>/dev/null || go install "$source"
        "${as_root[@]}" install "$folder/bin/$program" /usr/local/bin/
    done
    rm -rf "$folder"
}

[ ${#packages[@]} -eq 0 ] || install_packages
[ "$want" != test ] || pebble_is_here || install_pebble
