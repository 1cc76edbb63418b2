# Files that the kernel wrote to an ext4 on dm-crypt are served out of the image, with nothing mounted: by the
# kernel's TLS, by ours, and without any; and what was not unmounted is refused.
#
# kernels: 6.1 6.12 7.3
# limit: 240 s

. /share/tests/guest/serve.sh
modprobe -a loop dm-crypt ext4 tls

sector=4096 features=
case $(uname -r) in
    6.1.*) sector=512 features="-O ^extents,^64bit" ;;
    6.12.*) features="-O inline_data -I 256" ;;
esac
mkdir -p kept mount
noise kept/long 5000001
noise kept/short 1000
printf 'small' > kept/small
cp kept/short 'kept/with space and é'
# A hole in the middle, and content behind it.
truncate -s 3000000 kept/holes
printf 'behind' >> kept/holes
mkdir -p kept/deep/down/below
cp kept/short kept/deep/down/below/file
# Pieces of two files that were written in turns.
for turn in $(seq 40); do
    head -c 50000 /dev/urandom >> kept/left
    head -c 30000 /dev/urandom >> kept/right
done

# shellcheck disable=SC2086
cryptsetup luksFormat -q --type luks2 --sector-size $sector $(pbkdf argon2id) --key-file key \
    "$(truncate -s 80M disk; echo disk)"
cryptsetup open --key-file key disk theirs
# shellcheck disable=SC2086
mkfs.ext4 -q -F $features /dev/mapper/theirs
mount /dev/mapper/theirs mount
mkdir mount/site
for turn in $(seq 40); do
    for name in left right; do
        size=$(stat -c %s "kept/$name")
        piece=$((size / 40))
        dd if="kept/$name" of="mount/site/$name" bs=$piece count=1 skip=$((turn - 1)) seek=$((turn - 1)) \
            conv=notrunc status=none
        sync "mount/site/$name"
    done
done
(cd kept && tar --sparse -cf - --exclude left --exclude right .) | tar -C mount/site -xf -

echo "== not unmounted"
sync
cp disk mounted
if scrim serve 'mounted#/site' --key-file key --listen 127.0.0.1:8443 2> said; then fail "it is served"; fi
cat said
grep -q 'e2fsck -p' said || fail "the remedy is not named"
rm mounted
mkdir mount/site/many
# The kernel indexes a folder as it grows; each name is found by that.
seq 3000 | sed 's|.*|mount/site/many/name with é, number &|' | tr '\n' '\0' | xargs -0 touch
sync
umount mount
cryptsetup close theirs

for offload in on off; do
    echo "== tls.offload = $offload"
    before=$(statistic TlsTxSw)
    serve "tls.offload = \"$offload\"" 'plain-http = ["127.0.0.1:8080"]' '[[site]]' 'names = ["volume.localhost"]' \
        "root = \"$PWD/disk#/site\"" "key-file = \"$PWD/key\""
    (cd kept && find . -type f) | while IFS= read -r name; do
        path=$(printf '%s' "${name#./}" | sed 's/ /%20/g; s/é/%C3%A9/g')
        get "https://volume.localhost:8443/$path" | cmp - "kept/$name" || fail "$name: payload differs"
        get "http://volume.localhost:8080/$path" | cmp - "kept/$name" || fail "$name, without TLS: payload differs"
    done
    for number in $(seq 1 25 3000); do
        echo "url = \"http://volume.localhost:8080/many/name%20with%20%C3%A9,%20number%20$number\""
    done > names
    get --config names --write-out '%{http_code}\n' | sort | uniq -c > found
    [ "$(tr -s ' ' < found)" = ' 120 200' ] || fail "of many names: $(cat found)"
    get -r 4095-2000000 https://volume.localhost:8443/left > part
    tail -c +4096 kept/left | head -c 1995906 | cmp - part || fail "a part: payload differs"
    stop
    made=$(($(statistic TlsTxSw) - before))
    case $offload in
        on) [ $made -ge 9 ] || fail "the kernel made the records of $made connections" ;;
        off) [ $made = 0 ] || fail "the kernel made records" ;;
    esac
done

echo "== a running volume that others mount for writing"
modprobe nbd
scrim open disk ours --key-file key > /dev/null
serve '[[site]]' 'names = ["volume.localhost"]' 'root = "ours#/site"'
url=https://volume.localhost:8443
get $url/short | cmp - kept/short || fail "before: payload differs"
nbd-client -unix /run/scrim/ours.nbd -b $sector /dev/nbd0 > /dev/null
mount /dev/nbd0 mount
mv mount/site mount/old
mkdir mount/site
cp kept/left mount/site/short
cp kept/long mount/site/new
sync
sleep 1.2
status=$(get --output /dev/null --write-out '%{http_code}' $url/short)
[ "$status" = 503 ] || fail "status $status while it is mounted"
rm -r mount/old
umount mount
nbd-client -d /dev/nbd0 > /dev/null
get $url/short | cmp - kept/left || fail "after: payload differs"
get $url/new | cmp - kept/long || fail "what is new: payload differs"
status=$(get --output /dev/null --write-out '%{http_code}' $url/small)
[ "$status" = 404 ] || fail "status $status for what was removed"
stop
scrim close ours
