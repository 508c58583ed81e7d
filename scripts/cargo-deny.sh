#!/usr/bin/env bash
# Runs cargo-deny; builds it first where it is missing, which takes some minutes. Without arguments it
# only makes sure that it is there. Kept outside `target`, so that `cargo clean` does not cost it.
set -euo pipefail

version=0.20.2
root=${CARGO_HOME:-$HOME/.cargo}/tools/cargo-deny-$version
if [ ! -x "$root/bin/cargo-deny" ]; then
  mkdir -p "$root"
  # One builds, the others wait for it.
  exec 9>"$root/lock"
  flock 9
  if [ ! -x "$root/bin/cargo-deny" ]; then
    printf 'building cargo-deny %s, which takes some minutes\n' "$version" >&2
    ${CARGO:-cargo} install --quiet --locked cargo-deny --version "=$version" --root "$root" --target-dir "$root/target" >&2
    rm -rf "$root/target"
  fi
  flock -u 9
fi
[ $# -eq 0 ] || exec "$root/bin/cargo-deny" "$@"
