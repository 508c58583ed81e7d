#!/usr/bin/env bash
# NAME ARGUMENT...: runs a command of cargo, such as cargo-deny, of the version below; builds it first where it is missing,
# which takes some minutes. Commands are kept outside `target`, so that `cargo clean` does not cost them.
set -euo pipefail

name=$1
shift
case $name in
cargo-deb) version=3.8.0 ;;
cargo-deny) version=0.20.2 ;;
cargo-generate-rpm) version=0.21.1 ;;
cargo-hack) version=0.6.46 ;;
cargo-semver-checks) version=0.51.0 ;;
*) printf 'cargo-tool: no version of %s is named here\n' "$name" >&2; exit 1 ;;
esac
root=${CARGO_HOME:-$HOME/.cargo}/tools/$name-$version
if [ ! -x "$root/bin/$name" ]; then
  printf 'building %s %s, which takes some minutes\n' "$name" "$version" >&2
  ${CARGO:-cargo} install --quiet --locked "$name" --version "=$version" --root "$root" --target-dir "$root/target" >&2
  rm -rf "$root/target"
fi
exec "$root/bin/$name" "$@"
