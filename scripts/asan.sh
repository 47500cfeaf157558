#!/usr/bin/env bash
# Runs the tests of the code that has `unsafe` (arena, views, weights, kernels) under AddressSanitizer: a read or write outside
# its memory ends the test with a report. Builds in a folder of its own; takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(rustc -vV | sed -n 's/^host: //p')
# The sanitizer comes with every toolchain for Linux, but is not stable: this asks for it all the same.
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/asan"

cargo test --target "$target" -p runtime --features sim --lib "$@"
cargo test --target "$target" -p kernels --lib "$@"
