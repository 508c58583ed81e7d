#!/usr/bin/env bash
# The tests: `quick` needs no server, `test` is what CI runs, `all` adds what is marked "make test-all", Docker, the soak of
# each recipe, the margins and each bench once. `servers` are those about real servers, for another ZOOKEEPER_HOME. Servers are
# local processes. A failed step does not stop the others; the last lines name the steps that failed. In CI (`CI` set) a missing
# peer is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

. scripts/suites.sh
level=${1:-test}
ignored=()
# The skipped ones are run by other tests, in processes of their own, or by `make model`.
[ "$level" != all ] || ignored=(--include-ignored --skip no_threads::connects --skip main_returns_early::program --skip model::larger_sizes)
# The steps that ran, and those that failed, in files: the steps of the second lane run in a process of their own.
notes=$(mktemp -d)
touch "$notes/steps" "$notes/failures"
trap 'rm -rf "$notes" "$artifacts"' EXIT
# Not the next step. A background process of a script ignores Ctrl-C.
trap 'trap "" TERM; kill 0; exit 130' INT

say() { printf '\n== %s\n' "$*"; }

# Its cases mostly wait.
faults_on_a_real_server() { WORLD=real run faults --test-threads=32; }

# What, a command: runs it to its end, and notes whether it failed.
step() {
  local what=$1 started=$SECONDS output names outcome=
  shift
  output=$(mktemp -p "$notes")
  echo "$what" >>"$notes/steps"
  if ! "$@" 2>&1 | tee "$output"; then
    names=$(failed_tests "$output")
    failed "$what${names:+$'\n'$names}"
    outcome=", FAILED"
  fi
  printf '== %s: %d s%s\n' "$what" $((SECONDS - started)) "$outcome"
}

failed() { printf '%s\n' "$1" >>"$notes/failures"; }

finish() {
  local steps
  steps=$(wc -l <"$notes/steps")
  if [ -s "$notes/failures" ]; then
    say "FAILED, of $steps steps in $SECONDS s:"
    cat "$notes/failures"
    exit 1
  fi
  say "passed: all $steps steps in $SECONDS s"
  exit 0
}

if [ "$level" = quick ]; then
  step "format" $cargo fmt --all --check
  step "clippy" $cargo clippy --quiet "${packages[@]}" "${features[@]}" --all-targets -- -D warnings
  build --lib --bins --test library --test house --test api
  step "unit tests" tests --lib --bins
  step "library in virtual time" run library --skip real::
  step "house rules" run house
  step "the API, as programs" run api
  finish
fi

if [ "$level" = servers ]; then
  build
  step "conformance, in small" conformance 100
  step "library on real servers" run library --test-threads=12 real::
  finish
fi

faults=12
[ "$level" != all ] || faults=60
examples=(mutex cron_job leader_service)
if [ "$level" = all ]; then
  mapfile -t examples < <(find examples -mindepth 1 -maxdepth 1 -name '[a-z]*' ! -name '*.md' -printf '%f\n' | sed 's/\.rs$//' | sort)
fi

# The steps that mostly wait for servers and sessions. They run beside those that compute.
waiting_steps() {
  step "test kit" run testkit --test-threads=4 "${ignored[@]}"
  step "zklock" run zklock --test-threads=6 "${ignored[@]}"
  step "security" run security --test-threads=4 "${ignored[@]}"
  step "beside Apache Curator and kazoo" run interop --test-threads=8 "${ignored[@]}"
  step "soak: mutex" env FAULTS=$faults "$programs/soak"
  for example in "${examples[@]}"; do
    step "example $example" timeout --foreground 300 "$programs/examples/$example"
  done
}

build
waiting_steps >"$notes/waiting" 2>&1 &
step "unit tests" tests --lib --bins -- "${ignored[@]}"
step "conformance, in small" conformance 100
step "house rules" run house
step "the API, as programs" run api
step "distributions" run distributions
step "documentation" $cargo test --quiet "${packages[@]}" "${features[@]}" --doc
step "simulation" run simulation SECONDS=30
step "library" run library --test-threads=12 "${ignored[@]}"
step "the fault product" run faults
wait
cat "$notes/waiting"
[ "$level" = all ] || finish

step "the fault product, on a real server" faults_on_a_real_server
for recipe in rw semaphore; do
  step "soak: $recipe" env RECIPE="$recipe" FAULTS=$faults "$programs/soak"
done
step "library on real servers" on_real_servers --skip real::
step "margins" "$programs/margins" 1
step "benches" tests --bench compare
if docker version >/dev/null 2>&1 && image=$(scripts/image.sh); then
  export ZOOKEEPER_IMAGE=$image ZOOKEEPER_BACKEND=docker
  step "docker: test kit" $cargo test --quiet --no-fail-fast -p zookeeper-testkit --features testcontainers -- --test-threads=4 --include-ignored
elif [ -n "${CI:-}" ]; then
  failed "no Docker"
else
  say "not run: the test kit on Docker, whose daemon does not answer or which has no image"
fi
finish
