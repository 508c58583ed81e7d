#!/usr/bin/env bash
# Builds each mutant of scripts/mutants.txt in a copy of the sources, and runs the tests that have to catch it. Takes `all`, or a
# pattern of the names. Exit status 1 if a mutant survives.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
mkdir -p "${CARGO_TARGET_DIR:-target}/mutants"
kept=$(cd "${CARGO_TARGET_DIR:-target}/mutants" && pwd)
# A target folder of its own: in a shared one cargo takes a mutant for the sound build.
export CARGO_TARGET_DIR=$kept/target
tree=$kept/tree
log=$kept/log
only="$*"
[ "$only" != all ] || only=
caught=0 survivors=()

rm -rf "$tree"
mkdir -p "$tree"
# New modification times: cargo may have built a later version of these files.
git ls-files -coz --exclude-standard | while IFS= read -r -d '' file; do
  if [ -e "$file" ]; then printf '%s\0' "$file"; fi
done | tar c --null -T - | tar xm -C "$tree"

trimmed() { sed 's/^[[:space:]]*//; s/[[:space:]]*$//' <<<"$1"; }

# The edits contain `|` themselves, so a line is split at ` | ` with spaces.
while IFS= read -r line; do
  if [ -z "$line" ] || [[ $line = \#* ]]; then continue; fi
  name=$(trimmed "${line%% | *}") rest=${line#* | }
  file=$(trimmed "${rest%% | *}") rest=${rest#* | }
  tests=$(trimmed "${rest##* | }") edit=$(trimmed "${rest% | *}")
  if [ -n "$only" ] && ! [[ $name =~ $only ]]; then continue; fi
  started=$SECONDS
  perl -0pi -e "$edit or die \"the pattern is not in the file\\n\"" "$tree/src/$file" ||
    { echo "mutants: $name: cannot be made in $file"; exit 1; }
  test=("$cargo" test --quiet --features simulation,metrics)
  # shellcheck disable=SC2206 # several arguments
  test+=($tests)
  if ! (cd "$tree" && "${test[@]}" --no-run >"$log" 2>&1); then
    cat "$log"
    echo "mutants: $name: does not compile"
    exit 1
  fi
  if (cd "$tree" && timeout 300 "${test[@]}" >"$log" 2>&1); then
    survivors+=("$name")
    echo "mutants: $name: SURVIVES ($((SECONDS - started)) s)"
  else
    caught=$((caught + 1))
    echo "mutants: $name: caught in $((SECONDS - started)) s: $(grep -m1 -oE '^    [a-z_:]+' "$log" | tr -d ' ' || tail -1 "$log")"
  fi
  cat "src/$file" >"$tree/src/$file"
done <scripts/mutants.txt

[ $((caught + ${#survivors[@]})) -gt 0 ] || { echo "mutants: none is called that"; exit 1; }
echo "mutants: $caught caught, ${#survivors[@]} survive"
[ ${#survivors[@]} = 0 ]
