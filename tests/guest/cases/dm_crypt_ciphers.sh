# What dm-crypt wrote by a table line, Scrim reads by the same line, and what Scrim then writes, dm-crypt
# reads: Serpent, Twofish, Camellia, LRW and Adiantum with their modes, IVs and sizes of keys.
#
# kernels: 6.1 6.12 7.3
# limit: 240 s

modprobe -a brd dm-crypt
noise payload 262144
noise other 262144
sectors=512
turn=0

both_ways() {
    line_agrees "$@"
    to_scrim other "$(scrim open --table line ours)"
    scrim close ours
    dmsetup create theirs line
    from_kernel theirs > read
    dmsetup remove --retry theirs
    same "$1, written by Scrim" other read
}

for_each_volume line_is_refused <<'.'
# kernel, cipher, key bits, options
6.12 aes-lrw-benbi 512
7.3 twofish-lrw-benbi 128
6.1 camellia-xts-plain64 128
6.12 serpent-ctr-eboiv 256
7.3 serpent-ecb-essiv:sha256 256
6.1 twofish-cbc-plain64 320
6.12 xchacha12,aes-adiantum-plain64 512
7.3 xchacha12,aes-adiantum-eboiv 256
6.1 xchacha20,aes-adiantum-essiv:sha256 256
6.12 xchacha12,aes-xts-plain64 512
7.3 capi:essiv(adiantum(xchacha12,aes),sha256)-plain64 256
.

for_each_volume both_ways <<'.'
# kernel, cipher, key bits, IV offset, offset, options
6.1 aes-lrw-benbi 256 0 0
6.12 aes-lrw-benbi 384 16 8 sector_size:4096
7.3 aes-lrw-plain64 320 0 0
6.12 aes-lrw-essiv:sha256 256 0 0
7.3 aes-lrw-eboiv 384 0 0 sector_size:1024
6.1 serpent-xts-plain64 512 0 0 sector_size:4096
6.12 serpent-xts-plain64 384 7 0
7.3 serpent-xts-plain 256 4294967290 0
7.3 serpent-cbc-essiv:sha256 256 0 8 sector_size:2048
6.1 serpent-lrw-benbi 384 0 0
6.12 serpent-ctr-plain64be 128 0 0
7.3 serpent-ecb 192 0 0
6.1 twofish-cbc-essiv:sha256 256 8 0 sector_size:4096
6.12 twofish-lrw-benbi 320 0 0 sector_size:4096 iv_large_sectors
7.3 twofish-xts-plain64 512 0 0 sector_size:4096 iv_large_sectors
6.1 twofish-xts-eboiv 384 0 0
6.12 twofish-ctr-benbi 128 0 0
6.1 twofish 192 4294967290 0
6.12 camellia-xts-plain64be 512 0 0
7.3 camellia-lrw-benbi 256 4294967290 0
6.1 camellia-ctr-plain64 256 0 0 sector_size:1024
6.12 camellia-cbc-eboiv 192 0 0
7.3 camellia-xts-benbi 384 0 0 sector_size:4096
6.1 camellia-ecb 128 0 0
6.1 xchacha12,aes-adiantum-plain64 256 0 0 sector_size:4096
6.12 xchacha12,aes-adiantum-plain 256 4294967290 0
7.3 xchacha12,aes-adiantum-plain64 256 0 0 sector_size:4096 iv_large_sectors
7.3 xchacha12,aes-adiantum-benbi 256 9 0
6.1 xchacha20,aes-adiantum-null 256 0 0
6.12 xchacha20,aes-adiantum-plain64be 256 0 0 sector_size:1024
7.3 xchacha20,aes-adiantum-plain64 256 0 0
6.1 capi:xts(serpent)-plain64 512 0 0
6.12 capi:essiv(cbc(twofish),sha256)-plain64 256 0 0
7.3 capi:lrw(camellia)-benbi 384 0 0 sector_size:4096
6.12 capi:adiantum(xchacha12,aes)-plain64 256 0 0 sector_size:4096
.
