#!/usr/bin/env bash
# Builds what a release publishes of `zklock`, in `target/dist`: a static program for each Linux on x86_64, a Debian package,
# an RPM, a container image, and SHA256SUMS. The crates are those of `scripts/package.sh`. Nothing is uploaded. As root on
# Debian it installs what is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
target=x86_64-unknown-linux-musl
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
build=${CARGO_TARGET_DIR:-$PWD/target}
release=$build/$target/release
dist=$build/dist
image=zookeeper-recipes/zklock:$version

die() { printf 'release: %s\n' "$*" >&2; exit 1; }

[ -z "$(git status --porcelain)" ] || die 'commit your changes: a release is built from a commit'
scripts/setup.sh release docker
rm -rf "$dist" "$release/pages"
mkdir -p "$dist" "$release/pages"

# No file is newer than the commit, and the program names no folder of this machine.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
sources=${CARGO_HOME:-$HOME/.cargo}
export SOURCE_DATE_EPOCH CARGO_PROFILE_RELEASE_STRIP=symbols
export RUSTFLAGS="--remap-path-prefix=$PWD=. --remap-path-prefix=$sources=cargo"
export CFLAGS="-ffile-prefix-map=$sources=cargo -ffile-prefix-map=$build=target"
$cargo build --quiet --locked --release -p zklock --target "$target"
program=$release/zklock
! readelf --program-headers "$program" | grep -q INTERP || die "$program is not static"

"$program" man --dir "$release/pages"
gzip --no-name --best "$release"/pages/*.1
"$program" completions bash >"$release/pages/zklock.bash"
"$program" completions fish >"$release/pages/zklock.fish"
"$program" completions zsh >"$release/pages/_zklock"

cp "$program" "$dist/zklock-$version-x86_64"
scripts/cargo-tool.sh cargo-deb --quiet -p zklock --no-build --no-strip --target "$target" --output "$dist/" >/dev/null
scripts/cargo-tool.sh cargo-generate-rpm -p zklock --target "$target" --output "$dist/"
tar --create --directory "$release" --owner=0 --group=0 --mtime="@$SOURCE_DATE_EPOCH" --transform='s,^,usr/bin/,' zklock |
  docker import --change 'ENTRYPOINT ["/usr/bin/zklock"]' - "$image" >/dev/null
docker save "$image" | gzip --no-name >"$dist/zklock-$version-image.tar.gz"

cd "$dist"
sha256sum -- * >SHA256SUMS
ls -l --block-size=K | awk 'NR > 1 { print $NF ": " $5 }'
