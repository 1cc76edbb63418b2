# What dm-crypt wrote by a table line, Scrim reads by the same line: the AES modes and IVs, offsets, both
# ways of counting large sectors, the kernel's own spelling of ciphers, and the null cipher; by each
# family of Scrim's kernels that the guest's processor has.
#
# kernels: 6.1 6.12 7.3
# limit: 180 s

modprobe -a brd dm-crypt crypto_null
noise payload 1048576
sectors=2048
turn=0

for_each_volume line_is_refused <<'.'
# kernel, cipher, key bits, options
6.1 aes-xts 512
6.12 aes-xts-plain64 128
7.3 aes-xts-plain64 1024
6.1 aes-xts-plain99 512
6.12 aes-cbc 256
7.3 aes-cbc-plain64 64
6.1 aes-cbc-essiv 256
6.12 aes-cbc-essiv:sha512 256
7.3 aes-cbc-essiv:nohash 256
6.1 aes-ecb-essiv:sha256 256
6.12 aes-ctr-eboiv 256
7.3 aes-nomode-plain64 256
6.1 nocipher-xts-plain64 256
6.12 aes-xts-plain64 512 sector_size:8192
7.3 aes-xts-plain64 512 sector_size:700
6.1 aes-xts-plain64 512 no_such_flag
.

for_each_volume line_agrees <<'.'
# kernel, cipher, key bits, IV offset, offset, options
6.1 aes-xts-plain64 512 0 0
6.12 aes-xts-plain64 384 8 2048 sector_size:4096
7.3 aes-xts-plain64 256 4294967290 0
6.1 aes-xts-plain 256 4294967290 0
6.12 aes-xts-plain64be 512 7 8
7.3 aes-xts-null 256 0 0
6.1 aes-xts-plain64 512 16 0 sector_size:4096 iv_large_sectors
6.12 aes-xts-plain64 512 0 0 sector_size:1024 allow_discards
7.3 aes-xts-essiv:sha256 512 0 0 sector_size:2048
6.1 aes-xts-eboiv 256 0 0
6.12 aes-xts-benbi 256 0 0
7.3 aes-cbc-plain64 128 0 0
6.1 aes-cbc-plain64 192 0 0 sector_size:4096 iv_large_sectors
6.12 aes-cbc-essiv:sha256 256 0 0 no_read_workqueue no_write_workqueue
7.3 aes-cbc-essiv:sha256 128 16 0 sector_size:4096
6.1 aes-cbc-eboiv 256 0 0
6.12 aes-cbc-eboiv 256 0 0 sector_size:4096 iv_large_sectors
7.3 aes-cbc-benbi 256 0 0
6.1 aes-cbc-null 256 0 0
6.12 aes-ctr-plain64 128 0 0
7.3 aes-ctr-plain64 256 0 0 sector_size:4096 iv_large_sectors
6.1 aes-ctr-plain64be 192 0 0
6.12 aes-ecb 256 0 0
7.3 aes 256 0 0
6.1 aes-plain 128 0 0
6.12 capi:xts(aes)-plain64 512 0 0 sector_size:4096
7.3 capi:cbc(aes)-essiv:sha256 256 0 0
6.12 capi:cbc(aes-generic)-plain64 256 0 0
6.12 capi:xts(ecb(aes-generic))-plain64 512 0 0
6.1 capi:essiv(cbc(aes),sha256)-plain64 256 0 0
6.12 capi:ecb(cipher_null)- 0 0 0
7.3 cipher_null-ecb 0 0 0
.
