#!/usr/bin/env bash
# Runs all tests, or those whose name contains the argument.
#
#   lab/test.sh [PART]
#
# With RETRY=1, as in CI, a few tests that failed are run once more, alone. Hundreds of tests share two processors and one control plane
# there, and some look at a clock. A test that passes only then is named at the end: it has a fault, which must be found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# With more than so many, it is not the clock.
most=5
log=target/test.log
# Tests wait more than they work; but they share one control plane.
processors=$(getconf _NPROCESSORS_ONLN)
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((processors < 4 ? 2 * processors : 8))}

run() { target/debug/lab guard cargo test --workspace --no-fail-fast -- "$@"; }

# The names below the second `failures:` of each program.
failed() { awk '/^failures:$/ {listed = 1; next} /^test result: / {listed = 0} listed && /^    [a-z0-9_:]+$/ {print $1}' "$log"; }

if [ "${RETRY:-}" != 1 ]; then
  run "$@"
  exit
fi
if run "$@" 2>&1 | tee "$log"; then
  exit
fi
mapfile -t names < <(failed)
if [ "${#names[@]}" = 0 ] || [ "${#names[@]}" -gt "$most" ]; then
  exit 1
fi
echo "once more, alone: ${names[*]}"
run --exact --test-threads=1 "${names[@]}"
echo "passed only when run once more, so they have a fault: ${names[*]}"
echo "${#names[@]} passed, 0 failed"
