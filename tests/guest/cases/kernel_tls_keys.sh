# Keys are changed on connections whose records the kernel makes, by both sides and before their limit; a
# kernel that cannot do it ends the connection with close_notify, and the client comes back for the rest.
#
# kernels: 6.1 6.12 7.3
# limit: 180 s

. /share/tests/guest/serve.sh
modprobe tls
errors=$(statistic TlsDecryptError)
mkdir site
noise site/noise 12000000
noise site/short 5000
size=$(stat -c %s site/noise)
case $(uname -r) in 6.*) rekeys=no ;; *) rekeys=yes ;; esac
url=https://localhost:8443/noise
last=$(printf 'Connection: close\r\n_')
last=${last%_}

# converse: starts s_client, which says on `got` what it hears; ask, press: has it send a request, or obey one of
# its own commands; heard BYTES: waits until it has heard so many, or has ended.
converse() {
    rm -f words got
    mkfifo words
    openssl s_client -connect 127.0.0.1:8443 -servername localhost -tls1_3 -brief < words > got 2> said &
    client=$!
    exec 7> words
    for _ in $(seq 300); do
        ! grep -q Ciphersuite said || return 0
        sleep 0.1
    done
    fail "s_client does not connect"
}
ask() { # PATH FIELD
    printf 'GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n' "$1" "${2-}" >&7
}
press() {
    echo "$1" >&7
    for _ in $(seq 300); do
        [ "$(grep -c KEYUPDATE said)" -lt "$2" ] || return 0
        sleep 0.1
    done
    cat said
    fail "s_client does not press $1"
}
heard() {
    for _ in $(seq 600); do
        [ "$(stat -c %s got)" -lt "$1" ] && kill -0 $client 2> /dev/null || return 0
        sleep 0.1
    done
    cat said
    fail "$(stat -c %s got) bytes were heard, not $1"
}

# ends_well: the client has heard close_notify, and nothing that it could not open.
ends_well() {
    cat said
    # It does not know who has signed the certificate.
    ! grep -iv 'verif' said | grep -i 'error\|alert\|unexpected' || fail "$1: it did not end well"
}

echo "== the client changes its key, during a download and after it"
serve 'tls.offload = "on"'
converse
ask /noise
heard 1
press K 1
heard "$size"
sleep 1
if [ $rekeys = yes ]; then
    press k 2
    ask /short
    # Only what it reads by itself is a command to it.
    heard $((size + 5000))
    press k 3
    ask /short "$last"
fi
wait $client || true
exec 7>&-
ends_well "the client's keys"
if [ $rekeys = yes ]; then
    tail -c 5000 got | cmp - site/short || fail "after the client's new key: payload differs"
    [ "$(grep -ac 'HTTP/1.1 200' got)" = 3 ] || fail "not all requests were answered"
    [ "$(statistic TlsTxRekeyOk)" -ge 1 ] && [ "$(statistic TlsRxRekeyOk)" -ge 3 ] ||
        fail "$(cat /proc/net/tls_stat)"
else
    # The answer that was under way comes whole, and the connection ends.
    [ "$(grep -ac 'HTTP/1.1 200' got)" = 1 ] || fail "answers after a key that cannot be changed"
    tail -c "$size" got | cmp - site/noise || fail "the answer under way: payload differs"
    get "$url" | cmp - site/noise || fail "the client comes again: payload differs"
fi
stop

# by_and_by OPTION...: fetches the file as often as it takes.
by_and_by() {
    : > file
    for turn in $(seq 20); do
        code=0
        get -C - -o file "$@" "$url" || code=$?
        [ $code != 0 ] || return 0
        [ $code = 18 ] || fail "the connection was cut by an error, curl's number $code"
    done
    fail "$turn attempts were not enough"
}

echo "== our key is used up"
# They are some 3 MB.
records=200
serve 'tls.offload = "on"'
for version in "--tlsv1.3" "--tls-max 1.2"; do
    echo "$version"
    # shellcheck disable=SC2086
    by_and_by $version
    cmp file site/noise || fail "$version: payload differs"
    wanted=3
    [ "$rekeys $version" != "yes --tlsv1.3" ] || wanted=1
    [ "$turn" -ge $wanted ] || fail "$version: $turn attempts, where the key is used up"
    [ $wanted = 3 ] || [ "$turn" = 1 ] || fail "$version: $turn attempts, where keys are changed"
done
echo "== and between answers"
get https://localhost:8443/short https://localhost:8443/short https://localhost:8443/short > short
[ "$(stat -c %s short)" = 15000 ] || fail "short ones"
if [ $rekeys = yes ]; then
    [ "$(statistic TlsDecryptError)" = "$errors" ] || fail "$(cat /proc/net/tls_stat)"
    [ "$(statistic TlsTxRekeyOk)" -ge 4 ] || fail "$(cat /proc/net/tls_stat)"
    [ "$(statistic TlsTxRekeyError)" = 0 ] || fail "$(cat /proc/net/tls_stat)"
fi
stop
