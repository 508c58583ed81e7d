#!/usr/bin/env bash
# Builds each mutant of scripts/mutants.txt in a copy of the sources, and runs the tests that have to catch it. Takes `all`, or a
# pattern of the names. Exit status 1 if a mutant survives.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

. scripts/edited-sources.sh
copy_sources mutants
only="$*"
[ "$only" != all ] || only=
caught=0 survivors=()

while read_row; do
  if [ -n "$only" ] && ! [[ $name =~ $only ]]; then continue; fi
  started=$SECONDS
  test=("$cargo" test --quiet --features simulation,metrics)
  # shellcheck disable=SC2206 # several arguments
  test+=(${rest##* | })
  build_edited "${rest% | *}" "${test[@]}"
  if (cd "$tree" && timeout 300 "${test[@]}" >"$log" 2>&1); then
    survivors+=("$name")
    echo "mutants: $name: SURVIVES ($((SECONDS - started)) s)"
  else
    caught=$((caught + 1))
    echo "mutants: $name: caught in $((SECONDS - started)) s: $(grep -m1 -oE '^    [a-z_:]+' "$log" | tr -d ' ' || tail -1 "$log")"
  fi
  restore_source
done <scripts/mutants.txt

[ $((caught + ${#survivors[@]})) -gt 0 ] || { echo "mutants: none is called that"; exit 1; }
echo "mutants: $caught caught, ${#survivors[@]} survive"
[ ${#survivors[@]} = 0 ]
