# The kernel makes the records of TLS: files go by sendfile, a request right behind the handshake is not lost, who
# breaks the protocol is told so, and where the kernel does not do it, it is said why.
#
# kernels: 6.1 6.12 7.3
# limit: 300 s

. /share/tests/guest/serve.sh
loader=$(cat /proc/sys/kernel/modprobe)
trap 'stop; echo "$loader" > /proc/sys/kernel/modprobe' EXIT
mkdir site
noise site/noise 3000000
size=$(stat -c %s site/noise)
url=https://localhost:8443/noise
noise site/short 5000

echo "== without the kernel's module"
modprobe -r tls 2> /dev/null || true
echo /bin/false > /proc/sys/kernel/modprobe
serve
get "$url" | cmp - site/noise || fail "user space: payload differs"
[ "$(taken user no-module)" = 1 ] && [ "$(taken kernel "")" = 0 ] || fail "$(taken user no-module)"
stop
grep -q '"tls_path":"user","tls_reason":"no-module"' access.log || fail "the log does not say why"
! scrim serve site --tls-offload on --listen 127.0.0.1:8443 2> said || fail "it starts without the module"
cat said
grep -q 'modprobe tls' said || fail "the remedy is not named"
echo "$loader" > /proc/sys/kernel/modprobe
modprobe tls

echo "== the kernel counts our connections, and reads the file itself"
serve 'tls.offload = "on"'
errors=$(statistic TlsDecryptError)
before=$(statistic TlsTxSw) received=$(statistic TlsRxSw)
strace -f -q -e trace=sendfile,read,pread64,preadv,preadv2,readv,write,writev,sendto,sendmsg,recvfrom,recvmsg \
    -o calls -p "$server" &
tracer=$!
sleep 1
get "$url" | cmp - site/noise || fail "sendfile: payload differs"
kill $tracer
wait $tracer || true
awk -v size="$size" '
    match($0, /[a-z0-9]+\(/) { call = substr($0, RSTART, RLENGTH - 1) }
    / = [0-9]+$/ { count[call]++; bytes[call] += $NF }
    END {
        for (call in count) {
            print call ": " count[call] " times, " bytes[call] " bytes"
            if (call != "sendfile") others += bytes[call]
        }
        exit !(bytes["sendfile"] == size && others < 20000)
    }' calls || fail "the file went another way"
[ $(($(statistic TlsTxSw) - before)) = 1 ] && [ $(($(statistic TlsRxSw) - received)) = 1 ] ||
    fail "$(cat /proc/net/tls_stat)"

echo "== parts of a file"
get -r 1000-1999,2500000-2500999 "$url" > parts
grep -qa 'Content-Range: bytes 2500000-2500999/3000000' parts || fail "parts"

echo "== a request right behind the handshake"
for version in TLSv1_3 TLSv1_2; do
    for way in together byte-by-byte; do
        python3 /share/tests/guest/tls_client.py pipelined $version /short site/short $way || fail "$version, $way"
    done
done

echo "== the switch, while it runs"
configure 'tls.offload = "off"'
kill -HUP "$server"
sleep 1
get https://localhost:8443/short | cmp - site/short
[ "$(taken user off)" = 1 ] || fail "the switch was not heard"
configure
kill -HUP "$server"
sleep 1
get https://localhost:8443/short | cmp - site/short
[ "$(taken user off)" = 1 ] || fail "the switch was not heard again"
curl --silent --insecure --http2 "$url" | cmp - site/noise || fail "HTTP/2: payload differs"
[ "$(taken user http2)" = 1 ] || fail "HTTP/2"
[ "$(statistic TlsDecryptError)" = "$errors" ] || fail "$(cat /proc/net/tls_stat)"

echo "== a record that was changed on the way, or is none"
for version in TLSv1_3 TLSv1_2; do
    python3 /share/tests/guest/tls_client.py garbled $version /short site/short later || fail "$version"
    # An answer is under way by then, by sendfile.
    for way in together no-record; do
        python3 /share/tests/guest/tls_client.py garbled $version /noise site/noise $way || fail "$version, $way"
    done
done
get https://localhost:8443/short | cmp - site/short

echo "== connections that their clients have closed are gone"
for _ in $(seq 40); do
    open=$(curl --silent http://127.0.0.1:9180/metrics | sed -n 's/^scrim_serve_connections_open //p')
    [ "$open" != 0 ] || break
    sleep 0.5
done
[ "$open" = 0 ] || fail "$open connections are open"
stop

echo "== a first record that takes longer than a handshake may"
handshake=10
serve 'tls.offload = "on"'
python3 /share/tests/guest/tls_client.py split TLSv1_3 /short site/short 15 &
other=$!
python3 /share/tests/guest/tls_client.py split TLSv1_2 /short site/short 15 || fail "TLSv1_2"
wait $other || fail "TLSv1_3"
[ "$(taken kernel "")" = 2 ] || fail "$(taken kernel "")"
stop

echo "== records without data"
handshake=
serve 'tls.offload = "on"' 'tls.suite = "TLS_AES_128_GCM_SHA256"'
python3 /share/tests/guest/tls_client.py dataless /short site/short 10000 || fail "records without data"
[ "$(taken kernel "")" = 2 ] || fail "$(taken kernel "")"
stop
