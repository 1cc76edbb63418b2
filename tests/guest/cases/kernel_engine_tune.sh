# `scrim tune` measures dm-crypt's flags on an open volume, says when none matters or noise hides it, and leaves the table
# as it was.
#
# kernels: 6.1 6.12 7.3
# limit: 720 s

modprobe -a loop brd dm-crypt
modprobe dm-delay || true

said() {
    grep -q -- "$*" said || { cat said; fail "missing: $*"; }
}

# flags NAME: those of the table at work.
flags() {
    dmsetup table "$1" | cut -d' ' -f9-
}

sectors=$(blockdev --getsz /dev/ram0)

echo '== the null cipher on a RAM disk: what the flags were made for'
echo "0 $sectors crypt cipher_null-ecb - 0 /dev/ram0 0" > table
scrim open --table table null --engine kernel
before=$(dmsetup table null)
scrim tune null --rounds 15 --seconds 0.4 --overwrite --json > null.json
[ "$(dmsetup table null)" = "$before" ] || fail "the table has changed"
[ -z "$(dmsetup table --inactive null)" ] || fail "a table stays loaded"
# What the figures are depends on the machine; what is said follows from them.
python3 - <<'.'
import json
found = json.load(open('null.json'))
for name in sorted(found['ratios']):
    print(f"{name:56}{found['ratios'][name]:6.2f}  {found['intervals'][name]}")
for direction, flag in (('read', 'no_read_workqueue'), ('write', 'no_write_workqueue')):
    assert f'{direction}_4k_qd1_{flag}_vs_none' in found['ratios']
    assert not any(name.startswith(direction) and f'no_{direction}' not in name and '_workqueue_' in name
                   for name in found['ratios'])
for use, advice in found['advice'].items():
    print(use, advice['settings'], advice['text'])
    for setting in advice['settings']:
        helps = [name for name in found['ratios'] if f'_{setting}_vs' in name and found['intervals'][name][0] > 1]
        assert helps, (use, setting)
.
echo '== it is applied, and undone'
# Which flags depends on the machine, and noise is refused.
if scrim tune null --rounds 15 --seconds 0.35 --no-writes --apply files > said 2> warned; then
    grep -q 'undo` goes back' warned || fail "it does not say that it is applied"
    scrim tune null --undo
else
    grep -q 'cannot tell' warned || { cat warned; fail "it is not applied"; }
    scrim tune null --undo 2> said || said 'nothing to undo'
fi
[ "$(dmsetup table null)" = "$before" ] || fail "it is not undone"
if scrim tune null --undo 2> said; then fail "it is undone twice"; fi
said 'nothing to undo'
scrim close null

if dmsetup targets | grep -q ^delay; then
    echo '== a slow disk: no flag makes a difference'
    truncate -s 64M disk
    device=$(losetup --find --show disk)
    dmsetup create slow --table "0 $(blockdev --getsz "$device") delay $device 0 2"
    scrim format -q $(pbkdf pbkdf2) /dev/mapper/slow --key-file key
    scrim open /dev/mapper/slow ours --engine kernel --key-file key
    scrim tune ours --rounds 15 --seconds 0.5 --no-writes --key-file key > said 2> warned
    cat said
    # Two milliseconds hide the queues; what else a flag changes depends on the machine.
    if grep -q '^database:.*workqueue' said; then fail "it advises against queues on a slow disk"; fi
    scrim close ours
    dmsetup remove --retry slow
    losetup --detach "$device"
    rm disk
fi

echo '== writes, on the file system of a volume whose key is in the keyring'
truncate -s 400M disk
scrim format -q $(pbkdf pbkdf2) disk --key-file key
cryptsetup open disk ours --key-file key
mkfs.ext4 -q /dev/mapper/ours
mkdir folder
mount /dev/mapper/ours folder
scrim tune ours --rounds 3 --seconds 0.1 --key-file key > said 2> warned
said 'write_4k_qd1 *no_write_workqueue'
[ -z "$(ls folder | grep -v lost)" ] || fail "a file stays"
umount folder
scrim close ours
