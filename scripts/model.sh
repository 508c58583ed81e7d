#!/usr/bin/env bash
# The whole model check, and how many states it visited. Optimises this crate only: its dependencies
# stay as `cargo test` built them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

${CARGO:-cargo} test --all-features --test safety \
  --config 'profile.dev.package.zookeeper-recipes.opt-level=3' \
  -- runs:: --include-ignored --nocapture --test-threads=1 --quiet |
  {
    visited=0
    while IFS= read -r line; do
      line=${line#.} # libtest's mark of the test before
      printf '%s\n' "$line"
      if [[ $line =~ ^model:.*states=([0-9]+) ]]; then visited=$((visited + BASH_REMATCH[1])); fi
    done
    printf 'model: states visited in all: %d\n' "$visited"
  }
