# What dm-crypt wrote by a table line, Scrim reads by the same line: every AES mode and IV, offsets, both
# ways of counting large sectors, the kernel's own spelling of ciphers, and the null cipher.
#
# kernels: 6.1 6.12 7.3
# limit: 180 s

modprobe -a brd dm-crypt crypto_null
noise payload 1048576
bytes=$(stat -c %s payload)
sectors=$((bytes / 512))

check() { # CIPHER KEY_BITS IV_OFFSET OFFSET OPTIONS…
    cipher=$1 iv_offset=$3 offset=$4
    key=-
    [ "$2" = 0 ] || key=$(head -c $(($2 / 8)) /dev/urandom | od -An -v -tx1 | tr -d ' \n')
    shift 4
    options=
    [ $# = 0 ] || options=" $# $*"
    echo "0 $sectors crypt $cipher $key $iv_offset /dev/ram0 $offset$options" > line
    dmsetup create theirs line
    to_kernel theirs payload
    dmsetup table --showkeys theirs > printed
    dmsetup remove theirs
    for line in line printed; do
        uri=$(scrim open --table $line ours)
        from_scrim "$uri" > read
        scrim table ours --showkeys > again
        scrim close ours
        same "$cipher $*, by the ${line}" payload read
    done
    diff printed again || fail "$cipher: the tables differ"
}

for_each_volume check <<'.'
# cipher, key bits, IV offset, offset, options
aes-xts-plain64 512 0 0
aes-xts-plain64 384 8 2048 sector_size:4096
aes-xts-plain64 256 4294967290 0
aes-xts-plain 256 4294967290 0
aes-xts-plain64be 512 7 8
aes-xts-null 256 0 0
aes-xts-plain64 512 16 0 sector_size:4096 iv_large_sectors
aes-xts-plain64 512 0 0 sector_size:1024 allow_discards
aes-xts-essiv:sha256 512 0 0 sector_size:2048
aes-xts-eboiv 256 0 0
aes-xts-benbi 256 0 0
aes-cbc-plain64 128 0 0
aes-cbc-plain64 192 0 0 sector_size:4096 iv_large_sectors
aes-cbc-essiv:sha256 256 0 0 no_read_workqueue no_write_workqueue
aes-cbc-essiv:sha256 128 16 0 sector_size:4096
aes-cbc-eboiv 256 0 0
aes-cbc-eboiv 256 0 0 sector_size:4096 iv_large_sectors
aes-cbc-benbi 256 0 0
aes-cbc-null 256 0 0
aes-ctr-plain64 128 0 0
aes-ctr-plain64 256 0 0 sector_size:4096 iv_large_sectors
aes-ctr-plain64be 192 0 0
aes-ecb 256 0 0
aes 256 0 0
aes-cbc 128 0 0
capi:xts(aes)-plain64 512 0 0 sector_size:4096
capi:cbc(aes)-essiv:sha256 256 0 0
capi:essiv(cbc(aes),sha256)-plain64 256 0 0
capi:ecb(cipher_null)- 0 0 0
cipher_null-ecb 0 0 0
.
