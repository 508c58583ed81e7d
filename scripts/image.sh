#!/usr/bin/env bash
# Makes sure that a ZooKeeper image is on this machine and prints its name, alone, on standard output:
#
#     export ZOOKEEPER_IMAGE=$(scripts/image.sh)
#
# The first of these that works: $ZOOKEEPER_IMAGE; the official image, here or pulled; an image built from Debian's
# packages (about a minute, needs root). Progress goes to standard error.
set -euo pipefail

official=zookeeper:3.9.4
built=zookeeper-recipes/zookeeper:3.8-debian
suite=bookworm
pull_seconds=${ZOOKEEPER_PULL_SECONDS:-120}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf '%s\n' "image: $*" >&2; }
die() { say "$*"; exit 1; }
present() { docker image inspect "$1" >/dev/null 2>&1; }
answer() { printf "%s\n" "$1"; exit 0; }

pull() {
  say "pulling $1 (at most $pull_seconds s)"
  local started=$SECONDS
  if timeout "$pull_seconds" docker pull "$1" >&2; then
    say "pulled in $((SECONDS - started)) s"
  else
    say "cannot pull $1"
    return 1
  fi
}

require_mmdebstrap() {
  command -v mmdebstrap >/dev/null && return
  [ "$(id -u)" = 0 ] || die "mmdebstrap is not installed and only root can install it"
  command -v apt-get >/dev/null || die "mmdebstrap is not installed and there is no apt-get to install it with"
  say "installing mmdebstrap"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap; } >&2
}

# A machine that reaches Debian only through its own mirror or proxy says so in its apt configuration.
apt_arguments() {
  local name value
  for name in Acquire::http::Proxy Acquire::https::Proxy; do
    value=$(apt-config dump --format '%v' "$name" 2>/dev/null || true)
    [ -z "$value" ] || printf '%s\n' "--aptopt=$name \"$value\""
  done
}
apt_sources() {
  local file
  for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    if [ -f "$file" ] && grep -q "$suite" "$file"; then printf '%s\n' "$file"; return; fi
  done
}

build() {
  require_mmdebstrap
  local work started=$SECONDS
  work=$(mktemp -d)
  # shellcheck disable=SC2064 # `work` is gone when the trap runs
  trap "rm -rf '$work'" EXIT
  local arguments=() sources=()
  mapfile -t arguments < <(apt_arguments)
  mapfile -t sources < <(apt_sources)

  say "building $built from Debian's packages (about a minute)"
  # The library alone: the package `zookeeper` adds its shell scripts and a desktop JRE of 200 MB.
  # The manual pages' folders stay, the JRE's set-up fails without them.
  mmdebstrap --variant=apt --include=openjdk-17-jre-headless,libzookeeper-java \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook="copy-in $here/image/entrypoint.sh /" \
    --customize-hook='chmod 755 "$1/entrypoint.sh"' \
    "${arguments[@]}" "$suite" "$work/root.tar" "${sources[@]}" 2>&1 | sed 's/^/image: /' >&2
  say "root file system ready after $((SECONDS - started)) s, $(du -m "$work/root.tar" | cut -f1) MB; importing"
  docker import \
    --change 'ENTRYPOINT ["/entrypoint.sh"]' \
    --change 'ENV ZOO_CONF_DIR=/conf ZOO_DATA_DIR=/data ZOO_DATA_LOG_DIR=/datalog ZOO_LOG_DIR=/logs' \
    --change 'VOLUME ["/data", "/datalog", "/logs"]' \
    --change 'EXPOSE 2181 2888 3888 8080' \
    --message "ZooKeeper from Debian $suite's packages" \
    "$work/root.tar" "$built" >&2
  say "built $built in $((SECONDS - started)) s"
}

command -v docker >/dev/null || die "there is no docker client; scripts/setup.sh installs one"
docker version >/dev/null 2>&1 || die "the docker daemon does not answer; scripts/setup.sh tries to start it"

if [ -n "${ZOOKEEPER_IMAGE:-}" ]; then
  present "$ZOOKEEPER_IMAGE" || pull "$ZOOKEEPER_IMAGE" || die "ZOOKEEPER_IMAGE names an image that is not here"
  answer "$ZOOKEEPER_IMAGE"
fi
for image in "$official" "$built"; do
  if present "$image"; then say "$image is here already"; answer "$image"; fi
done
if pull "$official"; then answer "$official"; fi
build
answer "$built"
