# `scrim tune` leaves the table as it was when it is killed again and again under load.
#
# kernels: 6.1 7.3
# limit: 1200 s

modprobe -a loop dm-crypt

truncate -s 400M disk
scrim format -q $(pbkdf pbkdf2) disk --key-file key
cryptsetup open disk ours --key-file key
mkfs.ext4 -q /dev/mapper/ours
mkdir folder
mount /dev/mapper/ours folder
before=$(dmsetup table ours)

echo '== killed, under load'
fio --name=load --directory=folder --rw=randwrite --bs=4k --size=16M --direct=1 --verify=crc32c --ioengine=libaio \
    --iodepth=4 --time_based --runtime=3600 --verify_backlog=256 --output=fio.out &
load=$!
tune_and_kill() {
    scrim tune ours --no-writes --rounds 50 --seconds 1 --key-file key > /dev/null 2>&1 &
    tune=$!
    # Its memory is locked before it changes a table.
    until grep '^VmLck:' /proc/$tune/status | grep -qv ' 0 kB'; do sleep 0.02; done
    sleep 0.$(($(od -An -N1 -tu1 /dev/urandom) % 10))
    kill -9 $tune
    wait $tune 2> /dev/null || true
}
# Each takes some ten seconds where a processor is emulated.
for killed in $(seq 30); do
    tune_and_kill
    [ "$(dmsetup info -c --noheadings -o suspended ours)" = Active ] || fail "it is suspended after kill $killed"
done
kill -0 $load || { cat fio.out; fail "the load has ended before"; }
# fio's own code for an end by a signal.
kill -INT $load
wait $load || [ $? = 128 ] || { cat fio.out; fail "fio has found other data"; }
grep -q 'err= 0' fio.out || { cat fio.out; fail "fio has found other data"; }
grep -E '^ +lat .*max=' fio.out
scrim tune ours --undo --key-file key 2> said || grep -q 'nothing to undo' said
[ "$(dmsetup table ours)" = "$before" ] || { dmsetup table ours; fail "the table is another one"; }
[ -z "$(dmsetup table --inactive ours)" ] || fail "a table stays loaded"
umount folder

echo '== what a killed tune has left is not for the next volume of that name'
tune_and_kill
scrim close ours
scrim open disk ours --engine kernel --key-file key
if scrim tune ours --undo --key-file key 2> said; then fail "it undoes what it has not done"; fi
grep -q 'nothing to undo' said
scrim close ours
