# A record that TLS does not allow ends its connection at once, by the alert that the standard names, whoever opens it:
# the kernel or Scrim. A client that sends one and takes nothing keeps the server waiting, and not busy.
#
# kernels: 6.1 6.12 7.3
# limit: 400 s

. /share/tests/guest/serve.sh
modprobe tls
mkdir site
noise site/short 500
noise site/long 10000000

for offload in on off; do
    serve "tls.offload = \"$offload\"" 'tls.suite = "TLS_AES_128_GCM_SHA256"'
    python3 /share/tests/guest/tls_client.py records TLSv1_3 /short site/short || fail "offload $offload"
    stop
    serve "tls.offload = \"$offload\"" 'tls.suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"'
    python3 /share/tests/guest/tls_client.py records TLSv1_2 /short site/short || fail "offload $offload"
    stop
done

echo "== a client that takes nothing"
serve 'tls.offload = "on"' 'tls.suite = "TLS_AES_128_GCM_SHA256"'
strace -f -q -e trace=sendfile,sendto,sendmsg -o calls -p "$server" &
tracer=$!
sleep 1
python3 /share/tests/guest/tls_client.py stalled /long site/long || fail "it is not told"
kill $tracer
wait $tracer || true
vain=$(grep -c 'EAGAIN' calls || true)
echo "tried in vain: $vain times"
[ "$vain" -lt 100 ] || fail "it does not wait for room"
[ "$(taken kernel "")" = 1 ] || fail "$(taken kernel "")"
stop
