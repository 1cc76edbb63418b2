# A volume that `clevis luks bind` bound to a Tang server opens while the server answers, and not without it.
#
# kernels: 6.12
# limit: 600 s

mkdir keys
/usr/libexec/tangd-keygen keys 2> said
# A process of tangd for each connection, on a port that is printed.
cat > server.py <<'.'
import socket, subprocess
server = socket.create_server(('127.0.0.1', 0))
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    with connection:
        subprocess.run(['/usr/libexec/tangd', 'keys'], stdin=connection, stdout=connection, stderr=subprocess.DEVNULL)
.
python3 server.py > port &
server=$!
stop_server() {
    trap - EXIT
    kill $server || true
}
trap stop_server EXIT
while [ ! -s port ]; do sleep 0.1; done

truncate -s 20M disk
scrim format -q $(pbkdf pbkdf2) disk --key-file key
clevis luks bind -y -f -k key -d disk tang "{\"url\":\"http://127.0.0.1:$(cat port)\"}"
scrim dump disk | grep -q clevis || fail 'no token'

echo '== while the server answers'
noise payload 1000000
to_scrim payload "$(scrim open --token-only disk ours < /dev/null)"
scrim close ours
from_scrim "$(scrim open --key-file key disk ours)" > read
scrim close ours
same 'written by a token' payload read
printf more > more
scrim add-key disk $(pbkdf pbkdf2) --token-type clevis --token-only more < /dev/null
cryptsetup open --test-passphrase --key-file more disk

echo '== without the server'
stop_server
if scrim test-passphrase --token-only disk < /dev/null 2> said; then fail 'it opens without the server'; fi
cat said
grep -q 'clevis could not use the token' said || fail 'it does not say who failed'
scrim test-passphrase --key-file key disk
