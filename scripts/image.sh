# shellcheck shell=bash
# Functions of scripts/packages.sh that make an OCI image: the program, the C library and certificates, in one layer.
#
# They use its variables `folder`, `version`, `scrim` and SOURCE_DATE_EPOCH. No daemon and no root are needed.
# shellcheck disable=SC2154

# Debian's suite whose libraries go into the image. It is newer than the one that is linked against, because it gets
# security updates.
image_suite=trixie
# `base-files` has the texts of the libraries' licences and names the system to scanners for vulnerabilities;
# `gcc-14-base` has the copyright of `libgcc-s1`.
image_packages="base-files ca-certificates gcc-14-base libc6 libgcc-s1"
# As in packaging/container/Containerfile.
image_user=10001

# needed_libraries FILE: prints the names of the shared libraries that a program or library is linked against
needed_libraries() {
    objdump -p "$1" | sed -n 's/^ *NEEDED *//p'
}

# copy_libraries FILE FROM TO: copies the libraries of FILE, and theirs, from the unpacked packages FROM
copy_libraries() {
    local file=$1 from=$2 to=$3 directory=usr/lib/x86_64-linux-gnu name
    for name in $(needed_libraries "$file"); do
        [ ! -e "$to/$directory/$name" ] || continue
        if [ ! -e "$from/$directory/$name" ]; then
            echo "error: ${file##*/} needs $name, which is not in these packages: $image_packages" >&2
            exit 1
        fi
        # A library's name may be a link to a file with its version.
        install -D -m 0644 "$from/$directory/$name" "$to/$directory/$name"
        copy_libraries "$from/$directory/$name" "$from" "$to"
    done
}

# copy_licences FROM TO: copies the packages' copyright files, and the licences in full that these refer to
copy_licences() {
    local from=$1 to=$2 package name
    for package in $image_packages; do
        install -D -m 0644 -t "$to/usr/share/doc/$package" "$from/usr/share/doc/$package/copyright"
    done
    { grep -oh 'common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$to"/usr/share/doc/*/copyright || true; } | sort -u |
        while read -r name; do
            install -D -m 0644 "$from/usr/share/$name" "$to/usr/share/$name"
        done
}

# image_tree ROOT: all files of the image
image_tree() {
    local root=$1 packages=$folder/image.packages from=$folder/image.from package
    rm -rf "$root" "$packages" "$from"
    # shellcheck disable=SC2086
    fetch_packages "$packages" $image_suite $image_packages
    mkdir -p "$root"/{dev,etc/ssl/certs,proc,run,sys,tmp,usr/bin,usr/lib,usr/lib64,var/lib/dpkg/status.d} "$from"
    # Scanners look here for the names and versions of Debian's packages.
    for package in "$packages"/*.deb; do
        dpkg-deb -x "$package" "$from"
        dpkg-deb -f "$package" > "$root/var/lib/dpkg/status.d/$(dpkg-deb -f "$package" Package)"
    done

    strip --strip-unneeded --remove-section=.comment -o "$root/usr/bin/scrim" "$scrim"
    chmod 0755 "$root/usr/bin/scrim"
    copy_libraries "$root/usr/bin/scrim" "$from" "$root"
    # The C library needs the loader, which the kernel finds by the path in the program.
    chmod 0755 "$root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
    ln -s ../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 "$root/usr/lib64/ld-linux-x86-64.so.2"
    ln -s usr/lib usr/lib64 "$root"
    (cd "$from/usr/share/ca-certificates/mozilla" && cat -- *.crt) > "$root/etc/ssl/certs/ca-certificates.crt"

    install -m 0644 "$from/usr/lib/os-release" "$root/usr/lib/os-release"
    ln -s ../usr/lib/os-release "$root/etc/os-release"
    printf '%s\n' 'root:x:0:0:root:/root:/usr/sbin/nologin' \
        "scrim:x:$image_user:$image_user::/nonexistent:/usr/sbin/nologin" > "$root/etc/passwd"
    printf '%s\n' 'root:x:0:' "scrim:x:$image_user:" > "$root/etc/group"
    printf '%s\n' 'passwd: files' 'group: files' 'hosts: files dns' > "$root/etc/nsswitch.conf"
    chmod 1777 "$root/tmp"

    copy_licences "$from" "$root"
    install -D -m 0644 -t "$root/usr/share/doc/scrim" LICENSE-MIT LICENSE-APACHE "$folder/licences.txt" \
        "$folder/scrim.cdx.json"
    rm -r "$packages" "$from"
}

# image_tar MODE OUTPUT DIRECTORY OWNER: writes (c) or appends (r) what DIRECTORY contains, with the time of the commit
image_tar() {
    (cd "$3" && tar --format=ustar --sort=name --owner="$4" --group="$4" --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        "-${1}f" "$2" -- *)
}

# add_blob LAYOUT FILE: moves FILE into the layout and prints its digest
add_blob() {
    local digest
    digest=$(sha256sum < "$2" | cut -d' ' -f1)
    mv "$2" "$1/blobs/sha256/$digest"
    echo "$digest"
}

# descriptor LAYOUT TYPE DIGEST: prints the fields by which the layout's JSON refers to a blob
descriptor() {
    printf '"mediaType": "application/vnd.oci.image.%s", "digest": "sha256:%s", "size": %s' "$2" "$3" \
        "$(stat -c %s "$1/blobs/sha256/$3")"
}

# image_labels: those of the configuration, which `podman inspect` shows, and of the manifest, which registries show
image_labels() {
    cat <<.
{
  "org.opencontainers.image.title": "scrim",
  "org.opencontainers.image.description": "encrypted LUKS volumes without root, and files over HTTPS",
  "org.opencontainers.image.version": "$version",
  "org.opencontainers.image.created": "$created",
  "org.opencontainers.image.licenses": "$licences"
}
.
}

make_image() {
    local root=$folder/image layout=$folder/image.layout owned=$folder/image.owned layer=$folder/layer.tar
    local name=localhost/scrim:$version created layer_id layer_digest config_digest manifest_digest
    # The program, the C library, the compiler's library and the certificates; licences.txt has those of the crates.
    local licences='(MIT OR Apache-2.0) AND LGPL-2.1-or-later AND GPL-3.0-or-later WITH GCC-exception-3.1 AND MPL-2.0'
    created=$(date -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
    image_tree "$root"
    rm -rf "$layout" "$owned" "$layer"
    mkdir -p "$layout/blobs/sha256"
    image_tar c "$layer" "$root" 0
    # Volumes that are mounted on these folders get their owner.
    install -d -m 0700 "$owned"/{images,sockets}
    image_tar r "$layer" "$owned" $image_user
    layer_id=$(sha256sum < "$layer" | cut -d' ' -f1)
    gzip -9nf "$layer"
    layer_digest=$(add_blob "$layout" "$layer.gz")

    cat > "$folder/config.json" <<.
{
"architecture": "amd64",
"os": "linux",
"created": "$created",
"config": {
  "User": "$image_user:$image_user",
  "Env": ["PATH=/usr/bin"],
  "Entrypoint": ["scrim"],
  "Cmd": ["open", "--foreground", "--key-file", "/run/secrets/key", "--nbd", "unix:/sockets/volume.nbd",
    "/images/disk.img", "volume"],
  "StopSignal": "SIGTERM",
  "Labels": $(image_labels)
},
"rootfs": {"type": "layers", "diff_ids": ["sha256:$layer_id"]},
"history": [{"created": "$created", "created_by": "scripts/image.sh"}]
}
.
    config_digest=$(add_blob "$layout" "$folder/config.json")
    cat > "$folder/manifest.json" <<.
{
"schemaVersion": 2,
"mediaType": "application/vnd.oci.image.manifest.v1+json",
"config": {$(descriptor "$layout" config.v1+json "$config_digest")},
"layers": [{$(descriptor "$layout" layer.v1.tar+gzip "$layer_digest")}],
"annotations": $(image_labels)
}
.
    manifest_digest=$(add_blob "$layout" "$folder/manifest.json")
    cat > "$layout/index.json" <<.
{
"schemaVersion": 2,
"mediaType": "application/vnd.oci.image.index.v1+json",
"manifests": [{
  $(descriptor "$layout" manifest.v1+json "$manifest_digest"),
  "platform": {"architecture": "amd64", "os": "linux"},
  "annotations": {"org.opencontainers.image.ref.name": "$version", "io.containerd.image.name": "$name"}
}]
}
.
    echo '{"imageLayoutVersion": "1.0.0"}' > "$layout/oci-layout"
    # Docker before 25 reads this in place of the index.
    printf '[{"Config": "blobs/sha256/%s", "RepoTags": ["%s"], "Layers": ["blobs/sha256/%s"]}]\n' "$config_digest" \
        "$name" "$layer_digest" > "$layout/manifest.json"
    image_tar c "$folder/scrim-$version-oci.tar" "$layout" 0
    rm -rf "$root" "$layout" "$owned"
}
