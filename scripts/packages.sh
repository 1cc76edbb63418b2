#!/usr/bin/env bash
# Builds a Debian package, an RPM package, an image for containers and an archive for other systems, with licences and
# an inventory of all crates.
#
#   scripts/packages.sh FOLDER
#
# The program is linked against Debian 11's C library, so that it runs with glibc 2.31 and newer. Debian's apt fetches that
# library and checks its signature; nothing is installed, and no root is needed.
set -euo pipefail
cd "$(dirname "$0")/.."

for program in apt-get dpkg-deb objdump xz; do
    command -v $program > /dev/null || {
        echo "scripts/packages.sh: $program is missing; on Debian: apt-get install binutils dpkg xz-utils" >&2
        exit 1
    }
done
# shellcheck source=scripts/archive.sh
. scripts/archive.sh
# shellcheck source=scripts/image.sh
. scripts/image.sh
# shellcheck source=scripts/rpm.sh
. scripts/rpm.sh

folder=$(realpath -m "${1:?usage: scripts/packages.sh FOLDER}")
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
mirror=$(archive debian)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
export LC_ALL=C TZ=UTC
umask 022
mkdir -p "$folder"

# Suite whose C library is linked against, and what compiling and linking need of it.
linked_suite=bullseye
needed="libc6 libc6-dev linux-libc-dev libcrypt1 libcrypt-dev libgcc-s1"
newest_glibc=2.31

# fetch_packages FOLDER SUITE PACKAGE...: downloads into FOLDER, by apt with folders of its own for that suite alone
fetch_packages() {
    local into=$1 suite=$2 apt=$folder/apt source security
    shift 2
    rm -rf "$apt"
    mkdir -p "$apt"/{lists/partial,archives/partial,none} "$into"
    touch "$apt/status"
    cat > "$apt/apt.conf" <<.
Dir::State "$apt"; Dir::State::status "$apt/status"; Dir::State::lists "$apt/lists";
Dir::Cache "$apt"; Dir::Cache::archives "$apt/archives";
Dir::Etc::sourcelist "$apt/sources.list"; Dir::Etc::sourceparts "$apt/none"; Dir::Etc::preferencesparts "$apt/none";
APT::Architecture "amd64"; APT::Architectures "amd64"; APT::Sandbox::User "root"; Acquire::Languages "none";
.
    source="deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    echo "$source $mirror $suite main" > "$apt/sources.list"
    # The suite that is linked against gets no updates any more.
    if [ "$suite" != "$linked_suite" ] && security=$(archive debian-security); then
        echo "$source $security $suite-security main" >> "$apt/sources.list"
    fi
    APT_CONFIG=$apt/apt.conf apt-get -qq update
    (cd "$into" && APT_CONFIG=$apt/apt.conf apt-get -qq download "$@")
    rm -rf "$apt"
}

fetch_sysroot() {
    local package
    rm -rf "$folder/sysroot.new" "$folder/sysroot.packages"
    mkdir "$folder/sysroot.new"
    # shellcheck disable=SC2086
    fetch_packages "$folder/sysroot.packages" $linked_suite $needed
    for package in "$folder"/sysroot.packages/*.deb; do
        dpkg-deb -x "$package" "$folder/sysroot.new"
    done
    rm -r "$folder/sysroot.packages"
    # Links lead out of the folder otherwise, to this system's own library.
    find "$folder/sysroot.new" -type l -lname '/*' | while read -r link; do
        ln -sfr "$folder/sysroot.new$(readlink "$link")" "$link"
    done
    mv "$folder/sysroot.new" "$folder/sysroot"
}

build() {
    local cargo_home=${CARGO_HOME:-$HOME/.cargo} sysroot=$folder/sysroot map
    map="--remap-path-prefix=$PWD=/scrim --remap-path-prefix=$cargo_home=/cargo --remap-path-prefix=$folder=/build"
    export CARGO_TARGET_DIR=$folder/build
    # The compiler would find this system's library first, by its own place.
    local link="-C link-arg=--sysroot=$sysroot -C link-arg=-B$sysroot/usr/lib/x86_64-linux-gnu"
    export RUSTFLAGS="$map $link -C link-arg=-L$sysroot/lib/x86_64-linux-gnu -C link-arg=-Wl,--build-id=sha1"
    export CFLAGS="--sysroot=$sysroot -ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$folder=/build"
    export CXXFLAGS=$CFLAGS
    cargo build --locked --release --package scrim-cli
    unset CARGO_TARGET_DIR RUSTFLAGS CFLAGS CXXFLAGS
    scrim=$folder/build/release/scrim
}

# Refuses a program that older systems could not start.
check_glibc() {
    local newest
    newest=$(objdump -T "$scrim" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
    newest=${newest#GLIBC_}
    if [ "$(printf '%s\n%s\n' "$newest" $newest_glibc | sort -V | tail -1)" != $newest_glibc ]; then
        echo "error: the program needs glibc $newest, and $newest_glibc was meant" >&2
        exit 1
    fi
}

# install_tree ROOT PREFIX: all files, as `make install install-systemd` lays them out, and what packages add.
install_tree() {
    local root=$1 prefix=$2 share=$1$2/share
    make --no-print-directory install-files install-systemd SCRIM="$scrim" DESTDIR="$root" PREFIX="$prefix" > /dev/null
    strip --strip-unneeded --remove-section=.comment "$root$prefix/bin/scrim"
    install -D -m 0755 packaging/desktop/scrim-open-image "$root$prefix/lib/scrim/scrim-open-image"
    install -D -m 0644 packaging/desktop/scrim.desktop "$share/applications/scrim.desktop"
    sed -i "s,/usr/lib/scrim,$prefix/lib/scrim," "$share/applications/scrim.desktop"
    install -d "$share/doc/scrim"
    # Pages lie as in the repository, so that links between them lead there.
    git ls-files -z -- ./*.md LICENSE-MIT LICENSE-APACHE docs ':!docs/measurements' |
        xargs -0 cp --parents -t "$share/doc/scrim"
    cp "$folder/licences.txt" "$folder/scrim.cdx.json" "$share/doc/scrim"
    # The clone may have been made with another umask.
    chmod -R u=rwX,go=rX "$root"
}

# Everything has the time of the commit.
settle_times() {
    find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}

# package_tree ROOT: the files that the Debian and the RPM package share
package_tree() {
    local root=$1
    rm -rf "$root"
    install_tree "$root" /usr
    # /sbin is /usr/sbin since Debian 12 and in Fedora, and packages name the latter.
    mkdir -p "$root/usr/sbin"
    ln -s ../bin/scrim "$root/usr/sbin/mount.scrim"
    rm -r "$root/sbin"
    gzip -9n "$root"/usr/share/man/man8/*.8 "$root/usr/share/doc/scrim/licences.txt"
    ln -s scrim-mount.8.gz "$root/usr/share/man/man8/mount.scrim.8.gz"
}

make_deb() {
    local root=$folder/deb control=$folder/deb/DEBIAN doc=$folder/deb/usr/share/doc/scrim file
    package_tree "$root"
    mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
    rm "$doc/LICENSE-MIT" "$doc/LICENSE-APACHE"
    cp packaging/debian/copyright "$doc/copyright"
    install -D -m 0644 packaging/debian/lintian-overrides "$root/usr/share/lintian/overrides/scrim"
    printf 'scrim (%s-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' "$version" \
        "$(sed -n 's/^Maintainer: //p' packaging/debian/control)" "$(date -R -d "@$SOURCE_DATE_EPOCH")" |
        gzip -9n > "$doc/changelog.Debian.gz"
    gzip -9nc CHANGELOG.md > "$doc/changelog.gz"
    mkdir "$control"
    for file in postinst prerm postrm; do
        install -m 0755 packaging/debian/$file "$control/$file"
    done
    sed "s/@VERSION@/$version-1/; s/@SIZE@/$(du -sk --exclude=DEBIAN "$root" | cut -f1)/" packaging/debian/control \
        > "$control/control"
    (cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\n' | sort | xargs -d '\n' md5sum) > "$control/md5sums"
    settle_times "$root"
    dpkg-deb --root-owner-group -Zxz --build "$root" "$folder/scrim_$version-1_amd64.deb" > /dev/null
    rm -rf "$root"
}

make_archive() {
    local name=scrim-$version-x86_64-linux
    rm -rf "${folder:?}/$name"
    install_tree "$folder/$name" ''
    settle_times "$folder/$name"
    tar -C "$folder" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c "$name" |
        xz -T1 > "$folder/$name.tar.xz"
    rm -rf "${folder:?}/$name"
}

[ -e "$folder/sysroot" ] || fetch_sysroot
build
check_glibc
# Libraries in C would be built anew for each commit if they saw its time.
env -u SOURCE_DATE_EPOCH cargo run --quiet --locked --package xtask -- inventory --program scrim-cli \
    --licences "$folder/licences.txt" --sbom "$folder/scrim.cdx.json"
make_deb
if command -v rpmbuild > /dev/null; then
    make_rpm
else
    echo 'scripts/packages.sh: no .rpm is made: rpmbuild is missing; on Debian: apt-get install rpm' >&2
fi
make_archive
make_image
cd "$folder"
shopt -s nullglob
sha256sum -- *.deb *.rpm *.tar *.tar.xz *.cdx.json | tee SHA256SUMS
