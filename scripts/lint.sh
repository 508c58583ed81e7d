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

run $cargo fmt --all --check
for script in scripts/*.sh scripts/image/*.sh .ci/run; do bash -n "$script"; done

# `incompatible_msrv` finds names of the standard library that are newer than the minimum Rust version. A compiler of that
# version, and the oldest dependencies: `make versions`.
strict=(-- -D warnings -D clippy::incompatible_msrv)
packages=(-p zookeeper-recipes -p zookeeper-testkit -p zklock -p tools)
run $cargo clippy --quiet "${packages[@]}" --all-features --all-targets "${strict[@]}"
for package in zookeeper-recipes zookeeper-testkit zklock; do
  run $cargo clippy --quiet -p "$package" --no-default-features "${strict[@]}"
done
for feature in $(sed -n '/^\[features\]/,/^\[dep/ s/^\([a-z-]*\) = .*/\1/p' Cargo.toml | grep -vx default); do
  run $cargo clippy --quiet --lib --no-default-features --features "$feature" "${strict[@]}"
done
# Its dependencies need what `scripts/setup.sh comparison` installs.
if command -v protoc >/dev/null; then
  run $cargo clippy --quiet -p zookeeper-recipes-comparison --all-targets "${strict[@]}"
else
  printf '== not checked beyond its formatting: benches/comparison, because there is no protoc\n'
fi
# The public pages, whose search index a house test reads; then all of them.
rm -rf "${CARGO_TARGET_DIR:-target}/doc/search.index"
run $cargo doc --quiet --no-deps -p zookeeper-recipes --all-features
run $cargo test --quiet -p tools --test house -- --ignored search
run env RUSTDOCFLAGS="-D warnings" $cargo doc --quiet --no-deps "${packages[@]:0:6}" --all-features --document-private-items

run $cargo test --quiet -p tools --test house
# Together, because the library's examples need the test kit.
run $cargo package --quiet --allow-dirty --no-verify -p zookeeper-testkit -p zookeeper-recipes
run scripts/cargo-tool.sh cargo-deny check --hide-inclusion-graph bans licenses sources
