#!/usr/bin/env bash
# Installs what building, the demo or the tests need and this machine lacks, with Debian's apt.
#
#   scripts/setup.sh build|demo|test|lint|guest|miri|fuzz|oldest|packages|aarch64 ...
#
# Crates are fetched while packages are installed. Prints nothing and changes nothing where all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

rust_wanted=1.89
# The newest that Debian 12's Go (1.19) builds.
pebble_wanted=v2.4.0
usage="usage: scripts/setup.sh build|demo|test|lint|guest|miri|fuzz|oldest|packages|aarch64 ..."
: "${1:?$usage}"
packages=()
export DEBIAN_FRONTEND=noninteractive

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
cargo_is_here() {
    command -v cargo >/dev/null && rust_is_new_enough
}

# wanted WORD: adds the packages that are missing
wanted() {
    case $1 in
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
            need fuse2fs fuse2fs
            # Not `fuse`: ntfs-3g brings fuse3, and the two exclude each other.
            need fusermount3 fuse3
            ;;&
        test)
            need qemu-img qemu-utils
            need qemu-storage-daemon qemu-system-common
            need nbdkit nbdkit
            need fio fio
            need bonnie++ bonnie++
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
            need squashfuse squashfuse
            need losetup mount
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
        fuzz) need c++ g++ ;;
        packages)
            need objdump binutils
            need dpkg-deb dpkg
            need xz xz-utils
            need debootstrap debootstrap
            need lintian lintian
            [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || packages+=(debian-archive-keyring)
            ;;
        aarch64)
            need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
            [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || packages+=(libc6-dev-arm64-cross)
            need qemu-aarch64 qemu-user
            ;;
        miri | oldest) ;;
        *)
            echo "scripts/setup.sh: unknown: $1; $usage" >&2
            exit 1
            ;;
    esac
}

as_root=()
if [ "$(id -u)" != 0 ]; then
    as_root=(sudo)
fi

# install_packages PACKAGE...: apt's own lines show its progress
install_packages() {
    echo "installing: $*" >&2
    if ! command -v apt-get >/dev/null; then
        echo "scripts/setup.sh: no apt-get here: install the equivalents of these packages, then try again" >&2
        exit 1
    fi
    # The lists may be missing or old.
    compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null || "${as_root[@]}" apt-get update >&2
    if ! "${as_root[@]}" apt-get install -y --no-install-recommends "$@" >&2; then
        "${as_root[@]}" apt-get update >&2
        "${as_root[@]}" apt-get install -y --no-install-recommends "$@" >&2
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

# What no package of Debian has.
install_others() {
    case $1 in
        test) pebble_is_here || install_pebble ;;
        miri)
            cargo +nightly miri --version >/dev/null 2>&1 ||
                rustup toolchain install nightly --profile minimal --component miri --component rust-src
            ;;
        aarch64) rustup target add aarch64-unknown-linux-gnu >/dev/null 2>&1 ;;
        oldest)
            rustup run $rust_wanted rustc --version >/dev/null 2>&1 ||
                rustup toolchain install $rust_wanted --profile minimal
            ;;
        fuzz)
            rustup run nightly rustc --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal
            cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
            ;;
    esac
}

# First what fetches crates: they come while the other packages are installed.
cargo_is_here || packages+=(rustc-web cargo-web)
need cc gcc
[ -e /usr/include/stdlib.h ] || packages+=(libc6-dev)
[ -e /etc/ssl/certs/ca-certificates.crt ] || packages+=(ca-certificates)
if ! cargo_is_here; then
    install_packages "${packages[@]}"
    packages=()
fi
fetching=
if [ "$*" != guest ]; then
    host=$(rustc --version --verbose | sed -n 's/^host: //p')
    # Lines instead of a bar, which would mix with apt's.
    CARGO_TERM_PROGRESS_WHEN=never cargo fetch --locked --target "$host" &
    fetching=$!
    trap 'kill "$fetching" 2>/dev/null || true' EXIT
fi

for word in "$@"; do
    wanted "$word"
done
[ ${#packages[@]} -eq 0 ] || install_packages "${packages[@]}"
if [ -n "$fetching" ] && ! wait "$fetching"; then
    echo "scripts/setup.sh: the crates were not fetched: see cargo's lines above" >&2
    exit 1
fi
trap - EXIT
for word in "$@"; do
    install_others "$word"
done
