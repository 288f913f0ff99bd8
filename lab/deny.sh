#!/usr/bin/env bash
# Dependencies held against deny.toml with cargo-deny, as far as that can be had: the program is not compiled for it, which takes
# minutes, and the advisory database is asked for only where the network has it. Says what was left out, and fails only for what was found.
# Licences and sources are checked by the tests too, always.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo deny --version >/dev/null 2>&1; then
    echo 'deny: not checked: cargo-deny is not installed (cargo install --locked cargo-deny); the tests check licences and sources'
    exit 0
fi
cargo deny --all-features check --hide-inclusion-graph bans licenses sources
if ! said=$(cargo deny --all-features fetch db 2>&1); then
    echo "deny: advisories not checked: the database cannot be had: $(tail -n 1 <<<"$said")"
    exit 0
fi
cargo deny --all-features check --disable-fetch advisories
