# A tree of files on ext4 agrees between the kernel's dm-crypt and `scrim mount`, both ways, and each side's fsck
# finds the other's work sound: 10,000 files on 7.3, 1,000 on the others.
#
# kernels: 6.1 6.12 7.3
# limit: 900 s

. /share/tests/guest/mounts.sh
both_ways ext4 200M 4096 "$count" mkfs.ext4 -q -F -N 24000
