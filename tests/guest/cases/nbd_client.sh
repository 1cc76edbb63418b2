# The kernel's NBD client on Scrim's server: a file system, fio's verification, discards, and what was
# written before the client went away is there when it is back.
#
# kernels: 6.1 6.12 7.3
# limit: 180 s

modprobe -a nbd ext4
mkdir mount

connect() {
    nbd-client -unix /run/scrim/ours.nbd /dev/nbd0 "$@" > /dev/null
}
disconnect() {
    nbd-client -d /dev/nbd0 > /dev/null
}

scrim format -q disk --size 96M $(pbkdf argon2id) --key-file key
scrim open disk ours --key-file key --allow-discards > /dev/null

echo "== the device is as large as the volume"
connect -b 4096
sectors=$(scrim table ours | cut -d' ' -f2)
[ "$(blockdev --getsz /dev/nbd0)" = "$sectors" ] || fail "size: $(blockdev --getsz /dev/nbd0) for $sectors"

echo "== fio verifies what it wrote"
fio --name=verify --filename=/dev/nbd0 --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite \
    --bsrange=4k-256k --blockalign=4k --size=12M --verify=crc32c --verify_fatal=1 > fio.log 2>&1 ||
    { cat fio.log; fail "fio"; }

echo "== sectors of 512 bytes in a volume with larger ones"
disconnect
connect -b 512
noise odd 3072
dd if=odd of=/dev/nbd0 bs=512 seek=9 conv=notrunc,fsync status=none
dd if=/dev/nbd0 of=read bs=512 skip=9 count=6 status=none
same "512-byte blocks" odd read

echo "== several connections"
disconnect
connect -b 4096 -C 4
fio --name=verify --filename=/dev/nbd0 --direct=1 --ioengine=libaio --iodepth=8 --numjobs=4 --rw=randrw \
    --bs=4k --size=2M --offset_increment=4M --verify=crc32c --verify_fatal=1 > fio.log 2>&1 ||
    { cat fio.log; fail "fio on several connections"; }

echo "== discards reach the image, and leave the rest alone"
noise around 12582912
dd if=around of=/dev/nbd0 bs=1M oflag=direct conv=fsync status=none
before=$(stat -c %b disk)
blkdiscard --offset 4194304 --length 4194304 /dev/nbd0
after=$(stat -c %b disk)
[ $((before - after)) = 8192 ] || fail "the image has $after blocks and had $before"
dd if=/dev/nbd0 of=read bs=1M count=12 iflag=direct status=none
for part in 0 8; do
    dd if=around of=wanted bs=1M skip=$part count=4 status=none
    dd if=read of=found bs=1M skip=$part count=4 status=none
    same "beside the discarded, from $part MiB on" wanted found
done

echo "== a file system outlives the connection, and a trim"
mkfs.ext4 -q /dev/nbd0
mount /dev/nbd0 mount
noise file 5000000
cp file mount
cp file mount/other
umount mount
disconnect
connect -b 4096
e2fsck -fn /dev/nbd0 > fsck.log 2>&1 || { cat fsck.log; fail "not sound"; }
mount /dev/nbd0 mount
rm mount/other
fstrim mount
umount mount
e2fsck -fn /dev/nbd0 > fsck.log 2>&1 || { cat fsck.log; fail "not sound after the trim"; }
mount -o ro /dev/nbd0 mount
same "after a new connection" file mount/file
umount mount
disconnect
scrim close ours
