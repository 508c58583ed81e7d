#!/usr/bin/env bash
# What would be published: the library, the test kit and zklock, each packed and built from its archive. Nothing is uploaded.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Tests, examples and benches are left out on purpose, each with a warning.
${CARGO:-cargo} package --quiet --allow-dirty --all-features -p zookeeper-recipes -p zookeeper-testkit -p zklock
ls -l --block-size=K "${CARGO_TARGET_DIR:-target}"/package/*.crate | awk '{ print $NF ": " $5 }'
