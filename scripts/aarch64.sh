#!/usr/bin/env bash
# Tests the cipher core as an aarch64 processor runs it, emulated by qemu-user: with AES instructions and without.
#
# `scripts/setup.sh aarch64` installs what this needs. Emulation shows what the code computes, and nothing of its speed.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu max"

cargo test --quiet --locked --package scrim-crypt --target $target
