#!/usr/bin/env bash
# Dependencies held against deny.toml with cargo-deny.
#
#   lab/deny.sh            advisories, licences, bans and sources; fails where any of them cannot be checked
#   lab/deny.sh offline    all but advisories, with what a machine without GitHub has
#
# The advisory database is a git repository. Where it cannot be fetched, the copy that an earlier run left is used while it is young.
set -euo pipefail
cd "$(dirname "$0")/.."
OLDEST_DAYS=${OLDEST_DAYS:-14}

fail() {
    echo "deny: error: $1" >&2
    exit 1
}

has_cargo_deny() {
    cargo deny --version >/dev/null 2>&1
}

if [ "${1:-}" = offline ]; then
    if has_cargo_deny; then
        cargo deny --all-features check --hide-inclusion-graph bans licenses sources
    else
        cargo test --quiet --test cluster -- dependencies_may_be_used
    fi
    echo 'deny: licences, bans and sources are fine; advisories were NOT checked, which `make deny` does where GitHub can be reached'
    exit 0
fi

has_cargo_deny || fail 'advisories cannot be checked without cargo-deny; install it: cargo install --locked cargo-deny'
cargo deny --all-features check --hide-inclusion-graph bans licenses sources
if ! said=$(cargo deny --all-features fetch db 2>&1); then
    why=$(tail -n 1 <<<"$said")
    database=$(find "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs" -mindepth 1 -maxdepth 1 -type d 2>/dev/null | head -n 1) || database=
    [ -n "$database" ] || fail "advisories cannot be checked: the database cannot be fetched, and there is no copy of it: $why"
    fetched=$(stat -c %Y "$database/.git/FETCH_HEAD" 2>/dev/null || stat -c %Y "$database")
    days=$((($(date +%s) - fetched) / 86400))
    [ "$days" -le "$OLDEST_DAYS" ] || fail "advisories cannot be checked: the database cannot be fetched, and its copy is $days days old: $why"
    echo "deny: the database cannot be fetched; using its copy, which is $days days old"
fi
cargo deny --all-features check --disable-fetch advisories
