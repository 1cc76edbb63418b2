# What dm-crypt wrote by a table line, Scrim reads by the same line, and what Scrim then writes, dm-crypt
# reads: the ciphers, their modes and IVs, offsets, both ways of counting large sectors, the kernel's own
# spelling of ciphers, and the null cipher; by each family of Scrim's kernels that the guest's processor has.
#
# kernels: 6.1 6.12 7.3
# limit: 300 s

modprobe -a brd dm-crypt crypto_null
noise payload 1048576
noise other 1048576
bytes=$(stat -c %s payload)
sectors=$((bytes / 512))
turn=0

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
    turn=$(((turn + 1) % 3))
    set -- vaes512,vaes2,aesni vaes512,vaes2 vaes512
    shift $turn
    uri=$(SCRIM_DISABLE=$1 scrim open --table printed ours)
    scrim status ours | grep driver:
    from_scrim "$uri" > read
    to_scrim other "$uri"
    scrim table ours --showkeys > again
    scrim close ours
    same "$cipher$options, $1 disabled" payload read
    diff printed again || fail "$cipher: the tables differ"
    dmsetup create theirs line
    from_kernel theirs > read
    dmsetup remove theirs
    same "$cipher$options, written by Scrim" other read
}

# What dm-crypt refuses, Scrim refuses.
refuse() { # CIPHER KEY_BITS OPTIONS…
    cipher=$1
    key=$(head -c $(($2 / 8)) /dev/zero | od -An -v -tx1 | tr -d ' \n')
    shift 2
    options=
    [ $# = 0 ] || options=" $# $*"
    echo "0 $sectors crypt $cipher $key 0 /dev/ram0 0$options" > line
    if dmsetup create theirs line 2> /dev/null; then fail "dm-crypt takes: $cipher"; fi
    if scrim open --table line ours 2> said; then fail "Scrim takes: $cipher"; fi
    cat said
    grep -q '^scrim: table, line 1: ' said || fail "it is not the line that Scrim refuses: $cipher"
}

for_each_volume refuse <<'.'
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

for_each_volume check <<'.'
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
6.1 capi:essiv(cbc(aes),sha256)-plain64 256 0 0
6.12 capi:ecb(cipher_null)- 0 0 0
7.3 cipher_null-ecb 0 0 0
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
