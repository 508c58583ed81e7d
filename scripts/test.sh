#!/usr/bin/env bash
# All tests: what needs no server once, what needs one against each backend there is. In CI (`CI` set)
# a missing backend is a failure. A failed step does not stop the others; the last lines say which failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
say() { printf '\n== %s\n' "$*"; }
steps=0
failures=()
output=$(mktemp)
trap 'rm -f "$output"' EXIT
trap 'exit 130' INT # not the next step

# Runs a step to its end, and notes whether it failed.
timed() {
  local what=$1 started=$SECONDS names outcome=
  shift
  steps=$((steps + 1))
  if ! "$@" 2>&1 | tee "$output"; then
    names=$(failed_tests)
    failures+=("$what${names:+$'\n'$names}")
    outcome=", FAILED"
  fi
  printf '== %s: %d s%s\n' "$what" $((SECONDS - started)) "$outcome"
}

# The tests that a step lists as failed, each on an indented line.
failed_tests() {
  awk '/^failures:$/ { names = "" }
    /^    [^ ]/ { names = names $0 "\n" }
    /^test result: FAILED/ { printf "%s", names }' "$output"
}

# An example ends by itself, and fails if what it shows did not happen: backend, name, arguments.
example() {
  local backend=$1 name=$2
  shift 2
  timed "$backend: the example $name" env ZOOKEEPER_BACKEND="$backend" timeout --foreground 300 \
    $cargo run --quiet --all-features --example "$name" -- "$@"
}

# Before anything is compiled, so that nobody waits for a build to learn what is missing.
backends=()
if [ -n "${ZOOKEEPER_CONNECT:-}" ]; then
  backends+=(external)
elif [ -n "${ZOOKEEPER_BACKEND:-}" ]; then
  backends+=("$ZOOKEEPER_BACKEND")
else
  if ! docker version >/dev/null 2>&1; then
    say "no tests against Docker: its daemon does not answer"
  elif image=$(scripts/image.sh); then
    export ZOOKEEPER_IMAGE=$image
    backends+=(docker)
  else
    say "no tests against Docker: there is no image"
  fi
  if { command -v java || [ -x "${JAVA_HOME:-/nowhere}/bin/java" ]; } >/dev/null &&
    { [ -n "${ZOOKEEPER_HOME:-}" ] || [ -e /usr/share/java/zookeeper.jar ]; }; then
    backends+=(process)
  else
    say "no tests against a local process: there is no Java or no ZooKeeper"
  fi
  if [ -n "${CI:-}" ] && [ ${#backends[@]} -lt 2 ]; then
    say "in CI both backends must be there"
    exit 1
  fi
fi
[ ${#backends[@]} -gt 0 ] || { say "no backend at all"; exit 1; }
say "backends: ${backends[*]}"

started=$SECONDS
# Examples as what `cargo run` takes, the two that have unit tests also as those.
$cargo test --all-features --no-run
$cargo test --all-features --no-run --lib --bins --benches --example demo --example rolling_restart
printf '== build: %d s\n' $((SECONDS - started))
say "without a server, and the testkit itself"
timed "unit tests" $cargo test --all-features --no-fail-fast --lib --bins --example demo --example rolling_restart --quiet
timed "api and house rules" $cargo test --all-features --no-fail-fast --test api --test house --quiet
timed "the model, in small" $cargo test --all-features --no-fail-fast --test safety -- --nocapture --test-threads=1
timed "testkit" $cargo test --all-features --no-fail-fast --test testkit -- --test-threads=4
timed "documentation" $cargo test --all-features --no-fail-fast --doc --quiet
for backend in "${backends[@]}"; do
  say "against a real server: $backend"
  # Most of a test's time is waiting for a server, or for Docker's daemon, which more at once do not make faster.
  at_once=12
  [ "$backend" != docker ] || at_once=6
  timed "$backend: recipes" env ZOOKEEPER_BACKEND="$backend" $cargo test --all-features --no-fail-fast --test recipes --test round_trips --test traced -- --test-threads="$at_once"
  example "$backend" mutex
done
# What these show does not depend on what a server runs in.
one=${backends[-1]}
say "on one backend: $one"
timed "the fault product" env ZOOKEEPER_BACKEND="$one" $cargo test --all-features --no-fail-fast --test faults -- --show-output --test-threads=8
say "the examples (examples/README.md; tests/house looks that each is here)"
examples=(
  read_write_lock multi_lock shared_count semaphore semaphore_mutex revocation
  leader_latch leader_selector leader_observer
  cron_job leader_service sharded_workers config_change fencing fencing_database
  metrics fault_proxy
)
for name in "${examples[@]}"; do example "$one" "$name"; done
CALM=1 example "$one" demo
timed "metrics" env ZOOKEEPER_BACKEND="$one" $cargo test --all-features --no-fail-fast --test metrics -- --test-threads=6
say "how long before its node goes a holder knows, in one round on a quorum"
example "$one" lease_margin 1 cut-off
say "whether a leader stays one while the servers are restarted, and who follows one that is killed"
example "$one" rolling_restart 1
if [[ " ${backends[*]} " == *" process "* ]]; then
  timed "security" env ZOOKEEPER_BACKEND=process $cargo test --all-features --no-fail-fast --test security --test providers --test secrets
fi
say "beside Apache Curator and kazoo, on one backend"
scripts/setup.sh curator kazoo || true # a peer that cannot be had is reported as missing, and in CI fails
timed "interop" env ZOOKEEPER_BACKEND="$one" $cargo test --all-features --no-fail-fast --test interop -- --show-output --test-threads=8
say "the command line tool, and what becomes of its command"
timed "zklock" env ZOOKEEPER_BACKEND="$one" $cargo test --all-features --no-fail-fast --test zklock -- --test-threads=6
if [ -z "${ZOOKEEPER_CONNECT:-}" ]; then
  say "each bench once, beside the peers that are there"
  timed "benches" $cargo test --all-features --no-fail-fast --bench compare --bench pure --bench operations
  say "workers under random faults, on an ensemble"
  timed "the soak's rules, and locks broken on purpose" $cargo test --all-features --no-fail-fast --test soak
  timed "soak" env FAULTS="${FAULTS:-60}" $cargo run --quiet --all-features --example soak
  for recipe in rw semaphore leader; do
    timed "soak: $recipe" env RECIPE="$recipe" FAULTS="${FAULTS:-12}" $cargo run --quiet --all-features --example soak
  done
else
  say "no benches and no soak: their servers cannot be external ones"
fi
if [ ${#failures[@]} -gt 0 ]; then
  say "FAILED: ${#failures[@]} of $steps steps, against ${backends[*]}"
  printf '%s\n' "${failures[@]}"
  exit 1
fi
say "passed: all $steps steps, against ${backends[*]}"
