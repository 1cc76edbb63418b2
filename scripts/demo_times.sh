#!/usr/bin/env bash
# Measures `make demo` as a newcomer meets it: in an empty Debian 12 with nothing but `git` and `make`, in a folder that
# is made for each run.
#
#   scripts/demo_times.sh [RUNS]     default: 3
#
# It needs root and mmdebstrap. Prints a table: minutes, processor time, and what apt and cargo fetched.
set -euo pipefail
# shellcheck source=scripts/empty_system.sh
. "$(dirname "$0")/empty_system.sh"
project=$(realpath "$(dirname "$0")/..")
runs=${1:-3}
place=$(mktemp -d)
trap 'rm -rf --one-file-system "$place"' EXIT
trap 'exit 130' INT TERM

# fetched_by_apt LOG: MB, as apt itself says
fetched_by_apt() {
    awk '$1 == "Fetched" {
        amount = $2
        if ($3 == "kB") amount /= 1000
        if ($3 == "B") amount /= 1e6
        total += amount
    } END { printf "%.0f", total }' "$1"
}

echo '| run | minutes | processor minutes | fetched by apt | fetched by cargo |'
echo '|---|--:|--:|--:|--:|'
for ((run = 1; run <= runs; run++)); do
    root=$place/debian
    make_empty_system "$root" "$project" >&2
    # The times of all processes.
    TIMEFORMAT='%R %U %S'
    ended=0
    { time enter_empty_system "$root" make demo > "$place/log" 2>&1; } 2> "$place/times" || ended=$?
    if [ "$ended" != 0 ]; then
        echo "run $run: make demo ended with $ended; the end of what it printed:" >&2
        tail -n 30 "$place/log" >&2
        exit 1
    fi
    crates=$(du -sb "$root/root/.cargo/registry"/{cache,index} | awk '{ total += $1 } END { printf "%.0f", total / 1e6 }')
    awk -v run="$run" -v apt="$(fetched_by_apt "$place/log")" -v crates="$crates" \
        '{ printf "| %d | %.1f | %.1f | %d MB | %d MB |\n", run, $1 / 60, ($2 + $3) / 60, apt, crates }' "$place/times"
    rm -rf --one-file-system "$root"
done
