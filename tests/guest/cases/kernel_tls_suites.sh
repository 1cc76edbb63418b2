# Every suite of both versions brings 100 MB whole to curl and to openssl, and the kernel makes all of their records.
#
# kernels: 6.1 6.12 7.3
# limit: 1800 s

. /share/tests/guest/serve.sh
modprobe tls
mkdir site
noise site/large 100000000
size=$(stat -c %s site/large)
printf 'GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' > request
serve 'tls.offload = "on"'
sent=$(statistic TlsTxSw) received=$(statistic TlsRxSw) errors=$(statistic TlsDecryptError)

# by_curl OPTION..., by_openssl OPTION...: into the file `got`, since in an emulated guest a pipe costs as much as a
# cipher.
by_curl() {
    get "$@" -o got https://localhost:8443/large
}
by_openssl() {
    openssl s_client -connect 127.0.0.1:8443 -servername localhost -quiet "$@" < request > got 2> said ||
        { cat said; return 1; }
}

# whole SUITE CLIENT: whether the file is behind what else there is, a head or nothing.
whole() {
    [ "$(stat -c %s got)" -ge "$size" ] || fail "$1, by $2: $(stat -c %s got) bytes"
    cmp -i "$(($(stat -c %s got) - size)):0" got site/large || fail "$1, by $2: payload differs"
    rm got
}

# each WORDS_FOR_CURL WORDS_FOR_OPENSSL SUITE...
each() {
    curl=$1 openssl=$2
    shift 2
    for suite in "$@"; do
        echo "$suite"
        # shellcheck disable=SC2086
        by_curl $curl "$suite" || fail "$suite, by curl"
        whole "$suite" curl
        # shellcheck disable=SC2086
        by_openssl $openssl "$suite" || fail "$suite, by openssl"
        whole "$suite" openssl
    done
}
each '--tls-max 1.2 --ciphers' '-tls1_2 -cipher' ECDHE-ECDSA-AES128-GCM-SHA256 \
    ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-ECDSA-CHACHA20-POLY1305
each --tls13-ciphers '-tls1_3 -ciphersuites' TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 \
    TLS_CHACHA20_POLY1305_SHA256
[ "$(taken kernel "")" = 12 ] || fail "$(taken kernel "") connections, not 12"
[ $(($(statistic TlsTxSw) - sent)) = 12 ] && [ $(($(statistic TlsRxSw) - received)) = 12 ] &&
    [ "$(statistic TlsDecryptError)" = "$errors" ] || fail "$(cat /proc/net/tls_stat)"
stop
[ "$(grep -c '"tls_path":"kernel"' access.log)" = 12 ] || { cat access.log; fail "not all by the kernel"; }
sed 's/.*"suite":"\([^"]*\)".*/\1/' access.log | sort | uniq -c | awk '$1 == 2 { six++ } END { exit six != 6 }' ||
    { cat access.log; fail "not each suite twice"; }
