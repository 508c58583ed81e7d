#!/usr/bin/env bash
# What a version number promises. The installed compiler checks every set of features, and the public API beside that of the
# last release. Then the oldest of everything that Cargo.toml allows: the packages are checked with the compiler that
# `rust-version` names (installed by rustup where it is missing), first with Cargo.lock, then with the oldest version of each
# direct dependency. Some minutes; needs a network. A house test checks that no dependency asks for a newer compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(-p zookeeper-recipes -p zookeeper-testkit -p zklock)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/versions

run() {
  local started=$SECONDS
  printf '== %s\n' "$*"
  "$@"
  printf '   %d s\n' $((SECONDS - started))
}

run scripts/cargo-tool.sh cargo-hack hack check --quiet --feature-powerset --exclude-features default "${packages[@]}"

last=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)
if [ -n "$last" ]; then
  run scripts/cargo-tool.sh cargo-semver-checks semver-checks --baseline-rev "$last" --all-features "${packages[@]:0:4}"
else
  printf '== the public API: no release yet\n'
fi

oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
has() { rustc "+$oldest" --version 2>/dev/null; }
if ! has; then
  rustup toolchain install "$oldest" --profile minimal >&2 || true
  has || { printf 'versions: no compiler %s, and rustup cannot install it: the oldest versions were not checked\n' "$oldest" >&2; exit 1; }
fi

check=(cargo "+$oldest" check --quiet --locked --all-features --lib --bins "${packages[@]}")
printf '== with the dependencies of Cargo.lock\n'
run "${check[@]}"

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
printf '== with the oldest direct dependencies\n'
run "${check[@]}"
