#!/usr/bin/env bash
# Runs the suites on each version of ZooKeeper, and beside each version of Apache Curator and of kazoo. Writes the outcomes to
# scripts/versions-runs.txt, and the tables to docs/guide/versions.md. ONLY, a regular expression, chooses some of the cells by
# "VERSION SUITE": ONLY=zookeeper-3.9.5, ONLY="curator-.* takeover". The other cells stay. Exit status 1 if a cell failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

. scripts/suites.sh
page=docs/guide/versions.md
runs=scripts/versions-runs.txt
newest=zookeeper-3.9.5
logs=${CARGO_TARGET_DIR:-target}/versions-matrix
# By "VERSION SUITE": the outcome, the date, the commit and the details.
declare -A cells=()
ran=0
failed=0
unset ZOOKEEPER_HOME CURATOR_HOME KAZOO_HOME CI
trap 'rm -f "$artifacts" "$page.new" "$runs.new"' EXIT
trap 'exit 130' INT

# The version of a Debian package, or nothing.
system_version() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null | sed 's/-.*//'; }

system_zookeeper=$(system_version libzookeeper-java || true)
system_curator=$(system_version libcurator-recipes-java || true)

# A kind of software: sets `versions` and `suites`.
select_group() {
  case $1 in
  ZooKeeper)
    versions=(zookeeper-{3.5.9,3.6.3,3.7.2,3.9.5} ${system_zookeeper:+"zookeeper-$system_zookeeper"})
    suites=("library" "conformance" "test kit" "security" "zklock" "soak")
    ;;
  Curator)
    versions=(curator-{2.7.1,2.13.0,4.2.0,5.2.0,5.9.0} ${system_curator:+"curator-$system_curator"})
    suites=("interop" "takeover" "migration")
    ;;
  kazoo)
    versions=(kazoo-{2.8.0,2.11.0})
    suites=("interop" "takeover")
    ;;
  esac
  mapfile -t versions < <(printf '%s\n' "${versions[@]}" | sort -V)
}

# Sets the variables that name a version for the suites. The version of the system needs none. Other clients meet us on the
# newest server.
choose() {
  local variable
  case $1 in
  "zookeeper-$system_zookeeper" | "curator-$system_curator") ;;
  *)
    variable=$(tr a-z A-Z <<<"${1%%-*}")_HOME
    export "$variable=$(scripts/distributions.sh "$1")"
    [ -n "${!variable}" ] || return 1
    ;;
  esac
  [[ $1 = zookeeper-* ]] || choose "$newest"
}

run_suite() {
  case $1 in
  "library") on_real_servers ;;
  "conformance") conformance 200 ;;
  "test kit") run testkit --test-threads=4 ;;
  "security") run security --test-threads=4 ;;
  "zklock") run zklock --test-threads=6 ;;
  "soak") FAULTS=40 "$programs/soak" ;;
  # In CI a client that is missing is a failure.
  "interop") CI=true run interop --test-threads=8 --include-ignored --skip takeover:: --skip migration:: ;;
  "takeover") CI=true run interop --test-threads=8 --include-ignored takeover:: ;;
  "migration") CI=true run interop --test-threads=8 --include-ignored migration:: ;;
  esac
}

# Joins lines, which may have commas.
joined() { paste -sd';' | sed 's/;/; /g'; }

# The log and the exit status of a suite: prints the cell.
judge() {
  local log=$1 status=$2 passed skipped names reasons figures
  passed=$(awk '/^test result:/ { passed += $4 } END { print passed + 0 }' "$log")
  skipped=$(grep -c '^SKIPPED: ' "$log" || true)
  reasons=$(sed -n 's/^SKIPPED: //p' "$log" | sort -u | joined)
  figures=$(sed -n 's/^\(conformance\|soak\): //p' "$log" | tail -n 1 | sed 's/\(version\|servers\|recipe\)=[^ ]* //g')
  names=$(failed_tests "$log" | sed 's/^ *\(.*\)$/`\1`/' | joined)
  if [ "$status" != 0 ]; then
    printf 'failed (%s): %s, failed: %s\n' "$when" "${figures:-$passed tests}" "${names:-exit status $status}"
  else
    printf 'passed (%s): %s\n' "$when" "${figures:-$((passed - skipped)) tests}${reasons:+, $skipped skipped ($reasons)}"
  fi
}

run_cell() {
  local version=$1 suite=$2 log status=0 started=$SECONDS
  [[ "$version $suite" =~ ${ONLY:-.} ]] || return 0
  log="$logs/$version-${suite// /-}.log"
  ran=$((ran + 1))
  # In a shell of its own, which keeps the variables from the next cell.
  (choose "$version" || exit 99; run_suite "$suite" >"$log" 2>&1) || status=$?
  if [ "$status" = 99 ]; then
    cells["$version $suite"]="skipped ($when): its distribution could not be fetched"
  else
    cells["$version $suite"]=$(judge "$log" "$status")
  fi
  [[ ${cells["$version $suite"]} != failed* ]] || failed=$((failed + 1))
  printf '== %s, %s: %d s, %s\n' "$version" "$suite" $((SECONDS - started)) "${cells["$version $suite"]}"
  write_runs
  write_page
}

# Takes the cells from the runs, whose lines are "VERSION SUITE: CELL".
read_runs() {
  local cell outcome
  while IFS= read -r cell; do
    outcome=${cell#*: }
    cells["${cell%%: *}"]=$outcome
  done <"$runs"
}

# A row for each version, with the outcome of each suite, and the days and commits of the runs.
print_table() {
  local versions suites version suite cell
  select_group "$1"
  printf '\n| %s |' "$1"
  printf ' %s |' "${suites[@]}"
  printf ' run |\n| --- |'
  printf ' --- |%.0s' "${suites[@]}"
  printf ' --- |'
  for version in "${versions[@]}"; do
    printf '\n| %s |' "${version#*-}"
    for suite in "${suites[@]}"; do
      cell=${cells["$version $suite"]:-not run}
      [ "$cell" = "not run" ] || cell=${cell%% *}
      printf ' %s |' "$cell"
    done
    printf ' %s |' "$(print_dates "$version")"
  done
  printf '\n'
}

# The day and the commit of each cell of a version, without repetitions.
print_dates() {
  local suite
  for suite in "${suites[@]}"; do
    sed -n 's/^[a-z]* (\([^)]*\)).*/\1/p' <<<"${cells["$1 $suite"]:-}"
  done | sort -u | joined
}

print_runs() {
  local versions suites version suite
  select_group "$1"
  for version in "${versions[@]}"; do
    for suite in "${suites[@]}"; do
      [ -z "${cells["$version $suite"]:-}" ] || printf '%s %s: %s\n' "$version" "$suite" "${cells["$version $suite"]}"
    done
  done
}

write_runs() {
  local group
  for group in ZooKeeper Curator kazoo; do print_runs "$group"; done >"$runs.new"
  mv "$runs.new" "$runs"
}

write_page() {
  local group
  {
    cat <<'PAGE'
# Versions

The tests that pass with each version of ZooKeeper, Curator and kazoo. `make versions-matrix` runs them and writes this page. [Each run][runs]
has its number of tests, and the reasons for those that were skipped.

* **library**, **test kit**, **zklock**: their tests. **security**: those of TLS and SASL.
* **conformance**: 200 random scripts on a simulated and on a real server, without a difference.
* **soak**: workers share a lock on an ensemble of three, under 40 random faults.
* **interop**: this crate and the other client on one lock path, on the newest ZooKeeper of the table.
* **takeover**: one of them crashes or loses its session, and the other takes over.
* **migration**: the service of the guide moves from Curator to this crate.
PAGE
    for group in ZooKeeper Curator kazoo; do print_table "$group"; done
    printf '\n[runs]: %s\n' https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/scripts/versions-runs.txt
  } >"$page.new"
  mv "$page.new" "$page"
}

commit=$(git rev-parse --short HEAD)
[ -z "$(git status --porcelain -- . ":!$page" ":!$runs")" ] || commit+=' with changes'
when="$(date +%F), $commit"
mkdir -p "$logs"
[ ! -e "$runs" ] || read_runs
build
for group in ZooKeeper Curator kazoo; do
  select_group "$group"
  for version in "${versions[@]}"; do
    for suite in "${suites[@]}"; do run_cell "$version" "$suite"; done
  done
done
if [ "$ran" = 0 ]; then
  printf 'versions-matrix: ONLY=%s matches no cell; a cell is for example "%s library"\n' "$ONLY" "$newest" >&2
  exit 1
fi
printf '== %s: %d cells ran, %d failed\n' "$page" "$ran" "$failed"
[ "$failed" = 0 ]
