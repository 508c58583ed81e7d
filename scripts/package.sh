#!/usr/bin/env bash
# What would be published: the test kit, the library and zklock, each packed and built from its archive; then the library's
# examples and its documentation from the archives alone, the latter as docs.rs builds it. Nothing is uploaded.
# `publish` uploads the archives in their order, if this commit has the tag of the version and the changelog has its date.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
packages=(-p zookeeper-testkit -p zookeeper-recipes -p zklock)
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)

die() { printf 'package: %s\n' "$*" >&2; exit 1; }

if [ "${1:-}" = publish ]; then
  git tag --points-at HEAD | grep -qxF "v$version" || die "this commit does not have the tag v$version"
  grep -qE "^## ${version//./\\.} \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$" CHANGELOG.md ||
    die "CHANGELOG.md has no heading \"## $version (YYYY-MM-DD)\""
  # A token of crates.io is short-lived, and a run without `publish` has built the archives.
  exec $cargo publish --locked --no-verify "${packages[@]}"
fi

# Tests and benches are left out on purpose, each with a warning.
$cargo package --quiet --allow-dirty --all-features "${packages[@]}"
archives=$(cd "${CARGO_TARGET_DIR:-target}/package" && pwd)
ls -l --block-size=K "$archives"/*-"$version".crate | awk '{ print $NF ": " $5 }'

# Outside this folder, whose workspace cargo would find.
alone=$(mktemp -d)
trap 'rm -rf "$alone"' EXIT
for archive in "$archives"/zookeeper-*-"$version".crate; do tar --extract --gzip --file "$archive" --directory "$alone"; done
cd "$alone/zookeeper-recipes-$version"
export CARGO_TARGET_DIR=$archives/alone
printf '\n[patch.crates-io]\nzookeeper-testkit = { path = "../zookeeper-testkit-%s" }\n' "$version" >>Cargo.toml
$cargo check --quiet --examples --all-features
RUSTC_BOOTSTRAP=1 RUSTDOCFLAGS='--cfg docsrs -D warnings' $cargo doc --quiet --no-deps --lib --all-features
printf 'built from the archives alone: the examples, and the documentation as on docs.rs\n'
