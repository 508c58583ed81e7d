#!/usr/bin/env bash
# The whole model check, and how many states it visited. Optimises this crate only: its dependencies
# stay as `cargo test` built them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

${CARGO:-cargo} test --all-features --test safety \
  --config 'profile.dev.package.zookeeper-recipes.opt-level=3' \
  -- runs:: --include-ignored --nocapture --test-threads=1 --quiet |
  awk '
    { sub(/^\.+/, "") }
    /^model: / && match($0, /states=[0-9]+/) { states += substr($0, RSTART + 7, RLENGTH - 7) }
    { print; fflush() }
    END { print "model: states visited in all: " states }'
