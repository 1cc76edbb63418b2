#!/usr/bin/env bash
# Builds the cipher core and `sys` for 64-bit ARM, runs their tests under QEMU's emulation of a process, and checks that
# the whole program compiles.
#
#   scripts/aarch64.sh
#
# Installs nothing: `scripts/setup.sh aarch64` does. Emulation shows whether results are right, and nothing about speed.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
# With backtraces, a panic under emulated pages of 64 KiB ends the emulator.
export RUST_BACKTRACE=0

# tests ARGUMENT...: cargo runs each test program in the emulator
tests() {
    echo "$*" >&2
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu max ${pages:-}" \
        cargo test --quiet --locked --target "$target" "$@"
}

# chosen DISABLED: the drivers that are used where these are disabled
chosen() {
    SCRIM_DISABLE=$1 tests --package scrim-crypt --test choosing -- --exact choice --ignored --nocapture |
        sed -n 's/.*<\([a-z0-9-]*\)>$/\1/p' | tr '\n' ' '
}

# expect FAMILY DISABLED: checks which family is used
expect() {
    local used wanted=
    for mode in xts cbc ctr ecb; do
        wanted+="$mode-aes-$1 "
    done
    used=$(chosen "$2")
    if [ "$used" != "$wanted" ]; then
        echo "scripts/aarch64.sh: with SCRIM_DISABLE=$2: $used; expected: $wanted" >&2
        exit 1
    fi
}

# Not emulated: programs that execute themselves, advice on memory, mincore(2) of pages of another size than the host's.
# One test takes minutes, and what it tests is the same on every processor.
left_out=(--skip nobody_elses_faults --skip there_is_an_end_to_mappings --skip the_kernel_confirms_locked
    --skip real_answers_that_are_damaged)
tests --package scrim-sys --lib -- "${left_out[@]}"
pages="-p 65536" tests --package scrim-sys --lib -- "${left_out[@]}" --skip bytes_are_those_of_the_file_at_any_time

tests --package scrim-crypt --lib --test runs --test vectored --test streams --test guard_pages
expect armv8 ""
expect armv8 pmull
expect portable aes
expect portable armv8
SCRIM_DISABLE=aes tests --package scrim-crypt --test runs --test vectored --test streams

cargo check --quiet --locked --target "$target" --package scrim-cli
