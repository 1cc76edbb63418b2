# The units under a real systemd: a volume that is open while the machine runs, one that opens for its first client, and
# files over HTTPS by an account that only systemd gives a private key.
#
# kernels: 6.12
# limit: 600 s

units=/usr/local/lib/systemd/system
mkdir -p $units
cp /share/packaging/systemd/scrim@.service /share/packaging/systemd/scrim@.socket \
    /share/packaging/systemd/scrim-serve.service $units
install -D /share/packaging/systemd/scrim.sysusers /usr/local/lib/sysusers.d/scrim.conf
systemd-sysusers 2> /dev/null
# What the machine would need to boot, and these units do not.
for unit in systemd-udevd.service systemd-udevd-kernel.socket systemd-udevd-control.socket systemd-udev-trigger.service \
    systemd-journald.service systemd-journald.socket systemd-journald-dev-log.socket systemd-logind.service \
    systemd-modules-load.service modprobe@.service kmod-static-nodes.service systemd-remount-fs.service tmp.mount; do
    ln -sf /dev/null /etc/systemd/system/$unit
done
# Without a journal: what units say, in a file.
mkdir -p /etc/systemd/system/service.d
printf '[Service]\nStandardOutput=append:%s\nStandardError=inherit\n' "$work/units.log" \
    > /etc/systemd/system/service.d/log.conf
# As after a first start.
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
touch /etc/.updated /var/.updated
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
unshare --pid --mount --fork --mount-proc --propagation shared \
    env container=test /usr/lib/systemd/systemd --unit=basic.target > systemd.log 2>&1 &
end_systemd() {
    [ $? = 0 ] || cat "$work/units.log"
    trap - EXIT
    pkill -KILL -x systemd || true
}
trap end_systemd EXIT

# in_it COMMAND…: where systemd is process 1.
in_it() {
    nsenter --target "$(pgrep -o -x systemd)" --pid --mount --root --wd=/ "$@"
}
for _ in $(seq 300); do
    in_it systemctl is-active --quiet basic.target 2> /dev/null && break
    sleep 0.2
done
in_it systemctl is-active basic.target

# says UNIT PROPERTY VALUE
says() {
    found=$(in_it systemctl show --property="$2" --value "$1")
    [ "$found" = "$3" ] || { in_it systemctl status --no-pager "$1"; fail "$1: $2 is $found"; }
}

rm "$work/units.log"

echo '== a volume'
install -d -m 0700 /etc/scrim
install -d -m 0700 /var/lib/scrim
install -m 0400 key /etc/scrim/data.key
scrim format -q $(pbkdf pbkdf2) --size 20M /var/lib/scrim/data.img --key-file key
echo IMAGE=/var/lib/scrim/data.img > /etc/scrim/data.conf
in_it systemctl start scrim@data
in_it scrim status data | grep -q 'data is active'
in_it nbdinfo --size 'nbd+unix:///?socket=/run/scrim/data.nbd'
in_it systemctl reload scrim@data || true
in_it systemctl stop scrim@data
says scrim@data Result success
[ ! -e /run/scrim/data.nbd ] || fail 'its socket stays'

echo '== a volume that opens for its first client'
in_it systemctl start scrim@data.socket
says scrim@data.service ActiveState inactive
in_it nbdinfo --size 'nbd+unix:///?socket=/run/scrim/data.nbd'
says scrim@data.service ActiveState active
in_it systemctl stop scrim@data.socket scrim@data.service

echo '== a wrong key stays wrong'
echo wrong > /etc/scrim/data.key
if in_it systemctl start scrim@data; then fail 'a wrong key opens it'; fi
says scrim@data ExecMainStatus 2
says scrim@data NRestarts 0

echo '== files over HTTPS'
mkdir -p /srv/site
echo 'a page' > /srv/site/index.html
openssl req -x509 -newkey ed25519 -noenc -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout private.pem -out chain.pem 2> /dev/null
install -D -m 0644 chain.pem /etc/scrim-serve/chain.pem
install -m 0600 private.pem /etc/private.pem
cat > /etc/scrim-serve/serve.toml <<.
listen = ["127.0.0.1:443"]
[[tls.certificate]]
chain = "chain.pem"
key = "/run/credentials/scrim-serve.service/privkey.pem"
[[site]]
root = "/srv/site"
.
mkdir -p /etc/systemd/system/scrim-serve.service.d
printf '[Service]\nLoadCredential=privkey.pem:/etc/private.pem\n' > /etc/systemd/system/scrim-serve.service.d/key.conf
in_it systemctl daemon-reload
in_it systemctl start scrim-serve
[ "$(in_it curl --silent --cacert "$work/chain.pem" https://localhost/)" = 'a page' ] || fail 'another page'
process=$(in_it systemctl show --property=MainPID --value scrim-serve)
[ "$(in_it stat -c %U "/proc/$process")" = scrim-serve ] || fail 'it runs as somebody else'
in_it systemctl reload scrim-serve
[ "$(in_it curl --silent --cacert "$work/chain.pem" https://localhost/)" = 'a page' ] || fail 'another page after a reload'
in_it systemctl stop scrim-serve
says scrim-serve Result success
