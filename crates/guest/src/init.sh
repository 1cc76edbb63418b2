#!/bin/sh
# The guest's first process: mounts what it was given, then runs one job after the other, as it is
# told on the port "control":
#
#   run N    runs /host/jobs/N, answers "done N CODE"
#   report   shows on the console what is running, answers "reported"
#   shell    runs a shell on the console, answers "done shell CODE"
#   off      ends the guest
#
# What jobs print goes to the ports "stdout" and "stderr". It keeps its own root, the initial RAM
# disk, for what the kernel calls: /sbin/modprobe.
export PATH=/bin:/sbin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
ln -sf /proc/self/fd /dev/fd

# busybox does not know soft dependencies: crc32c comes before erofs.
for module in virtio_pci virtio_blk virtio_console 9pnet_virtio 9p crc32c_generic crc32c erofs overlay; do
    modprobe -q $module 2>/dev/null
done

mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 host /host
mount -t erofs -o ro /dev/vda /ro
mount -t tmpfs rw /rw
mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/ro,upperdir=/rw/upper,workdir=/rw/work root /new
for folder in proc sys dev host lib/modules; do
    mkdir -p /new/$folder
    mount --bind /$folder /new/$folder
done
mount -t devpts devpts /new/dev/pts
mount -t tmpfs shm /new/dev/shm
mount -t tmpfs run /new/run
mount -t tmpfs tmp /new/tmp
chmod 1777 /new/tmp /new/dev/shm
case " $(cat /proc/cmdline) " in
    *" scrim.share "*) mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 share /new/share ;;
esac
[ -e /host/scrim ] && cp /host/scrim /new/usr/local/bin/scrim
ifconfig lo 127.0.0.1 up
hostname guest

# The device of the port with this name, which may take a moment to appear.
port() {
    while :; do
        for port in /sys/class/virtio-ports/*; do
            if [ "$(cat "$port/name" 2>/dev/null)" = "$1" ]; then
                echo "/dev/${port##*/}"
                return
            fi
        done
        sleep 0.05
    done
}
exec 3<>"$(port control)" 4>"$(port stdout)" 5>"$(port stderr)"

# Without udev in the guest, libdevmapper makes its nodes itself.
within() {
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        HOME=/ TERM="${TERM:-linux}" LC_ALL=C DM_DISABLE_UDEV=1 chroot /new "$@"
}

job() {
    within /bin/sh -c "cd /share && exec /bin/sh /host/jobs/$1" </dev/null >&4 2>&5 3>&- 4>&- 5>&-
    echo "done $1 $?" >&3
}

echo ready >&3
while read -r word job <&3; do
    case $word in
        run) job "$job" & ;;
        report)
            ps -o pid,stat,args | grep -v '\[' >/dev/console
            dmesg -n 7
            echo w >/proc/sysrq-trigger
            echo reported >&3
            ;;
        shell)
            within /bin/setsid -c /bin/bash -l </dev/console >/dev/console 2>&1 3>&- 4>&- 5>&-
            echo "done shell $?" >&3
            ;;
        off) break ;;
    esac
done
umount /new/share /new/host /host 2>/dev/null
poweroff -f
