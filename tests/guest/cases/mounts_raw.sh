# The plaintext as one file takes O_DIRECT, synchronous writes, mappings and a loop device, as each kernel's FUSE has them, and
# dm-crypt reads the result.
#
# kernels: 6.1 6.12 7.3
# limit: 120 s

. /share/tests/guest/mounts.sh
format 60M 4096
ours --raw > /dev/null
# Past the page cache, with O_DIRECT, synchronously, and mapped.
noise data 3000000
dd if=data of=mount/disk bs=1M seek=8 conv=notrunc,fsync status=none
dd if=mount/disk of=back bs=1M skip=8 count=3 iflag=direct status=none
same "O_DIRECT" data back
dd if=data of=mount/disk bs=64k seek=512 conv=notrunc oflag=direct,dsync count=40 status=none
mapped=$(python3 - << 'PYTHON'
import mmap
with open("mount/disk", "r+b") as file:
    try:
        with mmap.mmap(file.fileno(), 1 << 20, offset=16 << 20) as memory:
            memory[:6] = b"mapped"
            memory.flush()
        file.seek(16 << 20)
        print(file.read(6).decode())
    except OSError as error:
        print(error.errno)
PYTHON
)
# Before 6.6 the kernel maps no file past its page cache for writing (ENODEV).
case $kernel in
    6.1.*) [ "$mapped" = 19 ] || fail "mapped: $mapped" ;;
    *) [ "$mapped" = mapped ] || fail "mapped: $mapped" ;;
esac
device=$(losetup --find --show --direct-io=on mount/disk)
dd if="$device" of=back bs=1M skip=8 count=3 iflag=direct status=none
same "a loop device with O_DIRECT" data back
losetup --detach "$device"
timeout 60 scrim umount mount
cryptsetup open --key-file key disk theirs
dd if=/dev/mapper/theirs of=back bs=1M skip=8 count=3 status=none
same "dm-crypt" data back
cryptsetup close theirs
