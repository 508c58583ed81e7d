#!/usr/bin/env bash
# The tests: `quick` needs no server, `test` is what CI runs, `all` adds what is marked "make test-all", Docker, the soak of
# each recipe, the margins and each bench once. Servers are local processes. A failed step does not stop the others; the
# last lines name the steps that failed. In CI (`CI` set) a missing peer is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

level=${1:-test}
cargo=${CARGO:-cargo}
export ZOOKEEPER_BACKEND=${ZOOKEEPER_BACKEND:-process}
built=${CARGO_TARGET_DIR:-target}/debug
# One selection of packages and features for all steps: another one would build the library again.
packages=(-p zookeeper-recipes -p zookeeper-testkit -p zklock -p tools)
features=(--features zookeeper-recipes/metrics,zookeeper-recipes/sasl,zookeeper-recipes/test-util,zookeeper-recipes/tls)
steps=0 failures=() ignored=()
# What is skipped is run by other tests, in a process of its own.
[ "$level" != all ] || ignored=(--include-ignored --skip holder::hold --skip no_threads::connects --skip support::helper)
output=$(mktemp)
trap 'rm -f "$output"' EXIT
trap 'exit 130' INT # not the next step

say() { printf '\n== %s\n' "$*"; }
tests() { $cargo test --quiet --no-fail-fast "${packages[@]}" "${features[@]}" "$@"; }
has() { [ -x "$built/$1" ]; }

# What, a command: runs it to its end, and notes whether it failed.
step() {
  local what=$1 started=$SECONDS outcome=
  shift
  steps=$((steps + 1))
  if ! "$@" 2>&1 | tee "$output"; then
    # The tests that failed, each on an indented line.
    failures+=("$what" "$(awk '/^failures:$/ { names = "" }
      /^    [^ ]/ { names = names $0 "\n" }
      /^test result: FAILED/ { printf "%s", names }' "$output")")
    outcome=", FAILED"
  fi
  printf '== %s: %d s%s\n' "$what" $((SECONDS - started)) "$outcome"
}

finish() {
  if [ ${#failures[@]} -gt 0 ]; then
    say "FAILED, of $steps steps in $SECONDS s:"
    printf '%s\n' "${failures[@]}"
    exit 1
  fi
  say "passed: all $steps steps in $SECONDS s"
  exit 0
}

started=$SECONDS
if [ "$level" = quick ]; then
  step "format" $cargo fmt --all --check
  step "clippy" $cargo clippy --quiet "${packages[@]}" "${features[@]}" --all-targets -- -D warnings
  step "unit tests" tests --lib --bins
  step "api" tests --test library -- api::
  step "house rules" tests --test house
  finish
fi

tests --no-run
printf '== build: %d s\n' $((SECONDS - started))

step "unit tests" tests --lib --bins -- "${ignored[@]}"
step "house rules" tests --test house
step "documentation" $cargo test --quiet "${packages[@]}" "${features[@]}" --doc
step "the model, in small" tests --test safety -- --test-threads=1
step "library" tests --test library -- --test-threads=12 "${ignored[@]}"
step "the fault product" tests --test faults -- --test-threads=8 "${ignored[@]}"
step "test kit" tests --test testkit -- --test-threads=4 "${ignored[@]}"
step "zklock" tests --test zklock -- --test-threads=6 "${ignored[@]}"
step "security" tests --test security -- --test-threads=4 "${ignored[@]}"
step "beside Apache Curator and kazoo" tests --test interop -- --test-threads=8 "${ignored[@]}"
step "soak" env FAULTS=12 "$built/soak"
examples=(mutex cron_job leader_service)
if [ "$level" = all ]; then
  mapfile -t examples < <(find examples -maxdepth 1 -name '[a-z]*' ! -name '*.md' -printf '%f\n' | sed 's/\.rs$//' | sort)
fi
for example in "${examples[@]}"; do
  step "example $example" timeout --foreground 300 "$built/examples/$example"
done
[ "$level" = all ] || finish

for recipe in mutex rw semaphore leader; do
  step "soak: $recipe" env RECIPE="$recipe" FAULTS=60 "$built/soak"
done
step "margins" "$built/margins" 1
step "benches" tests --bench compare
if docker version >/dev/null 2>&1 && image=$(scripts/image.sh); then
  export ZOOKEEPER_IMAGE=$image ZOOKEEPER_BACKEND=docker
  step "docker: test kit" $cargo test --quiet --no-fail-fast -p zookeeper-testkit --features testcontainers -- --test-threads=4 --include-ignored
elif [ -n "${CI:-}" ]; then
  failures+=("no Docker")
else
  say "not run: the test kit on Docker, whose daemon does not answer or which has no image"
fi
finish
