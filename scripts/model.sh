#!/usr/bin/env bash
# The whole model check. Optimises this crate only: its dependencies stay as `cargo test` built them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

exec ${CARGO:-cargo} test --quiet --all-features --test safety \
  --config 'profile.dev.package.zookeeper-recipes.opt-level=3' \
  -- runs:: --include-ignored --nocapture --test-threads=1
