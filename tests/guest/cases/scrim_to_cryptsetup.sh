# Volumes made and filled by Scrim are read by dm-crypt as cryptsetup opens it; what dm-crypt then
# writes, Scrim reads.
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
    [ "$6" = attached ] || header="--header header"
    [ "$1" = luks1 ] || sector="--sector-size $4"
    scrim format -q --type "$1" --cipher "$2" --key-size "$3" $sector $(pbkdf "$5") \
        $header disk --key-file key
    uri=$(scrim open disk ours --key-file key $header)
    to_scrim first "$uri"
    line=$(scrim table --showkeys ours)
    scrim close ours

    hand_over disk "$line"
    cryptsetup open --disable-keyring --key-file key $header disk theirs
    from_kernel theirs > read
    same "$1 $2, read by dm-crypt" first read
    to_kernel theirs second
    cryptsetup close theirs

    uri=$(scrim open disk ours --key-file key $header)
    from_scrim "$uri" > read
    scrim close ours
    same "$1 $2, written by dm-crypt" both read
    rm -f disk header
}

for_each_volume check <<'.'
# kernel, type, cipher, key bits, sector, pbkdf, header: each kernel with each of the usual values
6.1 luks2 aes-xts-plain64 512 4096 argon2id attached
6.12 luks2 aes-xts-plain64 256 512 argon2i detached
7.3 luks2 aes-xts-plain64 512 512 pbkdf2 attached
7.3 luks2 aes-xts-plain 256 4096 argon2id detached
6.12 luks2 aes-cbc-essiv:sha256 256 4096 argon2id attached
6.1 luks2 aes-cbc-plain64 128 512 argon2i detached
7.3 luks2 aes-cbc-eboiv 192 512 argon2i attached
6.1 luks2 aes-ctr-plain64 128 512 argon2id attached
6.12 luks2 aes-ecb 256 4096 pbkdf2 detached
6.12 luks1 aes-xts-plain64 512 512 pbkdf2 attached
6.1 luks1 aes-xts-plain64 256 512 pbkdf2 detached
7.3 luks1 aes-cbc-essiv:sha256 128 512 pbkdf2 attached
6.12 luks2 serpent-xts-plain64 512 4096 argon2id attached
7.3 luks2 twofish-xts-plain64 384 512 argon2i detached
6.1 luks2 camellia-cbc-essiv:sha256 256 4096 pbkdf2 attached
7.3 luks2 xchacha12,aes-adiantum-plain64 256 4096 argon2id attached
6.12 luks2 capi:xts(twofish)-plain64 512 4096 pbkdf2 attached
6.12 luks1 serpent-lrw-benbi 256 512 pbkdf2 attached
6.1 luks1 twofish-cbc-essiv:sha256 256 512 pbkdf2 detached
7.3 luks1 xchacha20,aes-adiantum-plain64 256 512 pbkdf2 attached
.
