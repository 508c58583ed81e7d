#!/usr/bin/env bash
# What would be published: packed, listed by size, and built from the archive alone, with all features: library and tool by
# `cargo package` itself, the examples here. Nothing is uploaded.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
# Tests and benches are left out on purpose, each with a warning.
$cargo package --quiet --allow-dirty --all-features
name=$(sed -n 's/^name = "\(.*\)"$/\1/p' Cargo.toml | head -n1)-$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n1)
archive=$CARGO_TARGET_DIR/package/$name.crate
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
tar xzf "$archive" -C "$copy"
cd "$copy/$name"
printf '%s: %s files, %s KiB, unpacked %s KiB\n' "$name" "$(find . -type f | wc -l)" \
  "$(($(stat -c %s "$archive") / 1024))" "$((($(find . -type f -printf '%s+')0) / 1024))"
$cargo check --quiet --locked --all-features --examples
printf 'library, tool and examples are built from it\n'
