# What the cases about `scrim serve` share. Sourced in the guest, behind lib.sh.

server=
trap 'stop' EXIT

# serve LINE...: serves the folder `site` at https://localhost:8443/, by a configuration that ends with these
# lines; figures are at http://127.0.0.1:9180/. By a function of its own, since a case serves many times.
serve() {
    mkdir -p site
    configure "$@"
    : > access.log
    scrim serve --config serve.toml > serve.out 2>&1 &
    server=$!
    for _ in $(seq 300); do
        ! grep -q https serve.out || return 0
        sleep 0.1
    done
    cat serve.out
    fail "it does not serve"
}

# configure LINE...: writes the configuration; $records is how many each key may make,
# $handshake how many seconds a handshake may take.
configure() {
    cat > serve.toml <<.
listen = ["127.0.0.1:8443"]
status = "127.0.0.1:9180"
tls.http2 = true
access-log = { file = "$PWD/access.log", format = "json" }
# An emulated machine may be slow, or held up.
limits.handshake-seconds = ${handshake:-120}
limits.request-seconds = 120
limits.idle-seconds = 300
limits.stall-seconds = 120
limits.connections-per-client = 4096
limits.records-per-key = ${records:-16777216}
$(printf '%s\n' "$@")
[[site]]
root = "$PWD/site"
.
}

stop() {
    [ -n "$server" ] || return 0
    kill "$server"
    wait "$server" || true
    server=
}

# get OPTION...: a file by curl and HTTP/1.1, on standard output. The certificate is made for the occasion.
get() {
    curl --silent --show-error --insecure --http1.1 "$@"
}

# taken PATH REASON: how many connections took this path, and why.
taken() {
    curl --silent http://127.0.0.1:9180/metrics |
        sed -n "s/^scrim_serve_tls_connections_total{path=\"$1\",reason=\"$2\"} //p"
}

# statistic NAME: what the kernel counts, of all its connections.
statistic() {
    awk -v name="$1" '$1 == name { print $2 }' /proc/net/tls_stat
}
