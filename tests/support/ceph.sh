#!/bin/sh
# A Ceph cluster for tests: a monitor, a manager and one OSD in a folder, on the loopback interface, with cephx.
#
#   ceph.sh install              install Ceph's programs, qemu's driver for its images and HAProxy, as far as they are
#                                missing
#   ceph.sh start FOLDER [PID]   make the cluster with a pool `pool`, and wait until it is ready; it is stopped and the
#                                folder removed once the process PID has ended
#   ceph.sh start-osd FOLDER     start the OSD again, after its process was killed
#   ceph.sh start-mon FOLDER     start the monitor again, after its process was killed
#   ceph.sh stop FOLDER          kill all processes; the folder stays
#
# FOLDER/ceph.conf is the configuration of clients, which knows the users admin, writer and reader; FOLDER/osd.pid and
# FOLDER/mon.pid have the processes of the OSD and the monitor. A cluster takes 1 GiB of memory.
set -eu

command=${1:-}
folder=${2:-}
conf=$folder/ceph.conf

# need PATH PACKAGE: the package if the file is missing
need() {
    [ -e "$1" ] || packages="$packages $2"
}

install() {
    packages=
    need /usr/bin/ceph-mon ceph-mon
    need /usr/bin/ceph-mgr ceph-mgr
    need /usr/bin/ceph-osd ceph-osd
    need /usr/bin/ceph ceph-common
    need /usr/lib/x86_64-linux-gnu/qemu/block-rbd.so qemu-block-extra
    need /usr/sbin/haproxy haproxy
    [ -n "$packages" ] || return 0
    echo "installing:$packages" >&2
    export DEBIAN_FRONTEND=noninteractive
    # The lists may be missing or old.
    apt_install || { as_root apt-get -qq update >&2 && apt_install; }
}

apt_install() {
    # shellcheck disable=SC2086 # several words
    as_root apt-get install -y --no-install-recommends $packages >&2
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# A monitor needs a port that is known beforehand.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

ceph_() {
    ceph --conf "$conf" --connect-timeout 30 "$@"
}

configure() {
    cat > "$conf" <<END
[global]
fsid = 5c417c5e-97a1-4c6d-a0f5-0c1d8b0e1a11
mon_host = v1:127.0.0.1:$1
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
keyring = $folder/keyring
run_dir = $folder
pid_file = $folder/\$type.pid
admin_socket =
mon_cluster_log_file = $folder/cluster.log
log_to_stderr = false
err_to_stderr = false
mon_allow_pool_size_one = true
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
[mon]
mon_data = $folder/mon
log_file = $folder/mon.log
mon_data_avail_warn = 1
mon_data_avail_crit = 1
[mgr]
mgr_data = $folder/mgr
log_file = $folder/mgr.log
mgr_module_path = $folder/modules
[osd]
osd_data = $folder/osd
log_file = $folder/osd.log
osd_objectstore = bluestore
bluestore_block_size = ${SCRIM_CEPH_BYTES:-6442450944}
osd_memory_target = 939524096
osd_class_load_list = *
# A dead client is forgotten after this many seconds; the usual number is 30.
osd_client_watch_timeout = 10
END
}

start_osd() {
    ceph-osd --conf "$conf" --id 0 --pid-file "$folder/osd.pid" > "$folder/osd.out" 2>&1
}

start_mon() {
    ceph-mon --conf "$conf" --id a --pid-file "$folder/mon.pid" > "$folder/mon.out" 2>&1
}

start() {
    mkdir -p "$folder/mon" "$folder/mgr" "$folder/osd" "$folder/modules"
    configure "$(free_port)"
    ceph-authtool --create-keyring "$folder/keyring" --gen-key --name mon. --cap mon 'allow *' > "$folder/made.log"
    ceph-authtool "$folder/keyring" --gen-key --name client.admin --cap mon 'allow *' --cap osd 'allow *' \
        --cap mgr 'allow *' >> "$folder/made.log"
    ceph-authtool "$folder/keyring" --gen-key --name mgr.x --cap mon 'allow profile mgr' --cap osd 'allow *' \
        >> "$folder/made.log"
    ceph-authtool "$folder/keyring" --gen-key --name osd.0 --cap mon 'allow profile osd' --cap osd 'allow *' \
        --cap mgr 'allow profile osd' >> "$folder/made.log"
    monmaptool --create --clobber --fsid 5c417c5e-97a1-4c6d-a0f5-0c1d8b0e1a11 \
        --addv a "[$(sed -n 's/^mon_host = //p' "$conf")]" "$folder/monmap" >> "$folder/made.log"
    ceph-mon --conf "$conf" --mkfs --id a --monmap "$folder/monmap" --keyring "$folder/keyring" >> "$folder/made.log"
    start_mon
    ceph_ config set global auth_allow_insecure_global_id_reclaim false > "$folder/setup.log" 2>&1
    ceph-mgr --conf "$conf" --id x --pid-file "$folder/mgr.pid" > "$folder/mgr.out" 2>&1
    uuid=$(cat /proc/sys/kernel/random/uuid)
    ceph_ osd new "$uuid" >> "$folder/setup.log" 2>&1
    ceph-osd --conf "$conf" --id 0 --mkfs --osd-uuid "$uuid" >> "$folder/osd.out" 2>&1
    start_osd
    ceph_ osd crush add-bucket default root >> "$folder/setup.log" 2>&1 || true
    ceph_ osd crush set osd.0 1 root=default >> "$folder/setup.log" 2>&1
    ceph_ osd pool create pool 8 >> "$folder/setup.log" 2>&1
    timeout 60 rbd --conf "$conf" pool init pool >> "$folder/setup.log" 2>&1
    ceph_ auth get-or-create client.reader mon 'profile rbd' osd 'profile rbd-read-only' \
        >> "$folder/keyring" 2>> "$folder/setup.log"
    ceph_ auth get-or-create client.writer mon 'profile rbd' osd 'profile rbd pool=pool' \
        >> "$folder/keyring" 2>> "$folder/setup.log"
}

stop() {
    for process in osd mgr mon; do
        if [ -s "$folder/$process.pid" ]; then
            kill -9 "$(cat "$folder/$process.pid")" 2> "$folder/stop.log" || true
        fi
    done
}

# Stops the cluster when a process has ended, in whatever way.
follow() {
    while kill -0 "$1" 2> /dev/null; do
        sleep 1
    done
    stop
    rm -rf "$folder"
}

if [ -z "$folder" ] && [ "$command" != install ]; then
    command=usage
fi
case $command in
    install) install ;;
    start)
        trap 'test $? = 0 || stop' EXIT
        start
        if [ -n "${3:-}" ]; then
            setsid "$0" follow "$folder" "$3" < /dev/null > /dev/null 2>&1 &
        fi
        ;;
    follow) follow "$3" ;;
    start-osd) start_osd ;;
    start-mon) start_mon ;;
    stop) stop ;;
    *) echo "ceph.sh: install, or start, start-osd, start-mon or stop FOLDER" >&2; exit 2 ;;
esac
