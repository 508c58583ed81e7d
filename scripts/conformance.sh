#!/usr/bin/env bash
# Random scripts on simulated and on real servers, and what differs. Without SERVERS and SCRIPTS: 3,000 scripts on one server
# and 300 on three. A script that differs is run again alone with its SEED and SCRIPTS=1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export ZOOKEEPER_BACKEND=${ZOOKEEPER_BACKEND:-process}
test=$(${CARGO:-cargo} test --quiet --lib --features simulation --no-run --message-format=json-render-diagnostics |
  sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')

run() {
  SERVERS=$1 SCRIPTS=$2 "$test" --quiet --nocapture --ignored client::seam_equivalence | sed -E '/^(running|test result|\.?$)/d'
}

if [ -n "${SERVERS:-}${SCRIPTS:-}" ]; then
  run "${SERVERS:-1}" "${SCRIPTS:-100}"
else
  run 1 3000
  run 3 300
fi
