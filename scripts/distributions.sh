#!/usr/bin/env bash
# Fetches the versions of ZooKeeper, Apache Curator and kazoo that Debian does not have into a cache, and prints the folder of
# each, alone, on standard output:
#
#     export ZOOKEEPER_HOME=$(scripts/distributions.sh zookeeper-3.9.5)
#     export CURATOR_HOME=$(scripts/distributions.sh curator-5.9.0)
#     export KAZOO_HOME=$(scripts/distributions.sh kazoo-2.8.0)
#
# Arguments are names, or `all`. The cache is $ZOOKEEPER_RECIPES_CACHE, by default ~/.cache/zookeeper-recipes. A name that is in
# the cache needs no network. The jars come from PyPI: the source packages of PySpark and of Apache Flink contain them. An archive
# has to have the SHA-256 that is written here. It is deleted when the jars are extracted.
set -euo pipefail

names=(zookeeper-3.5.9 zookeeper-3.6.3 zookeeper-3.7.2 zookeeper-3.9.5
  curator-2.7.1 curator-2.13.0 curator-4.2.0 curator-5.2.0 curator-5.9.0
  kazoo-2.8.0 kazoo-2.11.0)
cache=${ZOOKEEPER_RECIPES_CACHE:-$HOME/.cache/zookeeper-recipes}
[[ $cache = /* ]] || cache=$PWD/$cache
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
debian_jars=/usr/share/java
logger=(slf4j-api slf4j-log4j12 log4j-1.2)
silence=(slf4j-api slf4j-nop)
netty=('netty-'{buffer,common,codec,codec-base,handler,resolver,transport,transport-classes-epoll,transport-native-unix-common}'-[0-9]*'
  'netty-transport-native-epoll-[0-9]*-linux-'{x86_64,aarch_64})
work=

say() { printf 'distributions: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# An archive of PyPI: prints its requirement, its SHA-256 and its size in MB.
archive() {
  case $1 in
  pyspark-2.4.8) echo pyspark==2.4.8 3a19b71b8dc8dd91ebc943604a05e1ab01bce052456d42937035632d852d78dc 221 ;;
  pyspark-3.5.9) echo pyspark==3.5.9 ea27adc39ddac9413b8951e45aa748cbed6c785971b81386efc41938f6243d93 318 ;;
  pyspark-4.3.0) echo pyspark==4.3.0 e8c517948eff7088a7aa07449aa8eafa4a15a8d50319de2525a6fd26622476c6 456 ;;
  flink-1.14.6) echo apache-flink-libraries==1.14.6 0b3afc482440c831c40f796db4cd71f177d9e7c2b67e6c932b8a33f01cc51ae9 221 ;;
  flink-1.16.3) echo apache-flink-libraries==1.16.3 d15df4185e9c507836b031879b64e18f68955dd7e90cd7d39b450513ed64ebbe 237 ;;
  flink-2.3.0) echo apache-flink-libraries==2.3.0 570bf8831d3c1336311e924e97119e52d8842e5485a4a7709ff9a92db709b006 329 ;;
  esac
}

# Fills the folder $lib of a distribution.
fill() {
  case $1 in
  zookeeper-3.5.9)
    unshaded flink-1.16.3 flink-shaded-zookeeper-3.5.9.jar "$1" org/apache/zookeeper/ org/apache/jute/ io/netty/
    system_jars "${logger[@]}"
    ;;
  zookeeper-3.7.2)
    unshaded flink-2.3.0 flink-dist-2.3.0.jar "$1" org/apache/zookeeper/ org/apache/jute/ io/netty/ com/codahale/
    system_jars "${logger[@]}" snappy-java
    ;;
  zookeeper-3.6.3) server pyspark-3.5.9 ;;
  zookeeper-3.9.5) server pyspark-4.3.0 ;;
  # Each Curator comes with a client of ZooKeeper.
  curator-2.7.1) curator pyspark-2.4.8 'netty-3*' 'log4j-1.2.17*' ;;
  curator-2.13.0) curator pyspark-3.5.9 "${netty[@]}" ;;
  curator-5.9.0) curator pyspark-4.3.0 "${netty[@]}" ;;
  curator-4.2.0)
    unshaded flink-1.14.6 flink-shaded-zookeeper-3.4.14.jar "$1" org/apache/curator/ com/google/
    # The client of ZooKeeper 3.4.14 that Flink has beside it cannot connect from Java 14 on (ZOOKEEPER-3779).
    unshaded flink-1.16.3 flink-shaded-zookeeper-3.5.9.jar zookeeper-3.5.9 org/apache/zookeeper/ org/apache/jute/ io/netty/
    system_jars "${silence[@]}"
    ;;
  curator-5.2.0)
    unshaded flink-1.16.3 flink-shaded-zookeeper-3.5.9.jar "$1"
    system_jars "${silence[@]}"
    ;;
  esac
}

server() {
  jars "$1" 'zookeeper-*' 'metrics-core-*' 'snappy-java-*' 'audience-annotations-*' 'commons-cli-*' 'commons-io-*' "${netty[@]}"
  system_jars "${logger[@]}"
}

curator() {
  jars "$1" 'curator-*' 'zookeeper-*' 'guava-*' 'failureaccess-*' 'metrics-core-*' 'snappy-java-*' 'audience-annotations-*' \
    'jackson-'{core,databind,annotations,core-asl,mapper-asl}'-[0-9]*' "${@:2}"
  system_jars "${silence[@]}"
}

# An archive and patterns: copies the jars that match. Some versions have no jar for some patterns.
jars() {
  local pattern jar
  fetch "$1"
  for pattern in "${@:2}"; do
    for jar in "$work/$1/"$pattern.jar; do
      [ ! -e "$jar" ] || cp "$jar" "$lib"
    done
  done
}

# An archive, a jar of it, the name of the new jar, and folders: the classes below them with their original names.
unshaded() {
  fetch "$1"
  python3 "$here/distributions/unshade.py" "$work/$1/$2" "$lib/$3.jar" "${@:4}"
}

system_jars() {
  local jar
  for jar in "$@"; do
    [ -e "$debian_jars/$jar.jar" ] || die "there is no $debian_jars/$jar.jar, which $name needs: run scripts/setup.sh curator"
    cp -L "$debian_jars/$jar.jar" "$lib"
  done
}

# A Python with pip and the packages that the source packages need to describe themselves.
prepare_pip() {
  [ ! -e "$work/python" ] || return 0
  python3 -c 'import ensurepip, venv' 2>/dev/null || die "there is no python3 with venv, which $name needs: run scripts/setup.sh kazoo"
  python3 -m venv "$work/python"
  # If they cannot be installed, the download says why.
  run_pip install setuptools wheel || true
}

# pip keeps no copy of an archive, and compares the SHA-256 before it runs any code of one.
run_pip() {
  TMPDIR=$work/tmp "$work/python/bin/pip" --disable-pip-version-check --no-cache-dir --retries 2 "$@" >"$work/log" 2>&1
}

# The exit of a pip that failed for a requirement.
explain() {
  if grep -q 'DO NOT MATCH THE HASHES' "$work/log"; then
    die "the archive of $1 has another SHA-256 than scripts/distributions.sh: it is damaged or was replaced; run the command again, or fetch $name from another index (PIP_INDEX_URL)"
  fi
  die "cannot download $1 ($(grep '^ *ERROR\|^ *error' "$work/log" | head -n 1)): connect this machine to PyPI or set PIP_INDEX_URL, or copy $cache/$name from another machine"
}

# Downloads an archive and extracts its jars into $work/ARCHIVE.
fetch() {
  local requirement sum megabytes started=$SECONDS
  [ ! -d "$work/$1" ] || return 0
  read -r requirement sum megabytes <<<"$(archive "$1")"
  prepare_pip
  say "$requirement: fetching $megabytes MB, which takes some minutes ..."
  printf '%s --hash=sha256:%s\n' "$requirement" "$sum" >"$work/requirements"
  run_pip download --no-deps --no-binary :all: --no-build-isolation --require-hashes -r "$work/requirements" -d "$work/archive" ||
    explain "$requirement"
  mkdir "$work/$1"
  tar xzf "$work/archive/"*.tar.gz -C "$work/$1" --wildcards '*.jar' --transform 's|.*/||'
  rm -r "$work/archive"
  say "$requirement: done in $((SECONDS - started)) s"
}

# A virtual environment without pip.
kazoo() {
  local requirements
  case $1 in
  kazoo-2.8.0)
    requirements="kazoo==2.8.0 --hash=sha256:2dc46de17efc02e0ef42a9d92f3bbabce6204bbcc0792a1d9211344d0b8a03b8
six==1.17.0 --hash=sha256:4721f391ed90541fddacab5acf947aa0d3dc7d27b2e1e8eda2be8970586c3274" ;;
  kazoo-2.11.0) requirements="kazoo==2.11.0 --hash=sha256:aa6be17159540dae4087661b8d4e24c7b58d4dc26170a2d5b8468b06712d84a9" ;;
  esac
  prepare_pip
  printf '%s\n' "$requirements" >"$work/requirements"
  python3 -m venv --without-pip "$folder"
  run_pip --python "$folder/bin/python" install --no-deps --only-binary :all: --require-hashes -r "$work/requirements" || explain "${1/-/==}"
}

# Makes a distribution beside its place and moves it there in one step: another process may do the same.
provide() {
  name=$1
  [ ! -d "$cache/$name" ] || return 0
  if [ -z "$work" ]; then
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/.work.XXXXXX")
    mkdir "$work/tmp" "$work/made"
  fi
  folder=$work/made/$name
  case $name in
  kazoo-*) kazoo "$name" ;;
  *)
    lib=$folder/lib
    mkdir -p "$lib"
    fill "$name"
    ;;
  esac
  mv -T "$folder" "$cache/$name" 2>/dev/null || [ -d "$cache/$name" ] || die "cannot write $cache/$name"
  say "$name: $(du -sm "$cache/$name" | cut -f1) MB in $cache/$name"
}

clean_up() { [ -z "$work" ] || rm -rf "$work"; }
trap clean_up EXIT
trap 'exit 130' INT

wanted=("$@")
[ "$*" != all ] || wanted=("${names[@]}")
[ ${#wanted[@]} -gt 0 ] || die "name what to fetch, or \`all\`: ${names[*]}"
for name in "${wanted[@]}"; do
  [[ " ${names[*]} " = *" $name "* ]] || die "there is no \`$name\`; the names are ${names[*]}"
done
for name in "${wanted[@]}"; do
  provide "$name"
  printf '%s\n' "$cache/$name"
done
