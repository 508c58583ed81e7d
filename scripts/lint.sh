#!/usr/bin/env bash
# Formatting, clippy, documentation, features, dependencies, house rules. Changes nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
run() {
  local started=$SECONDS
  printf '== %s\n' "$*"
  "$@"
  printf '   %d s\n' $((SECONDS - started))
}

# Where it is missing it is built, by the processor that the compiler leaves idle with one crate.
set -m # with a group of its own, so that its compilers end with it
scripts/cargo-deny.sh &
built=$!
set +m
trap 'kill -- "-$built" 2>/dev/null || true' EXIT

run $cargo fmt --all --check
for script in scripts/*.sh scripts/image/*.sh .ci/run; do bash -n "$script"; done

# Of the minimum Rust version only what names of the standard library show (`incompatible_msrv`), and what dependencies say
# of themselves (`tests/house`). With a compiler of that version, and the oldest dependencies: `make versions`.
strict=(-- -D warnings -D clippy::incompatible_msrv)
run $cargo clippy --quiet --all-features --all-targets "${strict[@]}"
# Our own dev-dependency on ourselves turns `testkit` on for every target but the library.
run $cargo clippy --quiet --lib --no-default-features "${strict[@]}"
# Each by itself, and the tool with what it is built with.
features=$(sed -n '/^\[features\]/,/^\[dep/ s/^\([a-z-]*\) = .*/\1/p' Cargo.toml | grep -vx default)
for feature in $features; do
  run $cargo clippy --quiet --lib --bins --no-default-features --features "$feature" "${strict[@]}"
done
# Its dependencies are built for nothing else, and need what `scripts/setup.sh comparison` installs.
if command -v protoc >/dev/null; then
  run $cargo clippy --quiet --package zookeeper-recipes-comparison --all-targets "${strict[@]}"
  run $cargo test --quiet --package zookeeper-recipes-comparison
else
  printf '== not checked beyond its formatting: benches/comparison, for there is no protoc\n'
fi
run env RUSTDOCFLAGS="-D warnings" $cargo doc --quiet --no-deps --all-features --document-private-items

run $cargo test --quiet --all-features --test house
run $cargo package --quiet --allow-dirty --no-verify
wait "$built"
run scripts/cargo-deny.sh check --hide-inclusion-graph bans licenses sources
