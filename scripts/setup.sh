#!/usr/bin/env bash
# Installs what is missing to build and test on a bare Debian 12 machine: a compiler, Rust, Java and ZooKeeper. Run it as
# root. If all is there it prints nothing. Arguments add `curator`, `kazoo`, `docker`, `release`, the linker of a release,
# `comparison`, the servers of other ways to lock, and `files`, the checkers of `scripts/files.sh`.
set -euo pipefail

rust_version=1.88
kazoo_version=2.11.0
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
updated=

say() { printf 'setup: %s\n' "$*" >&2; }
has() { type -P "$1" >/dev/null; } # not a function of this script

# Prints the step and how long it took; its output only if it fails.
step() {
  local what=$1 started=$SECONDS log
  shift
  log=$(mktemp)
  say "$what ..."
  if "$@" >"$log" 2>&1; then
    say "$what: done in $((SECONDS - started)) s"
    rm -f "$log"
  else
    cat "$log" >&2
    rm -f "$log"
    say "$what: failed after $((SECONDS - started)) s"
    return 1
  fi
}

install() {
  has apt-get || { say "missing: $*; install them by hand, there is no apt-get"; return 1; }
  [ "$(id -u)" = 0 ] || { say "missing: $*; run this script as root"; return 1; }
  if [ -z "$updated" ]; then
    step "updating the package lists" apt-get update -q
    updated=1
  fi
  step "installing $*" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}

compiler() {
  # aws-lc-sys, which the TLS of both clients rests on, compiles C.
  local missing=()
  has cc || missing+=(gcc libc6-dev)
  has make || missing+=(make)
  has git || missing+=(git)
  has curl || missing+=(curl)
  [ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
  [ ${#missing[@]} = 0 ] || install "${missing[@]}"
}

rust() {
  # rustup's own place, for a shell that has not read its profile yet.
  has cargo || PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
  if has cargo; then
    local version
    version=$(cargo --version | cut -d' ' -f2)
    [ "$(printf '%s\n' "$rust_version" "$version" | sort -V | head -n1)" = "$rust_version" ] && return
    say "cargo is $version, but $rust_version or newer is needed: run \`rustup update stable\`"
    return 1
  fi
  # Debian 12's own Rust is 1.63, too old for the 2024 edition.
  local installer status=0
  installer=$(mktemp)
  step "downloading rustup" curl --proto '=https' --tlsv1.2 -fsS --max-time 60 -o "$installer" https://sh.rustup.rs &&
    step "installing Rust" sh "$installer" -y --profile minimal -c clippy -c rustfmt || status=$?
  rm -f "$installer"
  if [ "$status" != 0 ]; then
    say "no Rust: install $rust_version or newer by rustup (https://rustup.rs); Debian 12's own is too old"
  fi
  return "$status"
}

java_and_zookeeper() {
  local missing=()
  has java || [ -x "${JAVA_HOME:-/nowhere}/bin/java" ] || missing+=(openjdk-17-jre-headless)
  # The library is all that a server needs; the package `zookeeper` adds scripts and a desktop JRE.
  [ -n "${ZOOKEEPER_HOME:-}" ] || [ -e /usr/share/java/zookeeper.jar ] || missing+=(libzookeeper-java)
  [ ${#missing[@]} = 0 ] || install "${missing[@]}"
}

docker() {
  has docker || [ -n "${DOCKER_HOST:-}" ] || install docker.io || return
  command docker version >/dev/null 2>&1 && return
  if [ -n "${DOCKER_HOST:-}" ] || ! has dockerd || [ "$(id -u)" != 0 ]; then
    say "the Docker daemon does not answer and cannot be started from here"
    return 1
  fi
  step "starting the Docker daemon" start_dockerd
}

start_dockerd() {
  local log=/var/log/dockerd.log
  if [ -d /run/systemd/system ] && systemctl start docker; then return; fi
  # Without systemd: detached, so that it outlives this script and its terminal.
  setsid dockerd >"$log" 2>&1 </dev/null &
  local daemon=$!
  local deadline=$((SECONDS + 30))
  until command docker version >/dev/null 2>&1; do
    if [ "$SECONDS" -ge "$deadline" ] || ! kill -0 "$daemon" 2>/dev/null; then
      tail -n 20 "$log"
      return 1
    fi
    sleep 0.2
  done
}

# Only for what measures Apache Curator beside us; its source is compiled as it starts.
curator() {
  local missing=()
  has javac || missing+=(openjdk-17-jdk-headless)
  [ -e /usr/share/java/curator-recipes.jar ] || missing+=(libcurator-recipes-java)
  [ ${#missing[@]} = 0 ] || install "${missing[@]}"
}

# A virtual environment of its own below `target`, from the index that pip is set up with.
kazoo() {
  local folder=${CARGO_TARGET_DIR:-$here/../target}/kazoo
  "$folder/bin/python" -c 'import kazoo' 2>/dev/null || environment "$folder" "kazoo==$kazoo_version"
}

# Folder, packages of PyPI: makes a virtual environment with them.
environment() {
  python3 -c 'import ensurepip, venv' 2>/dev/null || install python3 python3-venv || return 1
  step "installing ${*:2}" fill_environment "$@"
}

fill_environment() {
  python3 -m venv --clear "$1" && "$1/bin/pip" install --quiet --disable-pip-version-check "${@:2}"
}

files() {
  local folder=${CARGO_TARGET_DIR:-$here/../target}/checkers
  # The last of them says that all are there.
  [ -x "$folder/bin/zizmor" ] ||
    environment "$folder" check-jsonschema==0.39.0 kubernetes-validate==1.37.0 zizmor==1.32.0 || return
  has promtool || without_services install prometheus
}

# What links a static program: the C compiler and the standard library of musl.
release() {
  local target=x86_64-unknown-linux-musl missing=()
  has musl-gcc || missing+=(musl-tools)
  [ ${#missing[@]} = 0 ] || install "${missing[@]}" || return
  [ -d "$(rustc --print target-libdir --target "$target")" ] || step "installing Rust for $target" rustup target add "$target"
}

# The servers of other ways to lock, and what their clients' build needs. Those of the system are not started: who
# measures them starts its own.
comparison() {
  local missing=() services=() failed=0 package
  has protoc || missing+=(protobuf-compiler)
  [ -e /usr/include/google/protobuf/empty.proto ] || missing+=(libprotobuf-dev)
  has redis-server || { missing+=(redis-server); services+=(redis-server); }
  has etcd || { missing+=(etcd-server); services+=(etcd); }
  has mariadbd || [ -x /usr/sbin/mariadbd ] || { missing+=(mariadb-server); services+=(mariadb); }
  [ ${#missing[@]} != 0 ] || return 0
  # One that cannot be had does not keep the others away.
  without_services install "${missing[@]}" ||
    for package in "${missing[@]}"; do without_services install "$package" || failed=1; done
  for package in "${services[@]}"; do
    # Nor when the machine is started the next time.
    if has systemctl; then systemctl disable --quiet "$package" >/dev/null 2>&1 || true; fi
    if has update-rc.d; then update-rc.d "$package" disable >/dev/null 2>&1 || true; fi
  done
  return "$failed"
}

# What is installed meanwhile starts no service, by Debian's own means for that; somebody else's rule is left alone.
without_services() {
  local policy=/usr/sbin/policy-rc.d status=0
  if [ "$(id -u)" != 0 ] || [ -e "$policy" ]; then
    "$@"
    return
  fi
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  "$@" || status=$?
  rm -f "$policy"
  return "$status"
}

failed=0
compiler || failed=1
rust || failed=1
java_and_zookeeper || failed=1
for peer in "$@"; do
  case $peer in
  curator | kazoo | docker | release | comparison | files) "$peer" || failed=1 ;;
  *) say "there is no peer called $peer" && failed=1 ;;
  esac
done
[ "$failed" = 0 ] || say "not complete, see above"
exit "$failed"
