# A table is exchanged while it is at work, in Scrim and in the kernel, by the lines that the other one
# prints: flags and data stay what they were.
#
# kernels: 6.1 6.12 7.3
# limit: 120 s

modprobe -a loop dm-crypt
noise payload 1048576

check() { # OPTIONS OF REFRESH
    truncate -s 24M disk
    scrim format -q --sector-size 512 $(pbkdf pbkdf2) disk --key-file key
    device=$(losetup --find --show disk)

    uri=$(scrim open "$device" ours --key-file key)
    scrim table ours --showkeys > plain.table
    to_scrim payload "$uri"
    scrim refresh ours "$@"
    scrim table ours --showkeys > refreshed.table
    scrim refresh ours
    # The line of the report that Scrim follows, as it was typed.
    scrim table ours --showkeys | sed 's/$/ 2 no_read_workqueue no_write_workqueue/' | scrim reload ours
    scrim suspend ours && scrim resume ours
    scrim table ours --showkeys > reloaded.table
    from_scrim "$uri" > read
    same "$*, in Scrim" payload read
    scrim close ours

    dmsetup create theirs plain.table
    for table in refreshed.table reloaded.table; do
        dmsetup reload theirs $table
        dmsetup suspend theirs && dmsetup resume theirs
        dmsetup table --showkeys theirs > theirs.table
        diff $table theirs.table || fail "$*: $table is another one in the kernel"
        from_kernel theirs > read
        same "$*, in the kernel by $table" payload read
    done
    dmsetup table --showkeys theirs | sed 's/ [0-9]* no_read_workqueue.*$//' | dmsetup reload theirs
    dmsetup resume theirs
    dmsetup table --showkeys theirs > theirs.table
    dmsetup remove --retry theirs

    # The kernel's tables, in Scrim: with all flags, and without.
    uri=$(scrim open --table reloaded.table ours)
    for table in refreshed.table theirs.table; do
        scrim reload ours $table
        scrim resume ours
        scrim table ours --showkeys | diff - $table || fail "$*: $table is another one in Scrim"
        from_scrim "$uri" > read
        same "$*, in Scrim by $table" payload read
    done
    scrim close ours
    losetup --detach "$device"
    rm disk
}

for_each_volume check <<'.'
# kernel, options
6.1 --perf-same_cpu_crypt --perf-submit_from_crypt_cpus
6.12 --allow-discards --perf-no_write_workqueue
7.3 --perf-high_priority --perf-no_read_workqueue
.
