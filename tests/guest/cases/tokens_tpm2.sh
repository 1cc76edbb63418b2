# A volume that systemd-cryptenroll bound to a TPM opens by systemd's own plugin of tokens, and not in a machine with
# another TPM. swtpm emulates them; the guest's kernel has them as /dev/tpmrm0.
#
# kernels: 6.12
# limit: 600 s

modprobe tpm_vtpm_proxy
cost=$(pbkdf pbkdf2)

# start_tpm STATE: a TPM with this folder's state.
start_tpm() {
    mkdir -p "$1"
    swtpm chardev --vtpm-proxy --tpm2 --tpmstate "dir=$work/$1" --daemon --pid "file=$work/pid" > said
    trap stop_tpm EXIT
    for _ in $(seq 100); do
        [ ! -e /dev/tpmrm0 ] || return 0
        sleep 0.1
    done
    fail 'there is no TPM'
}
stop_tpm() {
    trap - EXIT
    kill "$(cat pid)"
    for _ in $(seq 100); do
        [ -e /dev/tpmrm0 ] || return 0
        sleep 0.1
    done
    fail 'the TPM stays'
}

start_tpm first
truncate -s 20M disk
scrim format -q $cost disk --key-file key
chmod 400 key
systemd-cryptenroll --tpm2-device=auto --tpm2-pcrs= --unlock-key-file=key disk
scrim dump disk | grep -q systemd-tpm2 || fail 'no token'

echo '== by its token'
scrim test-passphrase --token-only disk < /dev/null
scrim test-passphrase --token-type systemd-tpm2 --token-only disk < /dev/null
scrim cryptsetup open --test-passphrase --token-id 0 --token-only disk < /dev/null
noise payload 1000000
to_scrim payload "$(scrim open --token-only disk ours < /dev/null)"
scrim close ours
from_scrim "$(scrim open --key-file key disk ours)" > read
scrim close ours
same 'written by a token' payload read

echo '== in a machine with another TPM'
stop_tpm
start_tpm second
if scrim test-passphrase --token-only disk < /dev/null 2> said; then fail 'another TPM opens it'; fi
cat said
grep -q 'could not use the token' said || fail 'it does not say that the token is at fault'
scrim test-passphrase --key-file key disk

echo '== in a machine without a TPM'
stop_tpm
if scrim test-passphrase --token-only disk < /dev/null 2> said; then fail 'no TPM opens it'; fi
cat said
