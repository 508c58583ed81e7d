#!/usr/bin/env bash
# NAME VERSION [ARGUMENT]...: runs a command of cargo, such as cargo-deny 0.20.2; builds it first where it is missing, which
# takes some minutes. Without arguments it only makes sure that the command is there. Commands are kept outside `target`, so
# that `cargo clean` does not cost them.
set -euo pipefail

name=$1 version=$2
shift 2
root=${CARGO_HOME:-$HOME/.cargo}/tools/$name-$version
if [ ! -x "$root/bin/$name" ]; then
  mkdir -p "$root"
  # One process builds, the others wait for it.
  exec 9>"$root/lock"
  flock 9
  if [ ! -x "$root/bin/$name" ]; then
    printf 'building %s %s, which takes some minutes\n' "$name" "$version" >&2
    ${CARGO:-cargo} install --quiet --locked "$name" --version "=$version" --root "$root" --target-dir "$root/target" >&2
    rm -rf "$root/target"
  fi
  flock -u 9
fi
[ $# -eq 0 ] || exec "$root/bin/$name" "$@"
