# A thousand connections at once, whose records the kernel makes: all are answered whole.
#
# kernels: 6.12
# limit: 180 s

. /share/tests/guest/serve.sh
modprobe tls
errors=$(statistic TlsDecryptError)
ulimit -n 4096
mkdir site
noise site/some 20000
serve 'tls.offload = "on"'
python3 /share/tests/guest/tls_client.py many 1000 /some site/some
[ "$(taken kernel "")" = 1000 ] || fail "$(taken kernel "")"
[ "$(statistic TlsDecryptError)" = "$errors" ] || fail "$(cat /proc/net/tls_stat)"
stop
