#!/usr/bin/env bash
# The whole model check. Optimises the tools only: their dependencies stay as `cargo test` built them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

${CARGO:-cargo} test -p tools --test safety --config 'profile.dev.package.tools.opt-level=3' \
  -- runs:: --include-ignored --nocapture --test-threads=1 --quiet
