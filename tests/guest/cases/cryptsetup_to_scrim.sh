# Volumes made and filled by cryptsetup and dm-crypt are read by Scrim; what Scrim then writes, dm-crypt
# reads.
#
# kernels: 6.1 6.12 7.3
# limit: 300 s

modprobe -a loop dm-crypt
noise first 3145728
noise second 1048576
# What is there when the second was written over the first.
{ cat second; tail -c +1048577 first; } > both

check() { # TYPE CIPHER KEY_BITS SECTOR_SIZE PBKDF HEADER
    truncate -s 20M disk
    header= sector=
    if [ "$6" = detached ]; then
        truncate -s 16M header
        header="--header header"
    fi
    [ "$1" = luks1 ] || sector="--sector-size $4"
    cryptsetup luksFormat -q --type "$1" --cipher "$2" --key-size "$3" $sector $(pbkdf "$5") \
        $header disk --key-file key
    cryptsetup open --disable-keyring --key-file key $header disk theirs
    to_kernel theirs first
    line=$(dmsetup table --showkeys theirs)
    cryptsetup close theirs

    hand_over disk "$line"
    uri=$(scrim open disk ours --key-file key $header)
    from_scrim "$uri" > read
    same "$1 $2, read by Scrim" first read
    to_scrim second "$uri"
    scrim close ours

    cryptsetup open --disable-keyring --key-file key $header disk theirs
    from_kernel theirs > read
    cryptsetup close theirs
    same "$1 $2, written by Scrim" both read
    rm disk
}

for_each_volume check <<'.'
# kernel, type, cipher, key bits, sector, pbkdf, header: each kernel with each of the usual values
6.1 luks2 aes-xts-plain64 512 4096 argon2id attached
6.12 luks2 aes-xts-plain64 256 512 pbkdf2 detached
7.3 luks2 aes-xts-plain64be 512 512 argon2id attached
6.12 luks2 aes-xts-plain 512 2048 argon2i attached
7.3 luks2 aes-xts-essiv:sha256 256 1024 argon2i attached
6.12 luks2 aes-cbc-essiv:sha256 256 4096 argon2id attached
7.3 luks2 aes-cbc-essiv:sha256 128 4096 pbkdf2 detached
6.1 luks2 aes-cbc-plain64 192 4096 argon2i attached
6.1 luks2 aes-cbc-eboiv 256 512 argon2id detached
6.12 luks2 aes-ctr-plain64 256 4096 pbkdf2 attached
6.1 luks2 aes-ecb 128 512 argon2i attached
7.3 luks1 aes-xts-plain64 512 512 pbkdf2 attached
6.1 luks1 aes-xts-plain64 256 512 pbkdf2 detached
6.12 luks1 aes-cbc-essiv:sha256 256 512 pbkdf2 attached
7.3 luks1 aes-cbc-plain 128 512 pbkdf2 attached
6.12 luks1 aes-ecb 256 512 pbkdf2 attached
6.1 luks2 serpent-xts-plain64 512 4096 argon2id attached
6.12 luks2 twofish-cbc-essiv:sha256 256 512 pbkdf2 detached
7.3 luks2 camellia-xts-plain64 256 4096 argon2i attached
6.1 luks2 xchacha12,aes-adiantum-plain64 256 4096 argon2id detached
7.3 luks2 xchacha20,aes-adiantum-plain64 256 512 pbkdf2 attached
6.12 luks2 capi:adiantum(xchacha12,aes)-plain64 256 4096 pbkdf2 attached
6.1 luks1 twofish-lrw-benbi 384 512 pbkdf2 attached
6.12 luks1 aes-lrw-benbi 256 512 pbkdf2 detached
7.3 luks1 serpent-cbc-plain64 192 512 pbkdf2 attached
6.12 luks1 xchacha12,aes-adiantum-plain64 256 512 pbkdf2 attached
.
