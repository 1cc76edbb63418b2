# shellcheck shell=bash
# Functions of scripts/follow.sh and scripts/demo_times.sh: an empty Debian 12 in a folder, with a clone of the project.

# configure ROOT: what this system needs to reach packages and crates, the other one needs too
configure() {
    cp -L /etc/resolv.conf /etc/hosts "$1/etc/"
    cp -r /etc/apt/apt.conf.d/. "$1/etc/apt/apt.conf.d/"
    if [ -d /usr/local/share/ca-certificates ]; then
        cp -r /usr/local/share/ca-certificates/. "$1/usr/local/share/ca-certificates/"
        chroot "$1" update-ca-certificates >/dev/null 2>&1
    fi
    local file
    for file in .config/go/env .cargo/config.toml; do
        [ ! -e "$HOME/$file" ] || install -D -m 0644 "$HOME/$file" "$1/root/$file"
    done
}

# The variables among ours that name proxies and certificates.
network_variables() {
    env | grep -E '^([a-z]+_proxy|[A-Z]+_PROXY|SSL_CERT_(FILE|DIR)|GO(PROXY|SUMDB|NOSUMDB)|CARGO_(HTTP|SOURCE|REGISTRIES)_.*)=' || true
}

# make_empty_system ROOT SOURCE: Debian's smallest system, `git` and `make`, and in its root's home a clone of SOURCE
make_empty_system() {
    local root=$1 sources=() file
    if [ "$(id -u)" != 0 ] || ! command -v mmdebstrap >/dev/null; then
        echo "an empty system takes root and the package mmdebstrap" >&2
        return 1
    fi
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
        [ ! -s "$file" ] || sources+=("$file")
    done
    echo "making an empty Debian 12 in $root"
    cat /etc/apt/apt.conf.d/* 2>/dev/null > "$root.conf"
    mmdebstrap --quiet --variant=minbase --include=ca-certificates,git,make --aptopt="$root.conf" \
        bookworm "$root" "${sources[@]}"
    rm "$root.conf"
    # Installers make it, and fusermount3 needs it.
    ln -sf ../proc/self/mounts "$root/etc/mtab"
    configure "$root"
    git clone --quiet "$2" "$root/root/scrim"
}

# enter_empty_system ROOT COMMAND...: runs a command in the clone; its mounts and processes go with the namespaces
enter_empty_system() {
    local root=$1 variables
    shift
    mapfile -t variables < <(network_variables)
    # shellcheck disable=SC2016
    unshare --mount --pid --fork --kill-child --propagation slave bash -euc '
        root=$1
        shift
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs none "$root/run"
        exec chroot "$root" env --ignore-environment "$@"
    ' empty "$root" "${variables[@]}" HOME=/root TERM="${TERM:-dumb}" \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        bash -c 'cd && cd scrim && exec "$@"' empty "$@"
}
