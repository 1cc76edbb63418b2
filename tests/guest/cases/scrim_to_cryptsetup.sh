# Volumes made and filled by Scrim are read by dm-crypt as cryptsetup opens it; what dm-crypt then
# writes, Scrim reads.
#
# kernels: 6.1 6.12 7.3
# limit: 180 s

modprobe -a loop dm-crypt
noise first 3145728
noise second 1048576

check() { # TYPE CIPHER KEY_BITS SECTOR_SIZE PBKDF HEADER
    truncate -s 20M disk
    header= sector=
    [ "$6" = attached ] || header="--header header"
    [ "$1" = luks1 ] || sector="--sector-size $4"
    scrim format -q --type "$1" --cipher "$2" --key-size "$3" $sector $(pbkdf "$5") \
        $header disk --key-file key
    uri=$(scrim open disk ours --key-file key $header)
    to_scrim first "$uri"
    offset=$(scrim table ours | cut -d' ' -f8)
    scrim close ours

    hand_over disk $((offset * 512)) "$4"
    cryptsetup open --disable-keyring --key-file key $header disk theirs
    from_kernel theirs > read
    same "$1 $2, read by dm-crypt" first read
    to_kernel theirs second
    cryptsetup close theirs

    uri=$(scrim open disk ours --key-file key $header)
    from_scrim "$uri" > read
    scrim close ours
    same "$1 $2, written by dm-crypt" second read
    rm -f disk header
}

for_each_volume check <<'.'
# type cipher key bits, sector, pbkdf, header
luks2 aes-xts-plain64 512 4096 argon2id attached
luks2 aes-xts-plain64 256 512 argon2i detached
luks2 aes-xts-plain64 512 512 pbkdf2 attached
luks2 aes-xts-plain 256 4096 argon2id detached
luks2 aes-cbc-essiv:sha256 256 4096 argon2id attached
luks2 aes-cbc-plain64 128 512 pbkdf2 attached
luks2 aes-cbc-eboiv 192 512 pbkdf2 attached
luks2 aes-ctr-plain64 128 512 argon2id attached
luks2 aes-ecb 256 4096 pbkdf2 detached
luks1 aes-xts-plain64 512 512 pbkdf2 attached
luks1 aes-xts-plain64 256 512 pbkdf2 detached
luks1 aes-cbc-essiv:sha256 128 512 pbkdf2 attached
.
