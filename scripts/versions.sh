#!/usr/bin/env bash
# The oldest of everything that Cargo.toml allows: the library and the tool are checked with the compiler that `rust-version`
# names (installed by rustup where it is missing), first with Cargo.lock, then with the oldest version of each direct
# dependency. Some minutes; needs a network. That no dependency asks for a newer compiler is looked at by `make lint`, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
has() { rustc "+$oldest" --version 2>/dev/null; }
if ! has; then
  rustup toolchain install "$oldest" --profile minimal >&2 || true
  has || { printf 'versions: no compiler %s, and rustup cannot install it: nothing was checked\n' "$oldest" >&2; exit 1; }
fi

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/versions
check() {
  local started=$SECONDS
  printf '== %s: cargo check %s\n' "$1" "${*:2}"
  cargo "+$oldest" check --quiet --all-features --lib --bins -p zookeeper-recipes -p zookeeper-testkit -p zklock "${@:2}"
  printf '   %d s\n' $((SECONDS - started))
}

check 'as in Cargo.lock' --locked

# A copy: the lock file is not touched. As it is here, committed or not; what is deleted is still in git's index.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
comm -z -23 <(git ls-files -z --cached --others --exclude-standard | sort -zu) <(git ls-files -z --deleted | sort -zu) |
  xargs -0 cp --parents -t "$copy"
cd "$copy"
rm Cargo.lock
sed -i 's/^members = .*/members = ["testkit", "zklock"]/' Cargo.toml # the others are not published
# Only the direct ones: what those below them say of theirs is not ours to mend. The option is not stable yet.
RUSTC_BOOTSTRAP=1 cargo "+$oldest" generate-lockfile --quiet -Z direct-minimal-versions
check 'the oldest direct dependencies' --locked
