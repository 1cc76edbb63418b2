# What Scrim does to keys and headers the guest's newer cryptsetup accepts, and the other way round; what
# was encrypted in place dm-crypt reads, and what is half encrypted cryptsetup leaves alone.
#
# kernels: 6.1 6.12 7.3
# limit: 480 s

modprobe -a loop dm-crypt
printf second > second
printf third > third
cost=$(pbkdf pbkdf2)

# opens FILE..., refuses FILE: by these passphrases, says each program of the other's header.
opens() {
    cryptsetup luksDump disk > dump || fail "cryptsetup does not accept the header"
    for file in "$@"; do
        cryptsetup open --test-passphrase --key-file "$file" disk || fail "cryptsetup: $file"
        scrim test-passphrase disk --key-file "$file" || fail "scrim: $file"
    done
}
refuses() {
    ! cryptsetup open --test-passphrase --key-file "$1" disk 2> said || fail "cryptsetup takes $1"
    ! scrim test-passphrase disk --key-file "$1" 2> said || fail "scrim takes $1"
}

for type in luks1 luks2; do
    [ $type = luks1 ] && kdf=pbkdf2 || kdf=argon2id
    echo "== $type"
    truncate -s 20M disk
    scrim format -q --type $type $cost disk --key-file key
    opens key
    scrim add-key disk $cost --key-file key second
    opens key second
    cryptsetup luksAddKey $cost disk --key-file second third
    opens key second third
    scrim change-key disk $cost --key-file third key
    refuses third
    scrim header-backup disk --header-backup-file backup
    cryptsetup luksKillSlot -q disk 1 --key-file key
    refuses second
    scrim header-restore -q disk --header-backup-file backup
    opens key second
    scrim remove-key disk second
    refuses second
    scrim convert-key disk $(pbkdf $kdf) --key-file key
    opens key
    cryptsetup luksChangeKey $cost disk --key-file key second
    opens second
    rm backup*
    if [ $type = luks1 ]; then
        scrim convert -q disk --type luks2
        opens second
        scrim convert -q disk --type luks1
    else
        scrim config disk --label ours --subsystem tests
        cryptsetup luksDump disk | grep -q 'Label:.*ours' || fail 'the label'
        echo '{"type":"tests","keyslots":[],"kept":[1,{"a":"b"}]}' > token
        scrim token import --token-id 3 --json-file token disk
        cryptsetup token export --token-id 3 disk | grep -q kept
        cryptsetup token remove --token-id 3 disk
        cryptsetup config disk --label theirs
        scrim dump disk | grep -q theirs
        dd if=/dev/zero of=disk bs=4096 count=1 conv=notrunc status=none
        scrim repair -q disk
    fi
    opens second
    cryptsetup open --disable-keyring --key-file second disk theirs
    cryptsetup close theirs
    scrim erase -q disk
    refuses second
    rm -f disk token
done

echo "== in place"
noise data 40000000
cp data disk
(sleep 0.4; pkill -INT -f 'encrypt --in-place' || true) &
scrim encrypt --in-place -q $cost disk --key-file key || true
wait
if cryptsetup luksDump disk 2> said | grep -q scrim-encrypt-in-place; then
    ! cryptsetup open --disable-keyring --key-file key disk theirs 2> said ||
        fail "cryptsetup opens what is half encrypted"
    scrim encrypt --in-place -q disk --key-file key
elif ! cryptsetup isLuks disk; then
    scrim encrypt --in-place -q $cost disk --key-file key
fi
cryptsetup open --disable-keyring --key-file key disk theirs
from_kernel theirs > read
cryptsetup close theirs
same "encrypted in place" data read
rm disk data read
